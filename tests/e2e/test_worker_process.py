"""The policy worker as its own process: TLS, reports to a gateway, counters, and the two ways it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgpack
import pytest

from tests.e2e.workers import LIMIT_S, SECRET, Gateway, Process

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


@pytest.fixture
def worker(tmp_path: Path, gateway: Gateway) -> Iterator[Process]:
    process = Process(tmp_path, gateway, POLICY.replace("{load}", "assert weights_dir is None"))
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
    process = Process(tmp_path, gateway, POLICY.replace("{load}", "raise RuntimeError('no such weights')"))
    try:
        failed = gateway.until("failed")[-1]
        assert failed["error"] == "load failed: RuntimeError: no such weights"
        assert 'File "policy.py"' in failed["traceback"]
        assert process.child.wait(LIMIT_S) == 1
    finally:
        process.end()
