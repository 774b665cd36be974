"""How a run ends, and what is done whatever ended it: status, hold, the episode's end at the worker."""

import re

import numpy as np
import pytest

from sequence_ai import InternalError, PolicyError, Unavailable
from sequence_ai.testing import error


def ended(rig):
    """The ids of the episodes that the worker was told the end of."""
    return [sent.body["episode_id"] for sent in rig.platform.to("/act/episode_end")]


def ending(rig, policy, **kwargs):
    """The outcome, after checking what holds for every ending that is not an exception."""
    states = []
    out = rig.run(policy, on_status=states.append, **kwargs)
    assert states[0] == "starting"
    assert states[-1] == "done"
    assert out.stopped_early == (out.reason != "completed")
    assert len(rig.events("hold")) == out.stopped_early
    assert ended(rig) == [body["episode_id"] for body in rig.acts()][-1:]
    assert policy.buffered == 0
    assert policy.outcome == out
    return out


def test_completed(rig):
    """max_actions rows were played: nothing is held."""
    with rig.connected() as policy:
        out = ending(rig, policy, max_actions=6)
    assert (out.reason, out.actions, out.chunks, out.action_space) == ("completed", 6, 2, "joint_absolute")


def test_until(rig):
    """until() is asked before each row; true ends the run, and the arm is held."""
    with rig.connected() as policy:
        out = ending(rig, policy, until=lambda: len(rig.played) == 3)
    assert (out.reason, out.actions) == ("until", 3)


def test_validate(rig):
    """A row that validate refuses is not played, and no row after it."""
    with rig.connected() as policy:
        out = ending(rig, policy, validate=lambda row: row[1] < 2)
    assert (out.reason, rig.played) == ("validate", [[1, 0], [1, 1]])


def test_timeout(rig):
    """max_seconds counts from the call, the first request included."""
    with rig.connected() as policy:
        out = ending(rig, policy, max_actions=10_000, max_seconds=0.62)
    assert out.reason == "timeout"
    assert 0 < out.actions < 20
    if not rig.real:
        assert out.elapsed_s == pytest.approx(0.62)


def test_a_timeout_cuts_a_request(rig):
    """max_seconds ends the wait for a chunk: the first one, which leaves nothing played, and a later one."""
    rig.delays = {1: 3.0, 3: 3.0}
    with rig.connected() as policy:
        first = rig.run(policy, max_seconds=0.3)
        assert (first.reason, first.actions, first.chunks) == ("timeout", 0, 0)
        rig.log.clear()
        later = rig.run(policy, max_seconds=0.6)
    assert (later.reason, later.actions, later.chunks, later.underruns) == ("timeout", 4, 1, 1)
    assert rig.events("hold") == [("hold", None)]
    assert first.elapsed_s < 2
    assert later.elapsed_s < 2


def test_no_time_at_all_sends_nothing(by_hand):
    """max_seconds=0 is over before anything is observed or sent."""
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_seconds=0)
        assert (out.reason, out.actions, by_hand.platform.sent) == ("timeout", 0, [])


def test_interrupted(rig):
    """interrupt() from another thread ends the run as an outcome, not as an error."""
    with rig.connected() as policy:
        rig.after(0.27, policy.interrupt)
        out = ending(rig, policy, max_actions=10_000)
    assert out.reason == "interrupted"
    assert out.actions >= 1


class BrokenError(RuntimeError):
    """What a robot's own code raises."""


def raising(rig, at):
    """A callback that raises at its call number `at`, from 1 on."""
    calls = []

    def call(*_):
        calls.append(1)
        if len(calls) == at:
            raise BrokenError("said by the test")
        return True if len(calls) < at else None

    return call


