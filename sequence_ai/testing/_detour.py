"""A real platform's robots sent through bad networks, on the way to the gateway and to the workers apart.

```
with Detour("http://127.0.0.1:8000") as road, sequence_ai.connect("my-pi05", base_url=road.url) as policy:
    road.workers.delay(0.15, jitter_s=0.03)
    policy.run(...)
```
"""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import urlsplit

from sequence_ai.testing._proxy import FaultProxy

Change = Callable[[dict[str, Any]], object]

_CONNECT = "/v1/act/connect"
_OWN_HEADERS = ("connection", "content-length", "transfer-encoding", "accept-encoding", "host", "date", "server")
_LIMIT_S = 600.0


class Detour:
    """A gateway's front that passes everything on, and names a door of `workers` in place of each worker.

    `gateway` is the network to the gateway and `workers` the one to all workers; each worker's certificate, and so its
    pin, stays its own. `change(answer)` may alter each successful connect answer, such as its lease. Answers are passed
    on whole, a streamed one at its end.
    """

    def __init__(self, gateway_url: str, *, change: Change | None = None, seed: int = 0) -> None:
        self.gateway = FaultProxy(seed=seed)
        self.workers = FaultProxy(seed=seed + 1)
        self._front = _Front(gateway_url.rstrip("/"), self.workers, change)
        self._thread = threading.Thread(target=self._front.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = self.gateway.door(f"http://127.0.0.1:{self._front.server_port}")

    def close(self) -> None:
        """End both networks and the front."""
        self.gateway.close()
        self.workers.close()
        self._front.shutdown()
        self._front.server_close()
        self._thread.join()

    def __enter__(self) -> Detour:  # noqa: PYI034  typing.Self is not on 3.9, and nothing derives from this
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Front(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gateway_url: str, workers: FaultProxy, change: Change | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway_url = gateway_url
        self.workers = workers
        self.change = change

    def redirected(self, content: bytes) -> bytes:
        """A connect answer with a door in the worker's place."""
        answer = json.loads(content)
        answer["worker_url"] = self.workers.door(answer["worker_url"])
        if self.change is not None:
            self.change(answer)
        return json.dumps(answer).encode()

    def handle_error(self, *_: Any) -> None:
        """Say nothing about a client that went away: resetting connections is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are written apart, and must not wait for each other
    server: _Front

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        there = urlsplit(self.server.gateway_url)
        kind = http.client.HTTPSConnection if there.scheme == "https" else http.client.HTTPConnection
        connection = kind(there.netloc, timeout=_LIMIT_S)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
            connection.request(self.command, there.path + self.path, body=body, headers=headers)
            answer = connection.getresponse()
            self._return(answer, answer.read())
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the gateway is gone, and so is this connection to it
        finally:
            connection.close()

    def _return(self, answer: http.client.HTTPResponse, content: bytes) -> None:
        if self.path == _CONNECT and answer.status == 200:
            content = self.server.redirected(content)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815  the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """A robot's program prints nothing of this."""
