"""A robot whose own code raises, at every stage of a run: the error arrives, `hold` came, the episode is over."""

import threading
import time

import pytest

from sequence_ai import SequencesError, Unavailable
from sequence_ai.testing import FakeRobot
from tests.e2e.driving import EPISODE, driving, ended, held, seen, sound
from tests.e2e.driving import deployed as deploy

CHUNK = 10
SLOW_S = 0.3  # of an inference: six rows of the chunk before it, so that it is under way from row 3 to the end


class BrokenError(Exception):
    """Raised by the robot."""


@pytest.fixture(scope="module")
def platform(shared):
    return deploy(shared)


@pytest.fixture(scope="module")
def drive(platform):
    with driving(platform) as made:
        made.policy.predict(seen(0))
        yield made


@pytest.fixture
def robot(drive):
    """A new robot on the handle that all of these tests share: none of them may spoil it for the next."""
    object.__setattr__(drive, "robot", FakeRobot(look=seen))
    return drive.robot


NO_PREFETCH = {"prefetch": False}
IN_FLIGHT = {"params": {"sleep_s": SLOW_S}}

STAGES = [
    # call, which one, how the run is told, and the stage this is
    ("observe", 1, {}, "first"),
    ("observe", 2, {}, "prefetching"),
    ("observe", 2, NO_PREFETCH, "at a seam"),
    ("observe", 3, {"lookahead": 3}, "looking ahead"),
    *[
        (call, at, options, stage)
        for call in ("act", "validate", "until")
        for at, options, stage in (
            (1, {}, "first"),
            (5, {}, "mid-chunk"),
            (CHUNK, IN_FLIGHT, "while a prefetch is in flight"),
            (CHUNK + 1, {}, "at a seam"),
            (CHUNK + 1, NO_PREFETCH, "at a seam without prefetch"),
        )
    ],
    ("on_chunk", 1, {}, "first"),
    ("on_chunk", 2, {}, "at a seam"),
    ("on_chunk", 2, {"lookahead": 3}, "mid-chunk"),
    ("on_underrun", 1, NO_PREFETCH, "at a seam"),
    ("on_status", 1, {}, "starting"),
    ("on_status", 2, {}, "running"),
    ("on_status", 3, {}, "done"),
]


@pytest.mark.parametrize(
    ("call", "at", "options"),
    [stage[:3] for stage in STAGES],
    ids=[f"{call} {stage}" for call, _, _, stage in STAGES],
)
def test_a_callable_that_raises_ends_the_run_in_hold(drive, robot, call, at, options):
    """Its own exception comes out, `hold` was called once and nothing after it, and the worker's episode has ended."""
    broken = BrokenError(call)
    robot.plan(call, at, broken)
    with pytest.raises(BrokenError) as raised:
        drive.run(3 * CHUNK, episode_id=EPISODE, **options)
    assert raised.value is broken
    held(robot)
    sound(robot)
    assert drive.policy.outcome.reason == "raised:BrokenError"
    assert drive.policy.outcome.actions == len(robot.played)
    assert drive.policy.outcome.stopped_early
    asked = any(told.call == "on_chunk" for told in robot.told)
    assert not asked or ended(drive)


def test_after_an_error_the_next_run_begins_anew(drive, robot):
    """What the broken run had buffered or asked for is never played: the next run starts with its own first look."""
    robot.plan("act", 4, BrokenError("bus"))
    with pytest.raises(BrokenError):
        drive.run(30, **IN_FLIGHT)
    looks = len(robot.calls("observe"))
    assert drive.run(20).reason == "completed"
    from_the_next = [played for played in robot.played if played.run == 2]
    assert from_the_next[0].row[3] == looks + 1
    sound(robot)


def test_a_hold_that_raises_is_told_and_the_episode_still_ends(drive, robot):
    """When `hold` itself raises its error comes out, and the worker hears that the episode is over all the same."""
    robot.plan("hold", 1, BrokenError("brake"))
    robot.plan("until", 5, drive.policy.interrupt)
    with pytest.raises(BrokenError, match="brake"):
        drive.run(30, episode_id=EPISODE)
    held(robot)
    assert ended(drive)


def test_a_hold_that_raises_does_not_hide_why_it_was_called(drive, robot):
    """With `act` and then `hold` raising, both are told: the second with the first as its context."""
    robot.plan("act", 3, BrokenError("bus"))
    robot.plan("hold", 1, BrokenError("brake"))
    with pytest.raises(BrokenError, match="brake") as raised:
        drive.run(30, episode_id=EPISODE)
    assert str(raised.value.__context__) == "bus"
    assert ended(drive)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_ending_the_program_holds_the_robot(drive, robot, error):
    """What ends the whole program comes out as it is, after `hold`."""
    robot.plan("act", 5, error)
    with pytest.raises(type(error)):
        drive.run(30, episode_id=EPISODE)
    held(robot)
    assert ended(drive)


