"""A policy worker started the way its host starts it, and a gateway that takes its reports: no platform, no Ray."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import queue
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from runner.fleet import certificates
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart

LIMIT_S = 60
SECRET = "worker-secret"


class Gateway:
    """Takes a worker's reports, as the real one does."""

    def __init__(self) -> None:
        self.reports: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        reports = self.reports

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reports.put((self.path + " " + self.headers["Authorization"], body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Keep the test's output quiet."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def until(self, phase: str) -> list[dict[str, Any]]:
        """Every report up to the first of this phase."""
        told = []
        while not told or told[-1]["phase"] != phase:
            door, body = self.reports.get(timeout=LIMIT_S)
            assert door == "/internal/workers/worker-1/report Bearer worker-token"
            told.append(body)
        return told


class Process:
    """A worker started the way its host starts it."""

    def __init__(self, folder: Path, gateway: Gateway, source: str, **start: Any) -> None:
        (folder / "policy.py").write_text(source, encoding="utf-8")
        self.folder = folder
        self.gateway = gateway
        self.certificate = certificates.make("worker-1", "127.0.0.1", time.time())
        told = WorkerStart(
            worker_id="worker-1",
            gateway_url=gateway.url,
            token="worker-token",
            secret=SECRET,
            tls_cert=self.certificate.cert_pem,
            tls_key=self.certificate.key_pem,
            code_dir=str(folder),
            **{"policy": PolicyDecl(handler_ref="policy:Toy"), "timeouts": Timeouts(), **start},
        )
        self.log = (folder / "log").open("wb")
        self.child = subprocess.Popen(
            [sys.executable, "-P", "-m", "runner.worker"],
            stdin=subprocess.PIPE,
            cwd=folder,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(folder)},
        )
        self.stdin.write(told.model_dump_json(exclude_none=True).encode() + b"\n")
        self.stdin.flush()

    @property
    def stdin(self) -> Any:
        """The pipe that holds it."""
        return self.child.stdin

    def client(self, url: str) -> httpx.Client:
        """A client that trusts this worker's certificate alone."""
        context = ssl.create_default_context(cadata=self.certificate.cert_pem)
        headers = {"Authorization": f"Bearer {SECRET}"}
        return httpx.Client(verify=context, base_url=url, headers=headers, trust_env=False, timeout=LIMIT_S)

    def raw(self, url: str, sent: bytes, *, tls: bool = True) -> bytes:
        """The head of what comes back on a connection of its own; nothing where the worker says nothing."""
        host, _, port = url.removeprefix("https://").rpartition(":")
        context = ssl.create_default_context(cadata=self.certificate.cert_pem)
        came = b""
        plain = socket.create_connection((host, int(port)), timeout=LIMIT_S)
        with context.wrap_socket(plain, server_hostname=host) if tls else plain as connection:
            connection.sendall(sent)
            connection.settimeout(2)
            with contextlib.suppress(OSError):
                while b"\r\n\r\n" not in came and (part := connection.recv(65536)):
                    came += part
        return came

    def end(self) -> None:
        """End whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        self.log.close()
        if not self.stdin.closed:
            self.stdin.close()