@pytest.mark.parametrize("name", ["observe", "act", "validate", "until", "on_chunk", "on_underrun", "on_status"])
@pytest.mark.parametrize("at", [1, 2])
def test_whatever_raises_the_arm_is_held_and_the_episode_ended(rig, name, at):
    """An exception of any callback comes out as it is, after hold; the worker is told that the episode is over."""
    call = raising(rig, at)
    given = {
        "observe": lambda: call() and rig.observe(),
        "act": lambda row: (call(), rig.act(row)),
        "validate": lambda row: call() or True,
        "until": lambda: call() and False,
        "on_chunk": call,
        "on_underrun": call,
        "on_status": call,
    }
    with rig.connected() as policy:
        with pytest.raises(BrokenError, match="said by the test"):
            rig.run(policy, max_actions=12, prefetch=name != "on_underrun", **{name: given[name]})
        assert rig.log[-1] == ("hold", None)
        assert len(rig.events("hold")) == 1
        assert policy.outcome.reason == "raised:BrokenError"
        assert policy.outcome.actions == len(rig.played)
        assert policy.buffered == 0
    begun = [body["episode_id"] for body in rig.acts()]
    assert ended(rig) == begun[-1:]


def test_a_hold_that_raises_still_ends_the_episode(rig):
    """What hold raises comes out, with what ended the run as its context, and the worker hears of the end."""

    def broken_hold():
        raise BrokenError("hold")

    def broken_act(row):
        raise ValueError("act")

    with rig.connected() as policy, pytest.raises(BrokenError, match="hold") as caught:
        rig.run(policy, act=broken_act, hold=broken_hold)
    assert isinstance(caught.value.__context__, ValueError)
    assert ended(rig) == [body["episode_id"] for body in rig.acts()][-1:]


def test_a_hold_that_raises_is_the_reason(by_hand):
    """Whatever ended the run before it, an outcome whose hold raised says so."""

    def broken_hold():
        raise BrokenError("hold")

    with by_hand.connected() as policy:
        with pytest.raises(BrokenError):
            by_hand.run(policy, hold=broken_hold, until=lambda: True)
        assert (policy.outcome.reason, policy.outcome.stopped_early) == ("raised:BrokenError", True)


def test_a_stop_at_the_end_of_a_chunk_is_no_underrun(by_hand):
    """An underrun is a wait: a run that is stopped as its rows are used up waited for nothing."""
    with by_hand.connected() as policy:

        def act(row):
            by_hand.act(row)
            if len(by_hand.played) == 4:
                policy.interrupt()

        assert by_hand.run(policy, act=act, prefetch=False).underruns == 0


def test_a_status_that_raises_at_the_end_still_holds(rig):
    """An on_status that fails at "done" is a run that ended badly: the arm is held, even after the last row."""

    def told(state):
        if state == "done":
            raise BrokenError("done")

    with rig.connected() as policy, pytest.raises(BrokenError):
        rig.run(policy, on_status=told)
    assert rig.log[-1] == ("hold", None)
    assert len(ended(rig)) == 1


def test_a_stop_from_the_keyboard_holds(rig):
    """KeyboardInterrupt is no Exception, and holds the arm all the same."""

    def stop(row):
        raise KeyboardInterrupt

    with rig.connected() as policy, pytest.raises(KeyboardInterrupt):
        rig.run(policy, act=stop)
    assert rig.log[-1] == ("hold", None)


@pytest.mark.parametrize(
    ("status", "code", "kind"), [(500, "policy_error", PolicyError), (503, "warming", Unavailable)]
)
def test_what_the_worker_refuses_in_mid_run_is_raised(rig, status, code, kind):
    """After the first action an error of the worker, a starting one too, is not waited out: hold, then raised."""
    with rig.connected() as policy:
        policy.predict(rig.observe())
        rig.log.clear()

        def observe():
            if rig.observed == 2:
                rig.platform.answer_next("/act", error(status, code))
            return rig.observe()

        with pytest.raises(kind):
            rig.run(policy, observe=observe, max_actions=12)
    assert rig.log[-1] == ("hold", None)
    assert len(rig.played) == 4


def test_an_answer_that_never_comes_ends_in_hold(rig):
    """In mid-run no answer within timeout_s, replays included, is an error: a lasting cut ends in hold."""
    rig.delays = {2: 60.0}
    with rig.connected(timeout_s=0.5) as policy:
        with pytest.raises(Unavailable, match="no answer"):
            rig.run(policy, max_actions=12)
        assert policy.outcome.elapsed_s < 5
    assert rig.log[-1] == ("hold", None)
    rig.platform.infer = lambda _: {}


