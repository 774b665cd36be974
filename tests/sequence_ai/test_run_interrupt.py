"""Stopping from another thread: at once, whatever the loop is doing, and as an outcome."""

import threading
import time

import pytest

from sequence_ai import SequencesError
from sequence_ai._client import Stopped
from sequence_ai.testing import error
from tests.sequence_ai.rig import Rig

pytestmark = pytest.mark.filterwarnings("ignore:toy does not act yet")


def stopped(rig, after_s, **kwargs):
    """A run that is interrupted after so many seconds; its outcome, and how long it went on after that."""
    at = []
    with rig.connected() as policy:

        def stop():
            at.append(rig.now)
            policy.interrupt()

        rig.after(after_s, stop)
        out = rig.run(policy, max_actions=10_000, **kwargs)
        went_on_s = rig.now - at[0]
    assert (out.reason, out.stopped_early) == ("interrupted", True)
    assert rig.log[-1] == ("hold", None)
    assert all(when <= at[0] + 0.05 for when in rig.times)
    return out, went_on_s


def test_while_playing(rig):
    """Between two rows: the sleep is cut short, and no row is played any more."""
    out, went_on_s = stopped(rig, 0.28)
    assert out.actions >= 1
    if not rig.real:
        assert went_on_s == 0.0


def test_while_the_buffer_is_dry(rig):
    """A loop blocked on a chunk that takes five seconds does not wait that out."""
    rig.delays = {2: 5.0}
    out, went_on_s = stopped(rig, 0.6)
    assert (out.actions, out.chunks) == (4, 1)
    assert went_on_s < 3


def test_before_the_first_chunk(rig):
    """The first request is abandoned; nothing was played."""
    rig.delays = {1: 5.0}
    out, went_on_s = stopped(rig, 0.3)
    assert (out.actions, out.chunks) == (0, 0)
    assert went_on_s < 3


@pytest.mark.parametrize("line", [False, True], ids=["warming", "queued"])
def test_while_a_worker_or_a_place_in_line_is_waited_for(rig, line):
    """A wait for a worker that starts, or for a slot, is cut short too."""
    details = {"queue_position": 3} if line else {}
    refusals = [error(503, "unavailable" if line else "warming", retry_after_s=30, details=details) for _ in range(9)]
    rig.platform.answer_next("/v1/act/connect", *refusals)
    out, went_on_s = stopped(rig, 0.4)
    assert out.actions == 0
    assert went_on_s < 3


def test_twice_is_once(rig):
    """interrupt() may be called again, and after the run."""
    with rig.connected() as policy:
        rig.after(0.2, lambda: (policy.interrupt(), policy.interrupt()))
        assert rig.run(policy, max_actions=1000).reason == "interrupted"
        policy.interrupt()
        assert rig.run(policy, max_actions=4).reason == "completed"


def test_between_runs_it_stops_nothing(rig):
    """Each run begins anew; a wait or a predict after an interrupted run is not cut short either."""
    with rig.connected() as policy:
        policy.interrupt()
        assert rig.run(policy, max_actions=4).reason == "completed"
        policy.interrupt()
        assert policy.wait_until_ready() >= 0
        assert len(policy.predict(rig.observe()).action_chunk) == 4


def test_in_the_act_of_the_last_row(by_hand):
    """A run whose rows have all been played is complete, interrupted or not."""
    with by_hand.connected() as policy:

        def act(row):
            by_hand.act(row)
            if len(by_hand.played) == 8:
                policy.interrupt()

        assert by_hand.run(policy, act=act).reason == "completed"


def test_while_a_callback_takes_its_time(by_hand):
    """When it comes while until or validate are asked, the row they were asked about is not played."""
    with by_hand.connected() as policy:

        def validate(row):
            if len(by_hand.played) == 2:
                policy.interrupt()
            return True

        out = by_hand.run(policy, validate=validate)
    assert (out.reason, out.actions) == ("interrupted", 2)


