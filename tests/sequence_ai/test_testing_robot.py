"""The fake robot: what it writes down, and what it does when told to fail."""

import pytest

from sequence_ai import ActionChunk, Prediction
from sequence_ai.testing import FakeClock, FakeRobot


def shown(*rows, horizon=None):
    chunk = ActionChunk([list(row) for row in rows], "fake_arm", "joint_absolute", 1, 10, 0.1 * len(rows), horizon)
    return Prediction("r-1", "toy", chunk)


def test_it_writes_down_rows_with_time_and_run():
    """Each row is kept with the clock's time and the number of the run."""
    clock = FakeClock()
    robot = FakeRobot(clock)
    robot.on_status("starting")
    robot.act([1.0])
    clock.sleep(0.5)
    robot.on_status("starting")
    robot.act([2.0])
    assert [(played.when, played.row, played.run) for played in robot.played] == [
        (1000.0, (1.0,), 1),
        (1000.5, (2.0,), 2),
    ]


def test_rows_are_known_by_their_chunk():
    """A row belongs to the chunk that it was shown in, up to the horizon; one never shown belongs to none."""
    robot = FakeRobot()
    robot.on_status("starting")
    robot.on_chunk(shown([1.0], [2.0], [3.0], horizon=2))
    robot.act([1.0])
    robot.on_chunk(shown([4.0]))
    for row in ([2.0], [4.0], [5.0]):
        robot.act(row)
    assert [played.chunk for played in robot.played] == [1, 1, 2, None]


def test_rows_of_an_abandoned_chunk_are_skipped():
    """A newer chunk that was played before the older one was used up is told by its own rows."""
    robot = FakeRobot()
    robot.on_chunk(shown([1.0], [2.0]))
    robot.act([1.0])
    robot.on_chunk(shown([7.0]))
    robot.act([7.0])
    assert [played.chunk for played in robot.played] == [1, 2]


def test_a_planned_error_is_raised_once_and_not_played():
    """The nth call raises what was planned; those around it go on, and the failed row is not in the log of rows."""
    robot = FakeRobot()
    robot.plan("act", 2, OSError("bus"))
    robot.act([1.0])
    with pytest.raises(OSError, match="bus"):
        robot.act([2.0])
    robot.act([3.0])
    assert robot.rows == [(1.0,), (3.0,)]
    assert len(robot.calls("act")) == 3


def test_a_planned_deed_is_done_before_going_on():
    """What was planned as a callable is called, and the robot goes on as usual."""
    clock = FakeClock()
    robot = FakeRobot(clock)
    robot.plan("observe", 1, lambda: clock.sleep(0.2))
    assert robot.observe().proprioception.joint_positions == [1.0]
    assert robot.observe().proprioception.joint_positions == [2.0]
    assert clock.slept == [0.2]


def test_a_plan_for_nothing_is_refused():
    """A name that is no callable of a robot is answered with those there are."""
    with pytest.raises(ValueError, match="observe, act, validate"):
        FakeRobot().plan("jump", 1, OSError())
