"""The client of a copy's own socket, over sockets of this process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgpack
import numpy as np
import pytest

from runner.worker import acts
from runner.worker.acts import ActRefusedError, Acts, LineLostError, packed
from seq.contract import codec
from tests.runner.worker.desks import frame

JPEG = b"\xff\xd8\xff\xe0" * 8
ANSWER = {"outputs": [[0.5]], "perf": {"inference_ms": 1.0}}


@pytest.fixture(params=["unix", "tcp"])
def ends(request) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's and a copy's end of a stream."""
    if request.param == "unix":
        ours, theirs = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            ours = socket.create_connection(listening.getsockname())
            theirs, _ = listening.accept()
    with ours, theirs:
        yield ours, theirs


def received(line: socket.socket) -> bytes:
    """The content of the next frame."""
    size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), "big")
    return line.recv(size, socket.MSG_WAITALL)


def test_the_secret_goes_first_then_the_acts(ends):
    """Each in a frame; an answer is read as it stands, arrays made arrays."""
    ours, theirs = ends
    line = Acts.over(ours, "the-secret")
    assert received(theirs) == b"the-secret"
    array = {"__nd__": ["<f4", [1], b"\0\0\x80?"]}
    theirs.sendall(frame(b"\0" + msgpack.packb({**ANSWER, "outputs": {"a": array}})))
    answer = line.ask({"inputs": {"a": np.ones(1, "f4")}, "seed": 3})
    asked = msgpack.unpackb(received(theirs))
    assert asked.pop("sent_s") > 0
    assert asked == {"inputs": {"a": array}, "seed": 3}
    assert answer["perf"] == ANSWER["perf"]
    assert (answer["outputs"]["a"].dtype, answer["outputs"]["a"].tolist()) == ("float32", [1.0])


def test_several_acts_may_be_under_way(ends):
    """Sent one after the other, answered in order; the end of an episode has no answer."""
    ours, theirs = ends
    line = Acts.over(ours)
    for number in range(3):
        line.send({"inputs": number})
    line.end_episode("e1")
    assert [msgpack.unpackb(received(theirs))["inputs"] for _ in range(3)] == [0, 1, 2]
    assert msgpack.unpackb(received(theirs)) == {"episode_end": "e1"}
    theirs.sendall(b"".join(frame(b"\0" + msgpack.packb({**ANSWER, "outputs": number})) for number in range(3)))
    assert [line.receive()["outputs"] for _ in range(3)] == [0, 1, 2]


def test_a_refusal_is_raised_with_its_parts_and_the_line_goes_on(ends):
    """Code, sentence, hint and details are the error's own."""
    ours, theirs = ends
    line = Acts.over(ours)
    body = {"detail": "no", "code": "unavailable", "retryable": True, "retry_after_s": 1, "details": {"reason": "x"}}
    theirs.sendall(frame(b"\1" + json.dumps({**body, "request_id": "r-1"}).encode()))
    with pytest.raises(ActRefusedError, match="no") as refused:
        line.ask({"inputs": 1})
    told = refused.value
    assert (told.code, told.retryable, told.retry_after_s, told.details) == ("unavailable", True, 1, {"reason": "x"})
    assert (told.request_id, told.hint) == ("r-1", None)
    theirs.sendall(frame(b"\0" + msgpack.packb(ANSWER)))
    assert line.ask({"inputs": 1}) == ANSWER


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0\0",
        b"\0\0\0\5\0ab",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        frame(b"\0"),
        frame(b"\0\xc1"),
        frame(b"\0\x91" + b"\x91" * 3000),
        frame(b"\0" + msgpack.packb([1])),
        frame(b"\0" + msgpack.packb({"outputs": {"__nd__": ["|O", [1], b"12345678"]}})),
        frame(b"\1{"),
        frame(b"\1[]"),
        frame(b"\2" + msgpack.packb(ANSWER)),
    ],
)
def test_what_is_no_answer_loses_the_line(ends, sent):
    """End-of-file, half an answer and what cannot be read are one error, and nothing more is read from the line."""
    ours, theirs = ends
    line = Acts.over(ours)
    line.send({"inputs": 1})
    theirs.sendall(sent)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(LineLostError):
        line.receive()
    assert ours.fileno() == -1
    with pytest.raises(LineLostError):
        line.ask({"inputs": 1})


def test_a_copy_that_says_nothing_is_given_up(ends):
    """After the limit, and not before an answer that came in time was read."""
    ours, theirs = ends
    line = Acts.over(ours, limit_s=0.05)
    theirs.sendall(frame(b"\0" + msgpack.packb(ANSWER)))
    assert line.ask({"inputs": 1}) == ANSWER
    with pytest.raises(LineLostError, match="timed out"):
        line.ask({"inputs": 1})


def test_a_body_larger_than_the_buffers_goes_whole(ends):
    """However slowly it is taken."""
    ours, theirs = ends
    line = Acts.over(ours)
    taken = []
    reading = threading.Thread(target=lambda: taken.append(received(theirs)))
    reading.start()
    line.send({"inputs": "x" * 30_000_000})
    reading.join()
    assert len(msgpack.unpackb(taken[0], max_str_len=1 << 30)["inputs"]) == 30_000_000


def test_a_body_over_the_limit_is_not_sent(ends, monkeypatch):
    """It is refused here, and the line goes on."""
    monkeypatch.setattr(acts, "MOST_BYTES", 1000)
    ours, theirs = ends
    line = Acts.over(ours)
    with pytest.raises(ValueError, match="at most 1000"):
        line.send({"inputs": "x" * 1000})
    line.send({"inputs": 1})
    assert msgpack.unpackb(received(theirs))["inputs"] == 1


def test_an_observation_is_written_as_the_copy_reads_it():
    """Frames as they are, vectors of numpy's as lists of numbers."""
    seen = {"images": [{"view": "a", "data": JPEG}], "state": {"x": np.arange(2.0), "y": (np.float32(0.5), 1)}}
    read = codec.parse(packed({"observation": seen}), "msgpack")
    assert read == {"observation": {"images": [{"view": "a", "data": JPEG}], "state": {"x": [0.0, 1.0], "y": [0.5, 1]}}}


def test_inputs_are_written_as_a_robots_client_writes_them():
    """Keys are text, arrays keep their type; what is no plain data is refused before it is sent."""
    body = {"inputs": {1: (True, None), None: np.int16(3), "a": np.zeros((1, 2), "u1")}}
    read = codec.parse(packed(body), "msgpack")
    assert read == {"inputs": {"1": [True, None], "null": 3, "a": {"__nd__": ["|u1", [1, 2], b"\0\0"]}}}


@pytest.mark.parametrize("value", [b"raw", {1, 2}, float("nan"), object(), 2**70])
def test_what_cannot_be_written_is_not_sent(ends, value):
    """The line goes on."""
    ours, theirs = ends
    line = Acts.over(ours)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        line.send({"inputs": {"a": value}})
    line.send({"inputs": 1})
    assert msgpack.unpackb(received(theirs))["inputs"] == 1


def test_nobody_listens():
    """A name at which no copy is."""
    with pytest.raises(LineLostError, match="no copy listens as seq-nobody"):
        Acts("seq-nobody", "the-secret")


def test_the_protocol_is_light():
    """An environment's process imports it without the worker, its server, pydantic or numpy."""
    heavy = ["asyncio", "pydantic", "starlette", "uvicorn", "httpx", "numpy", "runner.worker.parse", "runner.errors"]
    told = f"import sys, runner.worker.acts; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "[]\n"
