"""Answers that no honest server gives: somebody else's, twice, half, or no answer of ours at all; and bad callers."""

from __future__ import annotations

import http.client
import json
import os
import pickle
import re
import socket
import ssl
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import httpx
import pytest

import sequence_ai
from sequence_ai import InternalError, SequencesError
from sequence_ai.testing import FakePlatform, FakeRobot, chunk
from tests.e2e.driving import deployed as deploy
from tests.e2e.driving import driving, held, seen, sound

LIMIT_S = 10


class Last(bytes):
    """The last that a connection carries."""


class Worker:
    """A worker on a raw socket, which writes for each act whatever `script` makes of the request's id and number.

    `seen` is the connections and ids in order of arrival. What the script returns as None is an honest answer.
    """

    def __init__(self, script) -> None:
        self._script = script
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.seen: list[tuple[int, str]] = []
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()
        except OSError:
            return

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader:
            try:
                while head := self._head(reader):
                    reader.read(int(head.get("content-length", 0)))
                    request_id = head.get("x-seq-request-id")
                    if request_id is None:  # an episode's end
                        connection.sendall(answer("", b"{}"))
                        continue
                    self.seen.append((number, request_id))
                    made = self._script(request_id, len(self.seen))
                    connection.sendall(honest(request_id) if made is None else made)
                    if isinstance(made, Last):
                        return
            except OSError:
                return

    def _head(self, reader) -> dict[str, str]:
        lines = iter(lambda: reader.readline().strip().decode(), "")
        next(lines, None)
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def answer(request_id: str, body: bytes, *, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    echo = f"X-Seq-Request-Id: {request_id}\r\n" if request_id else ""
    return (head + echo + "\r\n").encode() + body


def rows(value: float) -> bytes:
    return json.dumps({"action_chunk": chunk([[value, value]] * 5, hz=50)}).encode()


def value_of(request_id: str) -> float:
    """What honest rows hold."""
    return float(int(request_id.removeprefix("r-"), base=16))


def honest(request_id: str) -> bytes:
    """An answer whose rows are made of the id it answers."""
    return answer(request_id, rows(value_of(request_id)))


STRANGE = answer("r-deadbeef", rows(float(0xDEADBEEF)))


def driven(script, max_actions: int = 20) -> tuple[Worker, FakeRobot, sequence_ai.RunOutcome]:
    """A run against such a worker."""
    platform, robot, worker = FakePlatform(), FakeRobot(), Worker(script)
    try:
        with platform.served() as gateway:
            platform.connect["worker_url"] = worker.url
            with sequence_ai.connect("toy", base_url=gateway.url, api_key=platform.key) as policy:
                outcome = policy.run(**robot.callables, max_actions=max_actions, progress=False)
        return worker, robot, outcome
    finally:
        worker.close()


def asked(worker: Worker) -> list[float]:
    """What the rows of every act's honest answer are."""
    return [value_of(request_id) for _, request_id in worker.seen]


def played(robot: FakeRobot) -> list[float]:
    return list(dict.fromkeys(row[0] for row in robot.rows))


def test_an_answer_to_another_request_is_not_played() -> None:
    """An answer under a strange id is thrown away with its connection, and the act asked for again under its own."""
    worker, robot, outcome = driven(lambda request_id, number: STRANGE if number == 2 else None)
    assert outcome.reason == "completed"
    assert played(robot) == list(dict.fromkeys(asked(worker)))
    assert float(0xDEADBEEF) not in played(robot)
    (first, one), (again, same) = worker.seen[1:3]
    assert (one == same, first == again) == (True, False)


def test_an_answer_sent_twice_is_played_once() -> None:
    """The second copy waits on the connection for the next act: it is taken for no answer of that."""
    worker, robot, outcome = driven(lambda request_id, number: honest(request_id) * 2 if number == 2 else None, 30)
    assert (outcome.reason, outcome.actions) == ("completed", 30)
    assert played(robot) == list(dict.fromkeys(asked(worker)))
    assert all(robot.rows.count((value, value)) == 5 for value in played(robot))


def test_a_late_answer_of_the_request_before_is_not_played() -> None:
    """Where act 3 is answered with act 2's answer once more, act 3 is asked for again, elsewhere."""
    answers: dict[int, bytes] = {}

    def late(request_id: str, number: int) -> bytes:
        answers[number] = honest(request_id)
        return answers[2] if number == 3 else answers[number]

    worker, robot, outcome = driven(late, 30)
    assert (outcome.reason, outcome.actions) == ("completed", 30)
    assert all(robot.rows.count((value, value)) == 5 for value in played(robot))
    assert set(played(robot)) <= set(asked(worker))


@pytest.mark.parametrize("cut", [0, 20, 150, -1], ids=["nothing", "in the head", "in the body", "but a byte"])
def test_a_truncated_answer_is_asked_for_again(cut: int) -> None:
    """A connection that ends within an answer loses no row, and half a chunk is never played."""

    def half(request_id: str, number: int) -> bytes | None:
        return Last(answer(request_id, rows(1.0))[:cut]) if number == 2 else None

    worker, robot, outcome = driven(half)
    assert outcome.reason == "completed"
    assert 1.0 not in played(robot)
    assert worker.seen[1][1] == worker.seen[2][1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"[1, 2]",
        b"null",
        b'{"action_chunk": null}',
        b'{"outputs": 1}',
        b'{"action_chunk": {"steps": []}}',
    ],
)
def test_an_answer_without_a_chunk_ends_in_hold(body: bytes) -> None:
    """What is no chunk is told in a sentence; the robot does not move."""
    platform, robot, worker = FakePlatform(), FakeRobot(), Worker(lambda request_id, _: answer(request_id, body))
    with platform.served() as gateway:
        platform.connect["worker_url"] = worker.url
        policy = sequence_ai.connect("toy", base_url=gateway.url, api_key=platform.key)
        with policy, pytest.raises(SequencesError) as raised:
            policy.run(**robot.callables, max_actions=10, progress=False)
        worker.close()
    assert len(str(raised.value)) > 20
    held(robot)
    assert robot.played == []


