"""An eval beside a bare loop: how sides are timed and held to one another; then all of it in small."""

import itertools

import numpy as np
import pytest

from bench import engine
from bench.engine import Meter, Seen, Side, in_turn
from bench.supports import cores
from bench.supports.tabletop import STEPS, Run

OURS, BARE = Side("ours", 1, (0,)), Side("alone", 1, (0,))
FORKED = Side("forked", 4, (0, 1))


class Course:
    """Stands for everyone who plays: a start takes `once_s`, an episode `episode_s` and comes to `outcome`."""

    def __init__(self, once_s=7.0, episode_s=0.25, outcome=lambda how, seed: seed / 10):
        self.once_s, self.episode_s, self.outcome = once_s, episode_s, outcome
        self.counts = []

    def play(self, how, envs, count, held_to):
        self.counts.append(count)
        played = {seed: (STEPS, {"distance": self.outcome(how, seed)}) for seed in range(count)}
        return Run(self.once_s + count * self.episode_s, played, first_s=2.5)


def test_what_happens_once_does_not_count():
    """However long a start takes, one more episode takes what it takes."""
    for once_s in (0.0, 7.0):
        meter = Meter(Course(once_s), more_s=3.0, alone_s=0.25)
        assert meter.episode_s(OURS) == pytest.approx(0.25)


def test_how_many_are_played_follows_from_the_bare_loop():
    """Two an environment, then whole batches for about as long as was asked; never more than there are starts."""
    course = Course(once_s=0.0)
    meter = Meter(course, more_s=3.0)
    meter.calibrate((0, 1))
    meter.episode_s(FORKED)
    assert course.counts == [2, 32, 8]
    Meter(course, more_s=1e9, alone_s=0.25).episode_s(FORKED)
    assert course.counts[3] == engine.STARTS


def test_a_side_that_plays_another_physics_is_refused():
    """Steps and metrics of a start are the same for everyone, or nothing is compared."""
    meter = Meter(Course(outcome=lambda how, seed: float(how == "ours")), more_s=1.0, alone_s=0.25)
    meter.episode_s(BARE)
    with pytest.raises(AssertionError, match=r"how='ours'.* came from start 0 to .*1\.0.*, another side to .*0\.0"):
        meter.episode_s(OURS)


def test_only_our_evals_of_one_environment_tell_the_start():
    """Few and many of them, one after the other."""
    meter = Meter(Course(), more_s=1.0, alone_s=0.25)
    for side in (OURS, BARE, FORKED):
        meter.episode_s(side)
    assert meter.first_s == [2.5, 2.5]


def test_those_that_are_compared_run_one_after_another():
    """Each side once, in an order that the seed decides, sides of as many environments together."""
    sides = [Side(how, envs, (0,)) for how in ("ours", "forked", "vector") for envs in (1, 2, 8)]
    orders = [in_turn([*sides, *sides], np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    for order in orders:
        assert sorted(order) == sorted(sides)
        assert len([a for a, b in itertools.pairwise(order) if a.envs != b.envs]) == 2


def test_ratios_are_taken_within_a_round():
    """The median of each round's own ratio, not the ratio of medians; what is lost is told an act and a step."""
    rounds = [{OURS: 1.0, BARE: 0.5}, {OURS: 9.0, BARE: 3.0}, {OURS: 4.0, BARE: 1.0}]
    row = Seen(rounds, seed=0).lost((0,))
    assert row.what == "bare loop, 1 environment"
    assert row.figures["ours_to_it"] == 3.0
    assert (row.figures["ours_s"], row.figures["its_s"]) == (4.0, 1.0)
    assert row.figures["act_ms"] == pytest.approx(3000 / 8)
    assert row.figures["step_ms"] == pytest.approx(3000 / 128)


def test_a_side_of_one_round_alone_is_compared_in_that_round():
    """The batches beside AsyncVectorEnv are not played in every round."""
    ours, vector = Side("ours", 2, (0,)), Side("vector", 2, (0,))
    row = Seen([{ours: 1.0, vector: 2.0}, {}], seed=0).against("vector", 2, (0,))
    assert (row.what, row.figures["ours_to_it"]) == ("AsyncVectorEnv, 2 environments", 0.5)


def test_twice_the_cores_are_told_beside_what_the_machine_gives():
    """Ours and the forked loop, each with one core over two; without two cores the row says so."""
    at = {
        Side(how, 8, held): s
        for how, one, two in (("ours", 4.0, 2.0), ("forked", 3.0, 2.0))
        for held, s in (((0,), one), ((0, 1), two))
    }
    row = Seen([at], seed=0).scaled(8, [(0,), (0, 1)])
    assert (row.figures["faster"], row.figures["forked_faster"]) == (2.0, 1.5)
    assert "two cores" in Seen([at], seed=0).scaled(8, []).not_measured


def test_a_block_is_held_to_its_cores():
    """And nothing is held after it."""
    every = cores.here()
    with cores.held(every[:1]):
        assert cores.here() == (every[:1] if cores.CAN_HOLD else every)
    assert cores.here() == every
    assert set(cores.physical()) <= set(every)


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore:.*does not act yet:UserWarning")
def test_a_small_run_yields_every_row():
    """All sides really play, to the same outcomes, and each row that could be measured has its figures."""
    rows = {row.what: row for row in engine.run(engine.TINY)}
    assert list(rows) == [
        "bare loop, 1 environment",
        "forked loop, 2 environments",
        "AsyncVectorEnv, 2 environments",
        "2 cores for 1, 2 environments",
        "eval run to the first step",
    ]
    promised = {promise.what: promise.figure for promise in engine.PROMISES}
    assert "ours_to_it" in rows["forked loop, 2 environments"].figures
    for what in ("bare loop, 1 environment", "AsyncVectorEnv, 2 environments", "eval run to the first step"):
        assert promised[what] in rows[what].figures
    scaled = rows["2 cores for 1, 2 environments"]
    assert scaled.not_measured or {"faster", "forked_faster"} <= scaled.figures.keys()
