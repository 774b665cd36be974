"""When the next chunk is asked for, what is played of it, and what late answers do."""

from itertools import pairwise

import pytest

PERIOD = 0.05


def observed_after(rig):
    """How many rows had been played when each observation was taken."""
    played, found = 0, []
    for kind, _ in rig.events("observe", "act"):
        found += [played] if kind == "observe" else []
        played += kind == "act"
    return found


def test_the_next_request_is_made_while_rows_are_left(by_hand):
    """It starts once what is left to play is no more than 1.25 of the usual round trip and one period."""
    by_hand.rows, by_hand.delay_s = 10, 0.2
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_actions=30)
    assert observed_after(by_hand) == [0, 4, 14]  # 6 rows left: 0.3 s <= 1.25 * 0.2 s + 0.05 s
    assert (out.underruns, out.chunks) == (0, 3)
    assert [after - before for before, after in pairwise(by_hand.times)] == pytest.approx([PERIOD] * 29)


def test_with_an_answer_in_time_the_arm_never_waits(rig):
    """Whatever the round trip up to 0.6 of a chunk: no underrun."""
    rig.rows = 10
    rig.delay_s = 0.3
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=40)
    assert (out.underruns, out.underrun_s) == (0, 0.0)
    assert [row[1] for row in rig.played] == list(range(10)) * 4


def test_without_prefetch_each_chunk_is_asked_for_with_the_newest_observation(rig):
    """prefetch=False asks when the rows are used up: an underrun at each boundary, as long as the round trip."""
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=16, prefetch=False, on_underrun=lambda s: rig.log.append(("dry", s)))
    assert observed_after(rig) == [0, 4, 8, 12]
    assert out.underruns == 3
    assert out.underrun_s == pytest.approx(sum(s for _, s in rig.events("dry")))
    assert out.underrun_s >= 0.3 - 1e-6
    assert out.max_observation_age_rows == 0
    if not rig.real:
        assert out.underrun_s == pytest.approx(0.3)


def test_nothing_is_asked_for_past_max_actions(rig):
    """What would not be played any more is not asked for."""
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=8)
        assert (len(rig.acts()), out.chunks) == (2, 2)
        out = rig.run(policy, max_actions=3)
        assert (len(rig.acts()), out.chunks) == (3, 1)


def test_a_slow_first_answer_counts_only_until_the_second(by_hand):
    """The cold call is left out of the usual round trip as soon as there is another."""
    by_hand.rows, by_hand.delay_s = 10, 0.1
    by_hand.delays = {1: 5.0}
    with by_hand.connected() as policy:
        by_hand.run(policy, max_actions=40)
    # At once after the cold one; then 0.15 s <= 1.25 * 0.1 s + 0.05 s: three rows before the end.
    assert observed_after(by_hand) == [0, 0, 17, 27]


@pytest.mark.parametrize(("lookahead", "asked_after"), [(2, [0, 0, 1, 5]), (3, [0, 0, 0, 1]), (5, [0, 0, 0, 0])])
def test_lookahead_keeps_so_many_chunks(by_hand, lookahead, asked_after):
    """From 2 on, chunks whose rows are untouched and those asked for are kept at that number, never past the end."""
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_actions=16, lookahead=lookahead)
    assert observed_after(by_hand) == asked_after
    assert [row[0] for row in by_hand.played] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert out.underruns == 0


def test_answers_are_played_in_the_order_of_their_requests(rig):
    """With several under way, one that comes first waits for the one asked for before it."""
    rig.delays = {2: 0.35, 3: 0.05}
    with rig.connected() as policy:
        rig.run(policy, max_actions=12, lookahead=3)
    assert [row[0] for row in rig.played] == [1] * 4 + [2] * 4 + [3] * 4


@pytest.mark.parametrize(
    ("of_chunk", "given", "plays"), [(None, None, 4), (2, None, 2), (2, 3, 3), (3, 2, 2), (None, 9, 4)]
)
def test_the_open_loop_horizon_is_what_is_played(by_hand, of_chunk, given, plays):
    """Rows played of each chunk: the argument, else what the chunk says, else all; more than there are is all."""
    by_hand.horizon = of_chunk
    with by_hand.connected() as policy:
        by_hand.run(policy, max_actions=2 * plays, open_loop_horizon=given)
    assert [row[1] for row in by_hand.played] == [*range(plays), *range(plays)]
    assert len(by_hand.acts()) == 2