def test_a_failure_is_no_stale_answer(by_hand):
    """However long a failure took, it is raised, not thrown away to be asked for once more: hold is not put off."""
    by_hand.delays = {3: 20.0}

    def observe():
        if by_hand.observed == 2:
            by_hand.platform.answer_next("/act", error(500, "internal"))
        return by_hand.observe()

    with by_hand.connected() as policy:
        with pytest.raises(InternalError):
            by_hand.run(policy, observe=observe, max_actions=40)
        assert policy.outcome.stale_answers == 0
    assert (by_hand.observed, by_hand.log[-1]) == (3, ("hold", None))


def test_answers_that_keep_coming_late_end_in_hold(by_hand):
    """What is thrown away and asked for again is all within timeout_s of the moment the arm ran out of rows."""
    by_hand.delays = {3: 1.9, **dict.fromkeys(range(4, 30), 19.0)}
    with by_hand.connected(timeout_s=2) as policy:
        with pytest.raises(Unavailable, match="no answer"):
            by_hand.run(policy, max_actions=40)
        assert policy.outcome.underrun_s <= 2 + 1e-6


def test_each_run_is_an_episode_of_its_own(rig):
    """An episode id is 32 random hex digits, the same in all acts of a run, unless one is given."""
    with rig.connected() as policy:
        rig.run(policy)
        rig.run(policy)
        rig.run(policy, episode_id="mine")
    ids = list(dict.fromkeys(body["episode_id"] for body in rig.acts()))
    assert len(ids) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids[:2])
    assert ids[2] == "mine"
    assert ended(rig) == ids


@pytest.mark.parametrize("ends", ["completed", "until", "validate", "timeout", "interrupted", "raised"])
def test_a_run_begins_with_nothing_of_the_one_before(rig, ends):
    """However a run ends in the middle of a chunk, with a prefetch under way, the next one plays none of its rows."""
    stop = {
        "completed": {"max_actions": 3},
        "until": {"until": lambda: len(rig.played) == 3},
        "validate": {"validate": lambda row: len(rig.played) < 3},
        "timeout": {"max_seconds": 0.24},
        "interrupted": {"act": lambda row: (rig.act(row), policy.interrupt() if len(rig.played) == 3 else None)},
        "raised": {"act": lambda row: rig.act(row) if len(rig.played) < 3 else 1 / 0},
    }
    with rig.connected() as policy:
        try:
            rig.run(policy, **{"max_actions": 100, **stop[ends]})
        except ZeroDivisionError:
            assert ends == "raised"
        asked = rig.observed
        rig.log.clear()
        rig.run(policy, max_actions=4)
        assert policy.buffered == 0
    assert [row[0] for row in rig.played] == [asked + 1] * 4