def test_it_breaks_out_of_waiting_until_ready(rig):
    """wait_until_ready and a first predict that wait are ended by an exception that `except Exception` lets through."""
    rig.platform.documents["/v1/act/ready"] = {"ready": False, "eta_s": 60}
    with rig.connected() as policy:
        rig.after(0.2, policy.interrupt)
        with pytest.raises(Stopped):
            policy.wait_until_ready(timeout_s=60)
        rig.platform.answer_next("/v1/act/connect", error(503, "warming", retry_after_s=60))
        rig.after(0.2, policy.interrupt)
        with pytest.raises(Stopped):
            policy.predict(rig.observe())
    assert not issubclass(Stopped, Exception)


def test_no_other_call_takes_an_interrupt_away(rig):
    """A supervisor that stops the arm and then waits for the worker, or predicts, has stopped the arm."""
    with rig.connected() as policy:

        def act(row):
            rig.act(row)
            if len(rig.played) == 2:
                policy.interrupt()
                policy.wait_until_ready()
                policy.predict(rig.observe())

        out = rig.run(policy, act=act, max_actions=100)
    assert (out.reason, out.actions) == ("interrupted", 2)


@pytest.mark.e2e
def test_a_wait_in_another_thread_does_not_hear_for_the_loop():
    """Whoever waits has an alarm of its own, so a status page that waits for a worker delays no stop."""
    rig = Rig(real=True)
    rig.delays = {2: 5.0}
    with rig.connected() as policy:
        rig.platform.documents["/v1/act/ready"] = {"ready": False, "eta_s": 60}

        def wait():
            with pytest.raises(Stopped):
                policy.wait_until_ready(60, 60)

        waiting = threading.Thread(target=wait)
        rig.after(0.45, waiting.start)
        rig.after(0.8, policy.interrupt)
        out = rig.run(policy, max_actions=100)
        waiting.join()
    assert (out.reason, out.actions) == ("interrupted", 4)
    assert out.elapsed_s < 3


def test_a_predict_in_a_callback_leaves_the_run_its_rows(rig):
    """The thread that drives may ask for more in between; the run plays its own plan on."""
    with rig.connected() as policy:

        def act(row):
            rig.act(row)
            if len(rig.played) == 2:
                assert len(policy.predict(rig.observe()).action_chunk) == 4
                policy.next_action()

        out = rig.run(policy, act=act, prefetch=False, max_actions=8)
        assert policy.buffered == 0
    assert out.reason == "completed"
    assert [row[0] for row in rig.played] == [1] * 4 + [3] * 4


def test_a_run_in_a_callback_is_a_run_of_its_own(by_hand):
    """A run inside a run plays its own chunks under its own episode; the outer one goes on with its own."""
    inner = []
    with by_hand.connected() as policy:

        def act(row):
            by_hand.act(row)
            if len(by_hand.played) == 2:
                policy.run(by_hand.observe, inner.append, max_actions=4, validate=lambda row: True, episode_id="inner")

        out = by_hand.run(policy, act=act, prefetch=False, max_actions=8, episode_id="outer")
    assert (out.reason, [row[0] for row in inner]) == ("completed", [2] * 4)
    assert [row[0] for row in by_hand.played] == [1] * 4 + [3] * 4
    assert [body["episode_id"] for body in by_hand.acts()] == ["outer", "inner", "outer"]


def test_closing_stops_the_run(rig):
    """A handle closed from elsewhere stops the arm as interrupt does."""
    with rig.connected() as policy:
        rig.after(0.3, policy.close)
        out = rig.run(policy, max_actions=1000)
    assert out.reason == "interrupted"
    assert rig.log[-1] == ("hold", None)


@pytest.mark.e2e
def test_a_second_thread_is_refused_at_once():
    """While one thread drives, predict, next_action, run and act of another raise, and the run is not disturbed."""
    rig, refused = Rig(real=True), []
    with rig.connected() as policy:

        def intrude():
            time.sleep(0.25)
            for call in (
                lambda: policy.predict(rig.observe()),
                policy.next_action,
                lambda: rig.run(policy),
                lambda: policy.act("go", rig.observe, rig.act, max_seconds=1, validate=bool),
            ):
                with pytest.raises(SequencesError, match="another thread drives"):
                    call()
                refused.append(1)

        other = threading.Thread(target=intrude)
        other.start()
        out = rig.run(policy, max_actions=12)
        other.join()
    assert (out.reason, out.actions, len(refused)) == ("completed", 12, 4)
