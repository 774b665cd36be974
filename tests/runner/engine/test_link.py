"""Framed messages between an instance and its environment process."""

import socket

import numpy as np
import pytest

from runner.engine.link import Link, LinkClosedError, LinkTimeoutError


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield Link(ours), Link(theirs)
    ours.close()
    theirs.close()


def test_a_message_arrives_as_it_was_sent(ends) -> None:
    """Numbers keep every bit, arrays their dtype and shape."""
    here, there = ends
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    here.send({"a": 0.1 + 0.2, "image": image})
    got = there.receive(5)
    assert got["a"] == 0.1 + 0.2
    assert got["image"].dtype == np.uint8
    np.testing.assert_array_equal(got["image"], image)


def test_the_end_of_the_other_side_is_said(ends) -> None:
    """A peer that is gone is an error of its own, not an endless wait."""
    here, there = ends
    there.close()
    with pytest.raises(LinkClosedError):
        here.receive(5)


def test_silence_past_the_limit_is_said(ends) -> None:
    """A peer that does not answer is told apart from one that is gone."""
    here, _ = ends
    with pytest.raises(LinkTimeoutError, match="no answer within"):
        here.receive(0.01)


def test_what_is_not_plain_data_is_refused(ends) -> None:
    """Objects never cross: only numbers, strings, lists, dicts and numeric arrays."""
    here, _ = ends
    with pytest.raises(TypeError, match="cannot cross the wire"):
        here.send({"a": object()})