def test_what_predict_buffered_is_not_played_by_a_run(rig):
    """A run starts with an empty buffer, and leaves none for next_action."""
    with rig.connected() as policy:
        policy.predict(rig.observe())
        assert policy.buffered == 4
        rig.run(policy, max_actions=2)
        assert policy.buffered == 0
    assert rig.played == [[2, 0], [2, 1]]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"max_actions": 0}, ValueError),
        ({"max_actions": -1}, ValueError),
        ({"max_actions": None}, TypeError),
        ({"max_actions": 2.5}, TypeError),
        ({"max_actions": True}, TypeError),
        ({"lookahead": 0}, ValueError),
        ({"open_loop_horizon": 0}, ValueError),
        ({"smooth_seam": -1}, ValueError),
        ({"max_seconds": float("nan")}, ValueError),
        ({"startup_timeout_s": -1}, ValueError),
        ({"validate": 5}, TypeError),
        ({"hold": "hold"}, TypeError),
        ({"on_status": 1}, TypeError),
        ({"observe": None}, TypeError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_moves(by_hand, wrong, kind):
    """A limit that cannot be right, or a callback that is none, is refused by name, and nothing is sent."""
    with by_hand.connected() as policy:
        with pytest.raises(kind, match=next(iter(wrong))):
            by_hand.run(policy, **wrong)
        assert (by_hand.platform.sent, by_hand.log) == ([], [])


@pytest.mark.parametrize(
    "name", ["observe", "act", "validate", "hold", "until", "on_chunk", "on_underrun", "on_status"]
)
def test_an_async_callback_is_refused(by_hand, name):
    """A coroutine that nobody awaits checks, moves and holds nothing: refused before anything moves."""

    async def call(*_):
        return False

    class Awaited:
        async def __call__(self, *_):
            return False

    with by_hand.connected() as policy:
        for wrong in (call, Awaited()):
            with pytest.raises(TypeError, match=f"{name} is an async function"):
                by_hand.run(policy, **{name: wrong})
        assert (by_hand.platform.sent, by_hand.log) == ([], [])


@pytest.mark.filterwarnings("error")
def test_a_warning_made_an_error_holds_too(by_hand):
    """Where warnings are errors, a change of worker in mid-run ends in hold, with the outcome of what was played."""

    def act(row):
        by_hand.act(row)
        if len(by_hand.played) == 1:
            by_hand.replace_worker()

    with by_hand.connected() as policy:
        with pytest.raises(UserWarning, match="the worker changed"):
            by_hand.run(policy, act=act)
        out = policy.outcome
    assert (out.reason, out.actions, out.episode_resets) == ("raised:UserWarning", 4, 1)
    assert by_hand.log[-1] == ("hold", None)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"max_second": 0.5}, "did you mean 'max_seconds'"),
        ({"prefech": False}, "did you mean 'prefetch'"),
        ({"param": {}}, "did you mean 'params'"),
        ({"timeout_s": 1}, r"argument of connect\(\)"),
        ({"control_hz": 5}, r"argument of connect\(\)"),
    ],
)
def test_a_misspelt_argument_is_not_passed_on(by_hand, wrong, match):
    """Options go to the policy as they are, so a bound that was misspelt is refused, not sent and forgotten."""
    with by_hand.connected() as policy:
        with pytest.raises(TypeError, match=match):
            by_hand.run(policy, **wrong)
        by_hand.run(policy, max_actions=4, temperature_scale=0.5)
    assert by_hand.acts()[0]["temperature_scale"] == 0.5


def test_numbers_may_be_numpys(by_hand):
    """What counts as a number in numpy counts here."""
    with by_hand.connected(control_hz=np.float32(20), timeout_s=np.int64(30)) as policy:
        out = by_hand.run(policy, max_actions=np.int64(6), max_seconds=np.float32(60), open_loop_horizon=np.int8(3))
    assert (out.actions, out.chunks) == (6, 2)


def test_limits_are_keywords_and_required(by_hand):
    """run needs max_actions, act needs max_seconds above 0: there is no unbounded loop."""
    with by_hand.connected() as policy:
        with pytest.raises(TypeError, match="max_actions"):
            policy.run(by_hand.observe, by_hand.act)
        with pytest.raises(TypeError, match="max_seconds"):
            policy.act("go", by_hand.observe, by_hand.act)
        for seconds in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="max_seconds"):
                policy.act("go", by_hand.observe, by_hand.act, max_seconds=seconds)
        assert by_hand.platform.sent == []


def test_an_observation_of_another_type_is_refused(rig):
    """observe must return an Observation; anything else is a TypeError that says so, and the arm is held."""
    with rig.connected() as policy, pytest.raises(TypeError, match=r"observe\(\) returned a dict"):
        rig.run(policy, observe=dict)
    assert rig.log == [("hold", None)]


def test_an_empty_chunk_is_refused(rig):
    """A chunk without rows is an error of the policy, not a loop that asks for ever."""
    rig.rows = 0
    with rig.connected() as policy, pytest.raises(PolicyError, match="empty chunk"):
        rig.run(policy)
    assert rig.log[-1] == ("hold", None)