def test_a_late_prefetch_is_an_underrun(rig):
    """An answer that comes after the rows are used up is waited for: counted, timed, and told once."""
    told = []
    rig.delays = {2: 0.6}
    with rig.connected() as policy:
        out = rig.run(policy, on_underrun=told.append)
    assert out.underruns == len(told) == 1
    assert out.underrun_s == pytest.approx(told[0])
    if not rig.real:  # asked for after the first row, 0.6 s on its way, three more rows played meanwhile
        assert told[0] == pytest.approx(0.6 - 3 * PERIOD, abs=PERIOD + 1e-6)


def test_waiting_for_the_first_chunk_is_no_underrun(rig):
    """Before the first action nothing moves, so nothing runs dry."""
    rig.delays = {1: 0.5}
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=4)
    assert (out.underruns, out.underrun_s) == (0, 0.0)


def test_an_answer_that_comes_far_too_late_is_not_played(rig):
    """More than 1 s and twice the usual: thrown away, a fresh observation taken, and both told; one underrun."""
    rig.delays = {3: 1.6}
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=16)
    assert [row[0] for row in rig.played] == [1] * 4 + [2] * 4 + [4] * 4 + [5] * 4
    assert (out.stale_answers, out.underruns) == (1, 1)
    assert out.max_observation_age_s < 1.0
    assert out.reason == "completed"


@pytest.mark.parametrize("name", ["act", "validate", "until"])
def test_a_plan_that_grew_old_in_a_callback_is_not_played_on(rig, name):
    """When the loop itself stood still for over a second, the rows left and the answer under way are thrown away."""
    calls = []

    def stalls(*args):
        if name == "act":
            rig.act(*args)
        calls.append(1)
        if len(calls) == 2:
            rig.spend(1.5)
        return name != "until"

    with rig.connected() as policy:
        out = rig.run(policy, max_actions=8, **{name: stalls})
    first = [row[0] for row in rig.played].count(1)
    assert first == {"act": 2, "validate": 2, "until": 1}[name]  # the row that validate let pass is played
    assert out.reason == "completed"
    assert out.stale_answers >= 1
    fresh = rig.played[first][0]
    looks = [value for kind, value in rig.log if kind == "observe" and value == fresh]
    assert looks
    assert rig.log.index(("observe", fresh)) > rig.log.index(("act", rig.played[first - 1]))


def test_a_robot_that_takes_long_for_each_row_is_driven_all_the_same(by_hand):
    """Rows that take over a second each are played one a chunk: each from what is seen then."""

    def slow(row):
        by_hand.act(row)
        by_hand.spend(2.0)

    with by_hand.connected() as policy:
        out = by_hand.run(policy, act=slow, max_actions=5)
    assert out.reason == "completed"
    assert [row[1] for row in by_hand.played] == [0] * 5


def test_a_slow_policy_is_played_all_the_same(rig):
    """When every answer takes long, none is stale: late is measured against the usual."""
    rig.delay_s = 1.1
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=12)
    assert (out.stale_answers, out.actions) == (0, 12)


def test_a_policy_that_became_slow_is_played_in_the_end(by_hand):
    """Answers thrown away count for the usual too, so a policy that is slow from now on is waited for again."""
    by_hand.delays = dict.fromkeys(range(3, 30), 4.0)
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_actions=16)
    assert out.reason == "completed"
    assert 1 <= out.stale_answers <= 4


def test_the_outcome_tells_how_old_the_observations_were(by_hand):
    """From the begin of observe to its chunk's first row, in seconds and in rows played meanwhile."""
    by_hand.rows, by_hand.delay_s = 10, 0.2
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_actions=20)
    assert out.max_observation_age_rows == 6
    assert out.max_observation_age_s == pytest.approx(6 * PERIOD)
    assert out.observation_age_s == pytest.approx((0.2 + 6 * PERIOD) / 2)


def test_time_in_observe_is_counted(by_hand):
    """observe_s is what observe() took in all."""

    def slow():
        by_hand.spend(0.03)
        return by_hand.observe()

    with by_hand.connected() as policy:
        out = by_hand.run(policy, observe=slow)
    assert out.observe_s == pytest.approx(0.06)
