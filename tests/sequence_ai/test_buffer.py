"""The chunk buffer and the limits on what it hands out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequence_ai import ActionChunk, PolicyError, Prediction
from sequence_ai._buffer import ChunkBuffer, limited


def chunk(rows, horizon=None):
    return ActionChunk(rows, "arm", "joint_velocity", len(rows[0]), 15.0, len(rows) / 15, horizon)


def test_only_the_rows_up_to_the_horizon_are_played():
    """A chunk of 15 rows that asks to be replanned after 8 gives rows 0 to 7 and no more."""
    buffer = ChunkBuffer()
    buffer.fill(chunk([[float(row)] for row in range(15)], horizon=8))
    assert [buffer.pop(None)[0] for _ in range(len(buffer))] == list(range(8))
    with pytest.raises(IndexError):
        buffer.pop(None)


def test_a_newer_chunk_replaces_an_older_plan():
    """Rows of an older plan are never played after a newer one has come."""
    buffer = ChunkBuffer()
    buffer.fill(chunk([[1.0], [2.0]]))
    buffer.fill(chunk([[9.0]]))
    assert (len(buffer), buffer.pop(None)) == (1, [9.0])


def test_max_delta_is_measured_across_chunks():
    """The step from one chunk's last row handed out to the next chunk's first is limited too."""
    buffer = ChunkBuffer()
    limits = {"max_delta": 0.5}
    buffer.fill(chunk([[0.0]]))
    buffer.pop(limits)
    buffer.fill(chunk([[9.0], [9.0]]))
    assert [buffer.pop(limits), buffer.pop(limits)] == [[0.5], [1.0]]


def test_bounds_come_before_max_delta():
    """A row is held within its bounds, then within the step from the previous action, dimension by dimension."""
    limits = {"bounds": [[-1, 1], [-2, 2]], "max_delta": [0.5, 3]}
    assert limited([5.0, -5.0], None, limits) == [1, -2]
    assert limited([5.0, -5.0], [0.0, 0.0], limits) == [0.5, -2]


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), min_size=1))
def test_what_is_handed_out_keeps_every_declared_limit(rows):
    """Whatever a policy answers, each action is within bounds and within max_delta of the one before it."""
    previous = None
    for row in rows:
        action = limited(row, previous, {"bounds": [[-1, 1], [0, 2]], "max_delta": 0.25})
        assert -1 <= action[0] <= 1
        assert 0 <= action[1] <= 2
        if previous is not None:
            assert all(abs(now - then) <= 0.25 + 1e-9 for now, then in zip(action, previous, strict=True))
        previous = action


def test_without_limits_nothing_is_touched():
    """A policy that declares no limits gets its rows through as they are."""
    assert limited([5.0], [0.0], None) == limited([5.0], [0.0], {"bounds": None, "max_delta": None}) == [5.0]


@pytest.mark.parametrize("limits", [{"bounds": [[0, 1]]}, {"max_delta": [1.0]}])
def test_a_row_that_does_not_fit_the_limits_is_not_handed_out(limits):
    """A row of another length than the declared limits raises: no part of it is safe."""
    with pytest.raises(PolicyError, match="not handed out"):
        limited([1.0, 2.0], [0.0, 0.0], limits)


def test_a_chunk_reads_as_one_line():
    """A chunk's text names rows, dimensions, space, robot, rate, duration, and the horizon where it is shorter."""
    rows = [[0.0] * 8] * 15
    assert str(ActionChunk(rows, "droid_franka", "joint_velocity", 8, 15.0, 1.0, 8)) == (
        "ActionChunk(15 steps x 8 dims, joint_velocity, droid_franka, 15 Hz, covers 1.00s, replan after 8)"
    )
    whole = ActionChunk(rows, "droid_franka", "joint_velocity", 8, 12.5, 1.2, 15)
    assert repr(whole) == "ActionChunk(15 steps x 8 dims, joint_velocity, droid_franka, 12.5 Hz, covers 1.20s)"
    assert (len(whole), Prediction("r-1", "toy", whole).warnings) == (15, [])