@pytest.mark.parametrize("call", ["observe", "on_chunk"])
@pytest.mark.parametrize("code", ["warming", "unavailable"])
def test_a_robots_own_unavailable_is_not_waited_out(drive, robot, call, code):
    """A callable that uses another service of the platform and is refused by it: that is an error of the robot."""
    robot.plan(call, 1, Unavailable("the planner is starting", code=code, status=503, retryable=True, retry_after_s=1))
    with pytest.raises(Unavailable, match="planner"):
        drive.run(10)
    held(robot)
    assert len(robot.calls(call)) == 1


def test_a_second_thread_is_refused_at_once_and_the_run_goes_on(drive, robot):
    """While one thread drives, run, predict and next_action of another raise without waiting, and nothing is mixed."""
    refused = []

    def intrude():
        deeds = (
            lambda: drive.policy.predict(seen(0)),
            lambda: drive.policy.next_action(seen(0)),
            lambda: drive.policy.run(robot.observe, robot.act, validate=robot.validate, max_actions=5),
            lambda: drive.policy.act("go", robot.observe, robot.act, validate=robot.validate, max_seconds=1),
        )
        for deed in deeds:
            began = time.monotonic()
            try:
                deed()
            except SequencesError as error:
                refused.append((error.code, time.monotonic() - began < 1))

    robot.plan("act", 5, lambda: threading.Thread(target=intrude).start())
    outcome = drive.run(40, **IN_FLIGHT)
    assert (outcome.reason, outcome.actions) == ("completed", 40)
    assert refused == [("conflict", True)] * 4
    sound(robot)


@pytest.mark.parametrize("stage", ["mid-chunk", "while a fetch is blocked", "before the first action", "twice"])
def test_a_stop_from_another_thread_never_waits(drive, robot, stage):
    """Wherever the loop is, `hold` follows `interrupt` at once, the reason is told, and nothing is raised."""
    stopped = []

    def stop():
        stopped.append(robot.clock.monotonic())
        drive.policy.interrupt()
        if stage == "twice":
            drive.policy.interrupt()

    def soon():
        threading.Timer(0.2, stop).start()

    if stage in ("mid-chunk", "twice"):
        robot.plan("act", 5, soon)
        outcome = drive.run(CHUNK * 5)
    elif stage == "while a fetch is blocked":
        robot.plan("observe", 2, soon)
        outcome = drive.run(CHUNK * 5, prefetch=False, params={"sleep_s": 2.0, "sleep_at": 2})
    else:
        robot.plan("observe", 1, soon)
        outcome = drive.run(CHUNK * 5, params={"sleep_s": 2.0})
    assert outcome.reason == "interrupted"
    assert outcome.stopped_early
    held(robot)
    assert not [told for told in robot.calls("act") if told.when > stopped[0] + 1 / 20]
    assert robot.calls("hold")[0].when - stopped[0] < 0.5
    sound(robot)


@pytest.mark.parametrize("ending", ["until", "max_seconds", "validate", "interrupt"])
def test_a_run_that_ended_mid_chunk_leaves_nothing_to_the_next(drive, robot, ending):
    """Ended in the middle of a chunk with a prefetch in flight; the next run's rows are all of its own episode."""
    options = dict(IN_FLIGHT)
    if ending == "until":
        robot.until = lambda: len(robot.played) == 7
    elif ending == "validate":
        robot.validate = lambda row: len(robot.played) < 7
    elif ending == "interrupt":
        robot.plan("act", 7, drive.policy.interrupt)
    else:
        options["max_seconds"] = 0.3 + 7 / 20
    first = drive.run(50, episode_id="first", **options)
    assert first.reason == {"max_seconds": "timeout", "interrupt": "interrupted"}.get(ending, ending)
    looks = len(robot.calls("observe"))
    object.__setattr__(drive, "robot", again := FakeRobot(look=lambda number: seen(looks + number)))
    assert drive.run(20, episode_id="second", **IN_FLIGHT).reason == "completed"
    assert again.played[0].row[2:4] == (0, looks + 1)
    assert len({played.row[4] for played in again.played}) == 1
    sound(again)


@pytest.mark.parametrize("call", ["observe", "act"])
def test_one_long_tick_is_counted_and_not_made_up_for(drive, robot, call):
    """A tick of 200 ms restarts the schedule: the rows after it keep their distance, and the overrun is told."""
    robot.plan(call, 15 if call == "act" else 2, lambda: time.sleep(0.2))
    outcome = drive.run(40, prefetch=call == "observe")
    assert outcome.reason == "completed"
    assert outcome.late_ticks >= 1
    sound(robot)
