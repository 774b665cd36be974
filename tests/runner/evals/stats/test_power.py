"""How many episodes it takes."""

from __future__ import annotations

import operator
from fractions import Fraction
from functools import partial
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.evals.stats import enough_episodes, episodes, highest_bar, pairs, pass_chance, planning

OPS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


@pytest.mark.parametrize(
    ("rate_a", "rate_b", "apart", "weak", "strong"),
    [
        (0.50, 0.70, 93, 69, 42),
        (0.50, 0.60, 388, 275, 160),
        (0.70, 0.80, 294, 210, 124),
        (0.80, 0.90, 199, 146, 89),
        (0.90, 0.95, 435, 315, 191),
        (0.95, 0.97, 1506, 1071, 634),
        (0.97, 0.98, 3826, 2704, 1579),
    ],
)
def test_the_planning_numbers(rate_a, rate_b, apart, weak, strong):
    """Episodes an arm, and pairs at correlations of 0.3 and 0.6; the order of the arms does not matter."""
    assert (episodes(rate_a, rate_b), episodes(rate_b, rate_a)) == (apart, apart)
    assert (pairs(rate_a, rate_b, 0.3), pairs(rate_a, rate_b, 0.6)) == (weak, strong)


@pytest.mark.parametrize(("rate_a", "rate_b", "told"), [(0.5, 0.5, "two equal rates"), (0.5, 1.2, "1.2 is no rate")])
def test_what_cannot_be_planned_is_an_error(rate_a, rate_b, told):
    """Equal rates, and numbers that are none."""
    with pytest.raises(ValueError, match=told):
        episodes(rate_a, rate_b)
    with pytest.raises(ValueError, match=told):
        pairs(rate_a, rate_b, 0.3)


def test_a_dry_run_says_what_its_episodes_can_tell():
    """First what this number can, then what differences of 0.05, 0.1 and 0.2 take."""
    reach, *sentences = planning(388)
    assert "388 episodes" in reach
    assert "0.1," in reach
    assert [sentence.split(" takes ")[0][-4:] for sentence in sentences] == ["0.05", "0.10", "0.20"]
    assert f"{episodes(0.4, 0.6)} episodes an arm" in sentences[-1]
    assert f"{pairs(0.4, 0.6, 0.6)} at correlation 0.6" in sentences[-1]


@pytest.mark.parametrize("count", [1, 5])
def test_a_handful_of_episodes_tells_nothing(count):
    """Five pairs that all differ have p = 0.063."""
    assert planning(count)[0].endswith("tell no two policies apart")


@pytest.mark.parametrize("count", [6, 50, 388, 1_000_000])
def test_what_an_eval_can_tell_takes_just_so_many_episodes(count):
    """The differences in its sentence are those that need its number; starts that correlate more tell smaller ones."""
    differ, _, same = planning(count)[0].split("differ by ")[1].partition(", on the same starts by ")
    told = [(float(differ), episodes)]
    for part in filter(None, same.split(", ")):
        apart, correlation = map(float, part.split(" at correlation "))
        # Beyond that no two outcomes with these rates correlate: all that the one solves, the other does, too.
        assert correlation <= (1 - apart) / (1 + apart)
        told.append((apart, partial(pairs, correlation=correlation)))
    for apart, takes in told:
        assert takes(0.5 - apart / 2, 0.5 + apart / 2) == pytest.approx(count, rel=0.2)
    assert [apart for apart, _ in told] == sorted((apart for apart, _ in told), reverse=True)
    assert len(told) == (1 if count == 6 else 3)


@settings(deadline=None)
@given(n=st.integers(1, 60), rate=st.integers(0, 20), bar=st.floats(-0.1, 1.1) | st.sampled_from([0.7, 0.1, 0.3, 1.0]))
def test_the_chance_to_pass_is_the_binomial_sum(n, rate, bar):
    """Over the means that meet the bar as floating-point numbers compare, for each operator."""
    p = Fraction(rate, 20)
    chances = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    for op, meets in OPS.items():
        expected = sum(chance for k, chance in enumerate(chances) if meets(k / n, bar))
        assert pass_chance(rate / 20, bar, n, op) == pytest.approx(float(expected), abs=1e-12)


def test_a_good_policy_misses_a_gate_by_luck():
    """True rate 0.8, bar 0.7: in 12 % of runs of ten episodes; seven of ten do meet it."""
    assert pass_chance(0.8, 0.7, 10) == pytest.approx(0.8791, abs=1e-4)
    assert pass_chance(0.8, 0.7, 10, "==") == pytest.approx(comb(10, 7) * 0.8**7 * 0.2**3)


@pytest.mark.parametrize(
    ("rate", "n", "op", "told"), [(0.5, 9, "=>", "'=>'"), (1.5, 9, ">=", "1.5"), (0.5, 0, ">=", "0")]
)
def test_a_gate_that_makes_no_sense_is_an_error(rate, n, op, told):
    """An operator that is none, a rate that is none, no episodes."""
    with pytest.raises(ValueError, match=told):
        pass_chance(rate, 0.5, n, op)


@settings(deadline=None)
@given(rate=st.floats(0, 1), n=st.integers(1, 500))
def test_the_highest_bar_is_missed_in_at_most_5_percent_of_runs(rate, n):
    """And the next higher one in more."""
    bar = highest_bar(rate, n)
    assert pass_chance(rate, bar, n) >= 0.95 - 1e-9
    assert bar == 1 or pass_chance(rate, (round(bar * n) + 1) / n, n) <= 0.95 + 1e-9


@pytest.mark.parametrize(("rate", "bar"), [(0.8, 0.7), (0.5, 0.3), (0.97, 0.9), (0.6, 0.55)])
def test_enough_episodes_are_enough_from_there_on(rate, bar):
    """One fewer is not, any more are, though the chance goes up and down as bars fall between counts."""
    enough = enough_episodes(rate, bar)
    assert pass_chance(rate, bar, enough - 1) < 0.95
    assert min(pass_chance(rate, bar, n) for n in range(enough, enough + 400)) >= 0.95


@pytest.mark.parametrize(
    ("rate", "bar", "enough"), [(0.7, 0.7, None), (0.6, 0.7, None), (0.7, 0.6999, None), (1.0, 0.9, 1), (0.3, 0.0, 1)]
)
def test_some_gates_need_no_episodes_and_some_have_never_enough(rate, bar, enough):
    """A policy at the bar misses it in half of all runs, and one hair above it takes more than 100,000 episodes."""
    assert enough_episodes(rate, bar) == enough
