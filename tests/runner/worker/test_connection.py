"""A copy's end of a connection: frames of any size in pieces of any size, and its limits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from selectors import EVENT_READ, EVENT_WRITE

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.worker.acts import MOST_ON_THEIR_WAY
from runner.worker.connection import (
    ANSWER_LIMIT_S,
    BUFFER_BYTES,
    HELLO_LIMIT_S,
    KEPT_BYTES,
    Connection,
    ConnectionLostError,
)
from tests.runner.worker.desks import frame


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Connection[str]]]:
    """A client's end, and the copy's, whose client is known."""
    ours, theirs = socket.socketpair()
    made: Connection[str] = Connection(theirs, now=0.0)
    made.known = True
    ours.settimeout(60)
    yield ours, made
    ours.close()
    made.close()


def taken(line: Connection[str]) -> list[bytes]:
    """The frames that are whole by now."""
    return [bytes(content) for content in line.frames()]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([0, 1, 3, 100, BUFFER_BYTES - 5, BUFFER_BYTES, 3 * BUFFER_BYTES + 1]), max_size=6),
    st.lists(st.integers(1, 2 * BUFFER_BYTES), min_size=1, max_size=6),
)
def test_frames_come_whole_whatever_the_pieces(sizes, pieces):
    """However the bytes are cut, the same frames come out, in order."""
    ours, theirs = socket.socketpair()
    line: Connection[str] = Connection(theirs, now=0.0)
    line.known = True
    contents = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    left = b"".join(map(frame, contents))
    got: list[bytes] = []
    number = 0
    with ours, theirs:
        ours.setblocking(False)
        while left:
            left = left[ours.send(left[: pieces[number % len(pieces)]]) :]
            number += 1
            for _ in range(4):
                got += taken(line)
        while len(got) < len(contents):
            got += taken(line)
    assert got == contents


def test_memory_for_a_frame_grows_with_what_came(ends):
    """A length alone takes none, and what a large frame took is given back."""
    ours, line = ends
    ours.sendall((1 << 30).to_bytes(4, "big"))
    assert taken(line) == []
    assert len(line._buffer) == BUFFER_BYTES
    ours, theirs = socket.socketpair()
    other: Connection[str] = Connection(theirs, now=0.0)
    other.known = True
    left = memoryview(frame(b"x" * (KEPT_BYTES + 1)))
    with ours, theirs:
        ours.setblocking(False)
        got: list[bytes] = []
        while not got:
            left = left[ours.send(left) :] if left else left
            got = taken(other)
            assert got or len(other._buffer) <= 2 * max(other._have, BUFFER_BYTES)
        assert len(other._buffer) == BUFFER_BYTES


@pytest.mark.parametrize(("known", "size"), [(True, (1 << 30) + 1), (False, 4097)])
def test_a_frame_may_not_be_longer_than_that(ends, known, size):
    """A gibibyte from who is known, a secret's length from who is not."""
    ours, line = ends
    line.known = known
    ours.sendall(size.to_bytes(4, "big") + b"x" * 10)
    with pytest.raises(ConnectionLostError):
        taken(line)


def test_an_end_is_told(ends):
    """End-of-file is an error to who reads, and a closed peer one to who sends."""
    ours, line = ends
    ours.close()
    with pytest.raises(ConnectionLostError):
        taken(line)
    with pytest.raises(ConnectionLostError):
        line.send(b"\0", b"x", now=0.0)


def test_an_answer_goes_as_far_as_there_is_room(ends):
    """What does not fit goes on later, whole and in order; whoever takes nothing for long is overdue."""
    ours, line = ends
    answers = [bytes([number]) * 400_000 for number in range(1, 4)]
    for answer in answers:
        line.send(b"\0", answer, now=100.0)
    assert line.events == EVENT_READ | EVENT_WRITE
    assert not line.overdue(100.0 + ANSWER_LIMIT_S)
    assert line.overdue(101.0 + ANSWER_LIMIT_S)
    came = bytearray()
    while line.events & EVENT_WRITE:
        came += ours.recv(1 << 20)
        line.flush(now=200.0)
        assert not line.overdue(101.0 + ANSWER_LIMIT_S)
    ours.settimeout(0)
    while len(came) < sum(map(len, answers)) + 5 * len(answers):
        came += ours.recv(1 << 20)
    assert came == b"".join(frame(b"\0" + answer) for answer in answers)
    assert not line.overdue(1e9)


def test_who_does_not_say_who_it_is_is_overdue(ends):
    """A limit holds until the secret was shown."""
    _, line = ends
    line.known = False
    assert not line.overdue(HELLO_LIMIT_S)
    assert line.overdue(HELLO_LIMIT_S + 0.1)
    line.known = True
    assert not line.overdue(1e9)


def test_too_many_under_way_are_not_read_on(ends):
    """Requests wait in the socket until some of those that were read are answered."""
    _, line = ends
    line.asked.extend(["act"] * (MOST_ON_THEIR_WAY - 1))
    assert line.events == EVENT_READ
    line.asked.append("act")
    assert line.events == 0
    line.asked.popleft()
    assert line.events == EVENT_READ
