"""What happens in which order inside a run, and when each row is played."""

import threading
from itertools import pairwise

import pytest

from tests.sequence_ai.rig import HZ

pytestmark = pytest.mark.filterwarnings("ignore:toy does not act yet")


def calls(rig, **kwargs):
    """A run that logs every callback by name, and what it logged."""
    log = rig.log

    def noted(name, value=None):
        def call(*args):
            log.append((name, args[0] if name == "status" else None))
            return value

        return call

    with rig.connected() as policy:
        policy.run(
            rig.observe,
            rig.act,
            max_actions=4,
            validate=noted("validate", True),
            until=noted("until", False),
            on_chunk=noted("chunk"),
            on_underrun=noted("underrun"),
            on_status=noted("status"),
            hold=rig.hold,
            **kwargs,
        )
    return [f"{name}:{value}" if name == "status" else name for name, value in log]


STEP = ["until", "validate", "act"]


def test_the_order_without_prefetch(rig):
    """Chunk, then for each row: until, validate, act; the next observation only once the rows are used up."""
    rig.rows = 2
    assert calls(rig, prefetch=False) == [
        *["status:starting", "observe", "chunk", *STEP, "status:running", *STEP],
        *["observe", "chunk", "underrun", *STEP, *STEP, "status:done"],
    ]


def test_the_order_with_prefetch(rig):
    """With an answer in time, the next observation is taken while rows are left, and no underrun is told."""
    rig.rows, rig.delay_s = 2, 0.02
    assert calls(rig) == [
        *["status:starting", "observe", "chunk", *STEP, "status:running", "observe", *STEP],
        *["chunk", *STEP, *STEP, "status:done"],
    ]


def test_observing_and_acting_happen_on_the_driving_thread(rig):
    """Every callback is called on the thread that called run; only requests are made beside it."""
    with rig.connected() as policy:
        rig.run(policy, max_actions=16)
    assert rig.threads == {threading.get_ident()}


def test_rows_are_played_one_period_apart(by_hand):
    """The schedule is absolute: the time that a callback takes within a period moves no later row."""
    rig = by_hand

    def slow(row):
        rig.act(row)
        rig.spend(0.02)

    with rig.connected() as policy:
        out = rig.run(policy, act=slow, max_actions=12)
    gaps = [after - before for before, after in pairwise(rig.times)]
    assert gaps == pytest.approx([1 / HZ] * 11)
    assert out.late_ticks == 0


def test_a_late_loop_begins_its_schedule_anew(rig):
    """After a row that took several periods no rows come in a burst: at most one a period, and the delay is told."""

    def once_slow(row):
        rig.act(row)
        if len(rig.times) == 2:
            rig.spend(0.4)

    with rig.connected() as policy:
        out = rig.run(policy, act=once_slow, max_actions=8)
    gaps = [after - before for before, after in pairwise(rig.times)]
    assert gaps[1] > 0.39
    assert out.late_ticks == 1
    assert sum(gaps[2:]) >= 4.5 / HZ  # five gaps: a burst would need less than one period for all of them
    if not rig.real:
        assert gaps == pytest.approx([0.05, 0.4, *[0.05] * 5])


def test_a_little_late_is_caught_up(by_hand):
    """Within one period the schedule stands: the next row comes early enough to meet it again."""
    rig = by_hand

    def once_late(row):
        rig.act(row)
        if len(rig.times) == 2:
            rig.spend(0.08)

    with rig.connected() as policy:
        out = rig.run(policy, act=once_late, max_actions=5)
    gaps = [after - before for before, after in pairwise(rig.times)]
    assert gaps == pytest.approx([0.05, 0.08, 0.02, 0.05])
    assert out.late_ticks == 0


def test_control_hz_replaces_the_rate_of_the_chunk(by_hand):
    """connect(control_hz=) is the rate at which rows are played."""
    rig = by_hand
    with rig.connected(control_hz=50) as policy:
        rig.run(policy, max_actions=4)
    gaps = [after - before for before, after in pairwise(rig.times)]
    assert gaps == pytest.approx([0.02] * 3)


def test_the_last_row_is_given_its_period(by_hand):
    """elapsed_s runs from the call to the end of the last row's period."""
    rig = by_hand
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=4)
    assert out.elapsed_s == pytest.approx(0.1 + 4 / HZ)  # the request, then four periods


def test_the_outcome_reads_like_this(by_hand):
    """RunOutcome's text names actions, chunks, seconds and the reason; underruns and swaps where there were any."""
    rig = by_hand
    with rig.connected() as policy:
        first = rig.run(policy)
        second = policy.act("go", rig.observe, rig.act, max_seconds=0.48, prefetch=False, validate=lambda row: True)
    assert str(first) == "RunOutcome(8 actions over 2 chunks in 0.5s, completed)"
    assert str(second).startswith(
        "RunOutcome(6 actions over 2 chunks in 0.5s, 1 underruns (0.10s), 1 instruction swaps"
    )
    assert str(second).endswith("(max lag 0.00s), timeout)")
    assert repr(first) == str(first)
