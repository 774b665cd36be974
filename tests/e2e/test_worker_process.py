"""The policy worker as its own process: TLS, reports to a gateway, counters, and the two ways it ends."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgpack
import pytest

from runner.fleet import certificates
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart

LIMIT_S = 60
SECRET = "worker-secret"
POLICY = """
import pathlib
import time
import seq

@seq.policy(name="toy", gpu="cpu")
class Toy:
    @seq.load
    def load(self, weights_dir):
        {load}

    @seq.warmup
    def warmup(self):
        pass

    @seq.infer
    def infer(self, obs):
        if obs == "slow":
            time.sleep(1)
        return obs

    @seq.shutdown
    def bye(self):
        pathlib.Path(__file__).with_name("bye").touch()
"""


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


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Process:
    """A worker started the way its host starts it."""

    def __init__(self, folder: Path, gateway: Gateway, load: str) -> None:
        (folder / "policy.py").write_text(POLICY.replace("{load}", load), encoding="utf-8")
        self.folder = folder
        self.certificate = certificates.make("worker-1", "127.0.0.1", time.time())
        start = WorkerStart(
            worker_id="worker-1",
            gateway_url=gateway.url,
            token="worker-token",
            secret=SECRET,
            tls_cert=self.certificate.cert_pem,
            tls_key=self.certificate.key_pem,
            code_dir=str(folder),
            policy=PolicyDecl(handler_ref="policy:Toy"),
            timeouts=Timeouts(),
        )
        self.log = (folder / "log").open("wb")
        self.child = subprocess.Popen(
            [sys.executable, "-P", "-m", "runner.worker"],
            stdin=subprocess.PIPE,
            cwd=folder,
            stderr=self.log,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(folder)},
        )
        self.stdin.write(start.model_dump_json(exclude_none=True).encode() + b"\n")
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
        self.child.kill()
        self.child.wait()
        self.log.close()
        if not self.stdin.closed:
            self.stdin.close()


@pytest.fixture
def worker(tmp_path: Path, gateway: Gateway) -> Iterator[Process]:
    process = Process(tmp_path, gateway, "assert weights_dir is None")
    yield process
    process.end()


def test_a_worker_reports_serves_and_counts(gateway, worker):
    """It reports its phases in order, answers over TLS with the certificate it was given, and counts its acts."""
    told = gateway.until("ready")
    assert [report["phase"] for report in told] == ["start", "load", "warmup", "ready"]
    with worker.client(told[-1]["url"]) as client:
        assert client.post("/act", json={"inputs": {"x": 1}}).json()["outputs"] == {"x": 1}
        ping = client.get("/ping").json()
    assert (ping["pid"], ping["acts"], ping["errors"]) == (worker.child.pid, 1, 0)
    assert list(worker.folder.rglob("*.pem")) == []


def test_what_is_no_act_gets_a_clean_answer(gateway, worker):
    """Plain HTTP, wrong methods and paths, HTTP/1.0, a proxy's header and noise leave no traceback and harm nobody."""
    url = gateway.until("ready")[-1]["url"]
    bearer = f"Authorization: Bearer {SECRET}\r\n".encode()
    asked = {
        b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n": b"404",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n": b"404",
        b"GET /act HTTP/1.1\r\nHost: x\r\n\r\n": b"405",
        b"GET /ping HTTP/1.0\r\n" + bearer + b"\r\n": b"200",
        b"GET /ping HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1\r\n" + bearer + b"\r\n": b"200",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /ping HTTP/1.1\r\nHost: x\r\n\r\n": b"400",
        b"\x80\x04\x95\x10\x00\x00\r\n\r\n": b"400",
    }
    with worker.client(url) as client:
        for sent, status in asked.items():
            for _ in range(5):
                assert worker.raw(url, sent).split(b" ", 2)[1] == status, sent
        worker.raw(url, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", tls=False)
        worker.raw(url, b"\x00" * 600, tls=False)
        body = b'{"inputs": 1}'
        head = b"POST /act HTTP/1.1\r\nHost: x\r\n" + bearer + b"Content-Length: %d\r\n\r\n" % (len(body) + 9)
        worker.raw(url, head + body)  # a client that goes away in the middle of its body
        assert client.post("/act", json={"inputs": 2}).json()["outputs"] == 2
        assert client.get("/ping").json()["acts"] == 1
    assert (worker.folder / "log").read_text() == ""


def test_an_act_repeated_on_another_connection_runs_once(gateway, worker):
    """A client that hangs up and asks again, on a new connection and in the other encoding, costs one inference."""
    url = gateway.until("ready")[-1]["url"]
    named = {"X-Seq-Request-Id": "r-0000abcd"}
    with worker.client(url) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/act", json={"inputs": "slow"}, headers=named, timeout=0.3)
    with worker.client(url) as client:
        packed = {**named, "Content-Type": "application/msgpack"}
        answer = client.post("/act", content=msgpack.packb({"inputs": "slow"}), headers=packed)
        assert msgpack.unpackb(answer.content)["outputs"] == "slow"
        assert client.get("/ping").json()["acts"] == 1


def test_a_large_body_is_taken(gateway, worker):
    """Twenty megabytes arrive whole, in either encoding."""
    url = gateway.until("ready")[-1]["url"]
    with worker.client(url) as client:
        text = "x" * 20_000_000
        assert client.post("/act", json={"inputs": text}).json()["outputs"] == text
        answer = client.post(
            "/act", content=msgpack.packb({"inputs": text}), headers={"Content-Type": "application/msgpack"}
        )
        assert msgpack.unpackb(answer.content)["outputs"] == text


def test_a_worker_ends_with_the_pipe_that_holds_it(gateway, worker):
    """End-of-file on standard input ends it at once: whoever started it is gone."""
    gateway.until("ready")
    worker.stdin.close()
    assert worker.child.wait(LIMIT_S) == -signal.SIGKILL
    assert not (worker.folder / "bye").exists()


def test_a_worker_told_to_end_lets_the_policy_shut_down(gateway, worker):
    """SIGTERM runs the shutdown hook and ends with success."""
    gateway.until("ready")
    worker.child.terminate()
    assert worker.child.wait(LIMIT_S) == 0
    assert (worker.folder / "bye").exists()


def test_a_load_that_raises_is_reported_with_the_users_frames(gateway, tmp_path):
    """A failing load ends the process, after the gateway has heard the policy's own error."""
    process = Process(tmp_path, gateway, "raise RuntimeError('no such weights')")
    try:
        failed = gateway.until("failed")[-1]
        assert failed["error"] == "load failed: RuntimeError: no such weights"
        assert 'File "policy.py"' in failed["traceback"]
        assert process.child.wait(LIMIT_S) == 1
    finally:
        process.end()
