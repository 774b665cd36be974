"""Before the first action: what a run waits out, with which observation, for how long; after it, nothing."""

import httpx
import pytest

from sequence_ai import Conflict, Unavailable
from sequence_ai.testing import error

pytestmark = pytest.mark.filterwarnings("ignore:toy does not act yet")


def warming(retry_after_s=7, **fields):
    return error(503, "warming", "loading", retry_after_s=retry_after_s, **fields)


def queued(retry_after_s=4):
    details = {"queue_position": 2, "eta_s": 30, "reason": "deployment_full"}
    return error(503, "unavailable", "full", retry_after_s=retry_after_s, details=details)


def test_a_starting_worker_is_waited_out(by_hand):
    """Each wait is what the platform asks for, at least 1 s, 5 s where it says nothing, with the callback told."""
    told = []
    by_hand.platform.answer_next("/v1/act/connect", warming(7), warming(0.1), warming(None))
    with by_hand.connected(on_warming=lambda *facts: told.append(facts)) as policy:
        out = by_hand.run(policy)
    assert [retry for _, retry in told] == [7, 1, 5]
    assert (out.reason, out.underruns) == ("completed", 0)
    assert out.elapsed_s == pytest.approx(13 + 0.1 + 8 * 0.05)


def test_on_real_time_too(rig):
    """A worker that starts, then a place in line, then rows: one run, waited out."""
    rig.platform.answer_next("/v1/act/connect", warming(0.1), queued(0.1))
    with rig.connected(on_warming=lambda *_: None, on_queue=lambda *_: None) as policy:
        out = rig.run(policy)
    assert (out.reason, out.actions) == ("completed", 8)
    assert out.elapsed_s >= 3


def test_each_attempt_observes_anew(by_hand):
    """What the worker refuses while it loads is not sent again: the observation would be old."""
    by_hand.platform.answer_next("/act", warming(60), warming(60))
    with by_hand.connected() as policy:
        by_hand.run(policy, max_actions=4)
    assert [body["observation"]["proprioception"]["joint_positions"] for body in by_hand.acts()] == [
        [1.0],
        [2.0],
        [3.0],
    ]
    assert by_hand.played[0] == [3, 0]


def test_a_place_in_line_is_waited_out(by_hand):
    """Polled at the platform's pace, held to 2 to 30 s, up to a fifth later; the callback hears place and reason."""
    told = []
    by_hand.platform.answer_next("/v1/act/connect", queued(4), queued(0.1), queued(500))
    with by_hand.connected(on_queue=lambda *facts: told.append(facts)) as policy:
        by_hand.run(policy)
    assert [(position, reason) for position, _, _, reason in told] == [(2, "deployment_full")] * 3
    waits = [wait for wait in by_hand.platform.clock.waited if 1 < wait < 100]
    assert 4 <= waits[0] <= 4.8
    assert 2 <= waits[1] <= 2.4
    assert 30 <= waits[2] <= 36


def test_every_wait_is_warned_of(by_hand):
    """A wait says so with a UserWarning at the caller's line, beside the line or callback."""
    by_hand.platform.answer_next("/v1/act/connect", warming(7))
    with by_hand.connected() as policy, pytest.warns(UserWarning, match="does not act yet: loading") as caught:
        by_hand.run(policy)
    assert "tests/sequence_ai" in caught[0].filename


def test_the_budget_of_the_run_goes_before_that_of_the_handle(by_hand):
    """startup_timeout_s of run() replaces connect's; past it the error says so, and the arm is held."""
    by_hand.platform.answer_next("/v1/act/connect", *[warming(40) for _ in range(9)])
    expected = pytest.raises(Unavailable, match="startup_timeout_s=100")
    with by_hand.connected(startup_timeout_s=1000) as policy, expected as caught:
        by_hand.run(policy, startup_timeout_s=100)
    assert caught.value.warming
    assert by_hand.log == [("hold", None)]


def test_no_budget_is_no_wait(rig):
    """startup_timeout_s=0 raises what a cold worker answers, at once."""
    rig.platform.answer_next("/v1/act/connect", warming(174))
    with rig.connected() as policy, pytest.raises(Unavailable) as caught:
        rig.run(policy, startup_timeout_s=0)
    assert (caught.value.warming, caught.value.retry_after_s) == (True, 174)
    assert rig.log == [("hold", None)]


def test_never_past_max_seconds(by_hand):
    """A wait ends with the run's own time: an outcome, not an error."""
    by_hand.platform.answer_next("/v1/act/connect", *[warming(40) for _ in range(9)])
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_seconds=60)
    assert (out.reason, out.actions) == ("timeout", 0)
    assert out.elapsed_s == pytest.approx(60)


def test_a_later_run_waits_too_until_its_first_action(by_hand):
    """A worker that went cold between two runs is waited out again: nothing moves yet."""
    with by_hand.connected() as policy:
        by_hand.run(policy)
        by_hand.platform.answer_next("/act", warming(30))
        assert by_hand.run(policy).reason == "completed"


def test_after_the_first_action_nothing_is_waited_out(by_hand):
    """A worker that starts anew in mid-run is raised and the arm held: resuming from an old plan would be worse."""
    with by_hand.connected() as policy:

        def act(row):
            by_hand.act(row)
            if len(by_hand.played) == 1:
                by_hand.platform.answer_next("/act", warming(7))

        with pytest.raises(Unavailable) as caught:
            by_hand.run(policy, act=act)
    assert caught.value.warming
    assert by_hand.log[-1] == ("hold", None)
    assert len(by_hand.played) == 4  # what was known to be good is played first


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(429, "busy"), Unavailable),
        (error(503, "unavailable", details={"reason": "gpu_busy"}), Unavailable),
        (error(409, "conflict", details={"state": "failed"}), Conflict),
    ],
)
def test_anything_else_is_raised_at_once(by_hand, reply, kind):
    """A rate limit, no GPU without a place in line, and a failed build are not waited out."""
    by_hand.platform.answer_next("/v1/act/connect", reply)
    with by_hand.connected() as policy, pytest.raises(kind):
        by_hand.run(policy)
    assert by_hand.log == [("hold", None)]


def test_a_connection_that_breaks_before_the_first_action_is_made_again(by_hand):
    """A door that closes twice while it loads costs time, not the run."""
    dropped = [httpx.RemoteProtocolError("server disconnected") for _ in range(4)]
    by_hand.platform.answer_next("/v1/act/connect", *dropped)
    with by_hand.connected() as policy:
        assert by_hand.run(policy).reason == "completed"
