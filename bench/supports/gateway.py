"""The least a gateway must answer for workers to report and robots to connect. No act passes it, as in the product."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from seq.contract.acts import ConnectAnswer

KEY = "seq_bench_key"


class Gateway(ThreadingHTTPServer):
    """`answers` is what connect says by model; `reports` what workers told; `captured` every act that was sent here."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, ConnectAnswer] = {}
        self.encodings: dict[str, list[str]] = {}
        self.reports: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.captured: list[bytes] = []

    def connect(self, model: str) -> dict[str, Any]:
        """The connect answer; a model without `encodings` is offered in JSON alone."""
        answer = self.answers[model].wire()
        return {**answer, "encodings": self.encodings[model]} if model in self.encodings else answer

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a client that left before its answer: a driver ends in the middle of its reports."""


@contextmanager
def serving() -> Iterator[Gateway]:
    """A gateway in a thread, until the block ends."""
    gateway = Gateway()
    thread = threading.Thread(target=gateway.serve_forever, daemon=True)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.shutdown()
        gateway.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Gateway

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/act":
            self.server.captured.append(content)
            self._say(500, {"detail": "taken", "code": "internal", "retryable": False})
        elif self.path == "/v1/act/connect":
            self._say(200, self.server.connect(json.loads(content)["model"]))
        else:
            if self.path.startswith("/internal/workers/"):
                self.server.reports.put((self.path.split("/")[3], json.loads(content)))
            self._say(200, {})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing reads it."""