class Bomb:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return (os.system, ("touch /nonexistent/pickled",))


@pytest.mark.parametrize("kind", ["application/json", "application/msgpack", "application/x-pickle"])
def test_a_pickle_is_no_answer(kind: str) -> None:
    """Bytes of another kind are never run: the client says that this is no answer."""
    body = pickle.dumps(Bomb())
    platform, worker = FakePlatform(), Worker(lambda request_id, _: answer(request_id, body, kind=kind))
    with platform.served() as gateway:
        platform.connect["worker_url"] = worker.url
        policy = sequence_ai.connect("toy", base_url=gateway.url, api_key=platform.key)
        with policy, pytest.raises(InternalError):
            policy.predict(1)
        worker.close()


# Bad callers of a real worker and a real gateway


@pytest.fixture(scope="module")
def platform(shared):
    return deploy(shared)


@pytest.fixture(scope="module")
def coordinates(platform) -> dict:
    """What a robot is told of the worker."""
    told = platform.api("POST", "/v1/act/connect", json={"model": "labelled", "session": "ab" * 16})
    return told.json()


def ask(coordinates: dict, method: str, path: str, content: bytes = b"", **headers: str) -> httpx.Response:
    bearer = {"Authorization": f"Bearer {coordinates['direct_secret']}"}
    with httpx.Client(verify=False, trust_env=False, timeout=LIMIT_S) as client:
        return client.request(method, coordinates["worker_url"] + path, content=content, headers={**bearer, **headers})


@pytest.mark.parametrize(
    "kind", ["application/json", "application/msgpack", "application/x-pickle", "application/octet-stream"]
)
def test_a_worker_unpickles_nothing(coordinates, kind) -> None:
    """A pickled body is refused as a bad request, whatever it calls itself, and the worker goes on."""
    refused = ask(coordinates, "POST", "/act", pickle.dumps(Bomb()), **{"Content-Type": kind})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert ask(coordinates, "GET", "/ping").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("HEAD", "/act", 405), ("GET", "/act", 405), ("POST", "/nowhere", 404)],
)
def test_a_stray_request_gets_a_clean_answer(coordinates, method, path, status) -> None:
    """A health check or a wrong path is answered in the one error shape; headers of a proxy change nothing."""
    refused = ask(coordinates, method, path, **{"X-Forwarded-For": "10.0.0.1", "Via": "1.0 proxy"})
    assert refused.status_code == status
    assert method == "HEAD" or refused.json()["detail"]


def test_an_old_http_version_is_answered(coordinates) -> None:
    """HTTP/1.0 is served and the connection closed."""
    there = urlsplit(coordinates["worker_url"])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((there.hostname, there.port), LIMIT_S) as raw, context.wrap_socket(raw) as connection:
        connection.sendall(
            f"GET /ping HTTP/1.0\r\nAuthorization: Bearer {coordinates['direct_secret']}\r\n\r\n".encode()
        )
        told = b""
        while part := connection.recv(4096):
            told += part
    assert b" 200 " in told.splitlines()[0]


def test_plain_http_at_the_tls_port_disturbs_nobody(platform, coordinates) -> None:
    """Whoever speaks no TLS gets no answer, and a robot that drives meanwhile notices nothing."""
    there = urlsplit(coordinates["worker_url"])

    def stray() -> None:
        for _ in range(20):
            plain = http.client.HTTPConnection(there.hostname, there.port, timeout=LIMIT_S)
            plain.request("GET", "/")
            with pytest.raises((http.client.HTTPException, OSError)):
                plain.getresponse()
            plain.close()

    with driving(platform) as drive:
        drive.policy.predict(seen(0))
        strays = threading.Thread(target=stray)
        drive.robot.plan("act", 3, strays.start)
        outcome = drive.run(40)
        strays.join()
        assert (outcome.reason, outcome.episode_resets) == ("completed", 0)
        sound(drive.robot)


LEAKS = """
import sequence_ai, sys, traceback
url, key, model = sys.argv[1:]
observation = sequence_ai.observation(images={}, joints=[0.0], instruction="go")
for base, name in ((url, "nothing-here"), (url, model), ("http://127.0.0.1:9", model)):
    for given in (key, key + "-wrong"):
        try:
            with sequence_ai.connect(name, base_url=base, api_key=given, startup_timeout_s=0, timeout_s=5) as policy:
                print(policy, policy.ready())
                policy.predict(observation)
        except Exception:
            traceback.print_exc()
        except BaseException as error:
            print(repr(error))
"""


def test_no_key_is_in_any_error(platform, coordinates) -> None:
    """Refusals of every kind are printed with their tracebacks: neither the key nor the worker's secret is among it."""
    key = platform.key
    command = [sys.executable, "-X", "dev", "-c", LEAKS, platform.address["url"], key, "labelled"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    told = done.stdout + done.stderr
    assert len(re.findall("Traceback", told)) >= 5
    assert key not in told
    assert coordinates["direct_secret"] not in told
    logs = "".join(path.read_text(errors="replace") for path in (platform.home / "logs").rglob("*.log"))
    assert key not in logs
    assert coordinates["direct_secret"] not in logs
