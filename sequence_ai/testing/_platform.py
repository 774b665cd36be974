"""A gateway and a worker in process."""

from __future__ import annotations

import hmac
import random
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Union

import httpx

from sequence_ai import _wire
from sequence_ai._codec import CONTENT_TYPES, JSON, MSGPACK
from sequence_ai._transport import Edge, edge_in_place
from sequence_ai.testing._clock import FakeClock

Reply = Union[httpx.Response, Exception]

ACTION: Mapping[str, Any] = {
    "robot": "fake_arm",
    "action_space": "joint_absolute",
    "action_dim": 2,
    "control_frequency_hz": 10,
}


@dataclass(frozen=True)
class Sent:
    """One request as a server saw it: `server` is "gateway" or "worker"."""

    server: str
    path: str
    body: Any
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Served:
    """A running server: its address, and the connections made to it so far, as client ports."""

    url: str
    port: int
    peers: list[int]


def chunk(rows: list[list[float]], *, horizon: int | None = None, hz: float = 10) -> dict[str, Any]:
    """The wire's `action_chunk` of these rows."""
    return {
        **ACTION,
        "action_dim": len(rows[0]) if rows else ACTION["action_dim"],
        "control_frequency_hz": hz,
        "steps": [{"index": index, "values": row} for index, row in enumerate(rows)],
        "covers_seconds": len(rows) / hz,
        "open_loop_horizon": horizon,
    }


def error(status: int, code: str, detail: str = "said by the test", **fields: Any) -> httpx.Response:
    """An error answer of the platform."""
    return httpx.Response(
        status, json={"detail": detail, "code": code, "retryable": status in (429, 502, 503, 504), **fields}
    )


class FakePlatform:
    """A gateway and one worker as a plain function from request to response.

    `infer` gets an act's body and returns the answer's body. `next_answers` holds, by path, what to answer or raise
    before going on as usual; `connect` is the connect answer, free to be changed; `sent` is everything received.
    """

    key = "seq_test_key"
    url = "http://gateway.test"

    def __init__(
        self,
        *,
        infer: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        worker_url: str = "http://worker.test",
        fingerprint: str = "ab" * 32,
        observation: Mapping[str, Any] | None = None,
        action: Mapping[str, Any] | None = ACTION,
    ) -> None:
        self.infer = infer or (lambda _: {"action_chunk": chunk([[0.0, 0.0], [1.0, 1.0]])})
        self.connect: dict[str, Any] = {
            "worker_url": worker_url,
            "cert_fingerprint": fingerprint,
            "direct_secret": "worker-secret",
            "lease": {"ttl_s": 300, "epoch": 1},
            "action": None if action is None else dict(action),
            "observation": None if observation is None else dict(observation),
        }
        self.documents: dict[str, Any] = {
            "/v1/act/ready": {"ready": True, "eta_s": None, "status": "running"},
            "/v1/models": {"data": []},
            "/v1/templates": {"data": []},
            "/v1/account": {"balance": {"balance": 0, "currency": "usd"}, "usage": {}, "limits": {}},
            "/v1/pricing": {
                "gpus": [],
                "cpu": {"usd_per_core_hour": 0},
                "memory": {"usd_per_gib_hour": 0},
                "regions": [],
            },
        }
        self.next_answers: dict[str, list[Reply]] = {}
        self.sent: list[Sent] = []
        self.clock = FakeClock()

    @contextmanager
    def in_place(self) -> Iterator[FakePlatform]:
        """Every request of this client goes to this platform, and every wait to its clock, until the block ends."""
        edge = Edge(lambda _fingerprint: httpx.MockTransport(self), self.clock, random.Random(0))  # noqa: S311
        with edge_in_place(edge):
            yield self

    @contextmanager
    def served(self, tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Served]:
        """This platform behind a real socket of this machine, in a thread, until the block ends.

        One such server answers for gateway and worker alike; two of them, one with `tls`, keep the two apart.
        """
        server = _Server(self, port)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield Served(f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", server.server_port, server.peers)
        finally:
            server.shutdown()
            server.close_connections()
            server.server_close()
            thread.join()

    def answer_next(self, path: str, *replies: Reply) -> None:
        """Answer the next requests for `path` with these, or raise them where they are exceptions."""
        self.next_answers.setdefault(path, []).extend(replies)

    def to(self, path: str) -> list[Sent]:
        """What was sent to `path`, oldest first."""
        return [request for request in self.sent if request.path == path]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """The answer to one request."""
        path = request.url.path
        worker = not path.startswith("/v1/")
        content = request.read()
        body = _wire.loads(content, request.headers.get("Content-Type", "")) if content else None
        self.sent.append(Sent("worker" if worker else "gateway", path, body, dict(request.headers)))
        waiting = self.next_answers.get(path)
        if waiting:
            reply = waiting.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply
        return self._worker(request, path, body) if worker else self._gateway(request, path)

    def _gateway(self, request: httpx.Request, path: str) -> httpx.Response:
        public = path in ("/v1/models", "/v1/templates", "/v1/pricing")
        if not public and not _bears(request, self.key):
            return error(401, "unauthenticated", "the key is unknown")
        if path == "/v1/act/connect":
            return httpx.Response(200, json=self.connect)
        if path in ("/v1/act/release", "/v1/latency") or path.endswith("/label"):
            return httpx.Response(200, json={})
        if path in self.documents:
            return httpx.Response(200, json=self.documents[path])
        return error(404, "not_found", f"there is no {path}")

    def _worker(self, request: httpx.Request, path: str, body: Any) -> httpx.Response:
        if not _bears(request, self.connect["direct_secret"]):
            return error(401, "unauthenticated", "the worker secret is stale")
        if path.endswith("/act"):
            request_id = request.headers["X-Seq-Request-Id"]
            kind = request.headers.get("Content-Type", "")
            encoding = MSGPACK if kind == CONTENT_TYPES[MSGPACK] else JSON
            answer = _wire.dumps(dict(self.infer(body)), encoding)
            headers = {"X-Seq-Request-Id": request_id, "Content-Type": CONTENT_TYPES[encoding]}
            return httpx.Response(200, content=answer, headers=headers)
        if path.endswith("/act/episode_end"):
            return httpx.Response(200, json={})
        return error(404, "not_found", f"there is no {path}")


def _bears(request: httpx.Request, secret: str) -> bool:
    return hmac.compare_digest(request.headers.get("Authorization", ""), f"Bearer {secret}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, platform: FakePlatform, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.platform = platform
        self.peers: list[int] = []
        self._open: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self.peers.append(peer[1])
        self._open.append(connection)
        return connection, peer

    def close_connections(self) -> None:
        """End what a client kept open, as a server that goes away does."""
        for connection in self._open:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: Any) -> None:
        """Say nothing about a client that went away: tests make them do that."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are written apart, and must not wait for each other
    server: _Server

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = f"http://{self.headers['Host']}{self.path}"
        reply = self.server.platform(httpx.Request(self.command, url, headers=dict(self.headers), content=content))
        self.send_response(reply.status_code)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.content)

    do_GET = do_POST = _answer  # noqa: N815  the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """Requests are in `FakePlatform.sent`."""
