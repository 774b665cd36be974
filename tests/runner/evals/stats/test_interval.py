"""Means and their intervals, independent values, against published figures, SciPy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from runner.evals.stats import interval, is_rate
from runner.evals.stats.bootstrap import _remembered
from runner.evals.stats.interval import intervals
from runner.evals.stats.sample import sample

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
VALUES = st.lists(NUMBERS, min_size=2, max_size=40).map(np.array)


def outcomes(successes, of):
    return np.repeat([1.0, 0.0], [successes, of - successes])


@pytest.mark.parametrize(
    ("successes", "of", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (50, 100, 0.404, 0.596), (400, 400, 0.990, 1.0)],
)
def test_a_rate_has_wilsons_interval(successes, of, low, high):
    """The published worked examples."""
    found = interval(outcomes(successes, of), rate=True)
    assert (round(found.low, 3), round(found.high, 3)) == (low, high)
    assert (found.mean, found.n, found.clusters, found.method) == (successes / of, of, of, "Wilson")


@settings(deadline=None)
@given(of=st.integers(1, 3000), share=st.floats(0, 1))
def test_wilsons_interval_is_that_of_scipy_and_statsmodels(of, share):
    """For any number of successes, none and all included."""
    successes = round(share * of)
    found = interval(outcomes(successes, of), rate=True)
    scipys = binomtest(successes, of).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((scipys.low, scipys.high), abs=1e-12)
    assert (found.low, found.high) == pytest.approx(proportion_confint(successes, of, method="wilson"), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "values", "rate"),
    [
        ("lifted", [0.0, 1.0, 0.0], True),
        ("lifted", [0.0, 0.5, 1.0], False),
        ("success", [1.0, 1.0], True),
        ("success_at_end", [0.0], True),
        ("is_open", [0.0], True),
        ("has_cup", [1.0], True),
        ("success", [0.5], False),
        ("distance_m", [0.0, 0.0], False),
        ("steps", [1.0], False),
    ],
)
def test_what_is_a_rate(name, values, rate):
    """Zeros and ones alone, both of them or under a name that reads as a yes or no."""
    assert is_rate(name, np.array(values)) is rate


@settings(deadline=None)
@given(values=VALUES)
def test_an_interval_holds_the_mean_and_stays_in_the_range_of_the_values(values):
    """Whatever the values, ties and few of them included; and it is the same every time."""
    found = interval(values, rate=False)
    assert values.min() <= found.mean <= values.max()
    assert found.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    if found.low is not None:
        assert values.min() <= found.low <= found.mean <= found.high <= values.max()
    assert found == interval(values.copy(), rate=False)


@settings(deadline=None)
@given(values=VALUES, power=st.integers(-40, 40), shift=st.integers(-1000, 1000))
def test_an_interval_moves_and_grows_with_its_values(values, power, shift):
    """Metres or millimetres, from here or from there: the same interval, but for rounding."""
    values = np.round(values)
    assume(values.min() < values.max())
    found, moved = interval(values, rate=False), interval(values * 2.0**power + shift * 2.0**power, rate=False)
    assert [bound / 2.0**power - shift for bound in (moved.low, moved.high)] == pytest.approx(
        [found.low, found.high], rel=1e-6, abs=1e-6 * np.abs(values).max()
    )


def test_well_behaved_values_have_about_scipys_bootstrap_interval():
    """Where all methods agree: 200 values of a symmetric metric."""
    values = np.random.default_rng(3).normal(5, 2, 200)
    found = interval(values, rate=False)
    bounds = bootstrap((values,), np.mean, method="BCa", rng=np.random.default_rng(0)).confidence_interval
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high), abs=0.1 * (bounds.high - bounds.low))
    assert found.method == "studentised bootstrap"


def test_the_interval_of_skewed_values_reaches_further_to_their_long_side():
    """Student's t would not."""
    values = np.random.default_rng(3).exponential(size=60)
    found = interval(values, rate=False)
    assert found.high - found.mean > 1.2 * (found.mean - found.low)


def test_beyond_ten_thousand_values_it_is_students_t():
    """As SciPy has it; a value less and it is the bootstrap, which says nearly the same."""
    values = np.random.default_rng(3).exponential(size=10_001)
    found, before = interval(values, rate=False), interval(values[:-1], rate=False)
    bounds = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high), rel=1e-12)
    assert (found.method, before.method) == ("Student's t", "studentised bootstrap")
    assert (before.low, before.high) == pytest.approx((found.low, found.high), abs=0.1 * (found.high - found.low))


@pytest.mark.parametrize("values", [[0.0], [2.5], [0.1] * 3, [2.5] * 5, [1e300] * 2])
def test_values_that_do_not_vary_have_no_interval(values):
    """Of a metric that is no rate they tell nothing of its uncertainty; a single value is the shortest such list."""
    found = interval(np.array(values), rate=False)
    assert (found.mean, found.low, found.high, found.n) == (values[0], None, None, len(values))
    assert found.method.startswith("none: ")


def test_values_that_vary_by_rounding_alone_have_no_interval():
    """0.1 + 0.2 is another number than 0.3, and no other distance."""
    found = interval(np.array([0.3, 0.1 + 0.2, 0.3, 0.3]), rate=False)
    assert (found.low, found.method) == (None, "none: equal values but for rounding")


@pytest.mark.parametrize("values", [[1.0] * 19 + [0.5], [0.0] * 8 + [0.2], [0.4, 0.9], [1e9, 1e9 + 0.1, 1e9]])
def test_nearly_constant_values_have_an_interval_of_their_range(values):
    """No bound is infinite, however many resamples have no spread."""
    found = interval(np.array(values), rate=False)
    assert min(values) <= found.low < found.mean < found.high <= max(values)


def test_few_values_have_at_least_the_interval_of_students_t():
    """Below ten the bootstrap does not know how wide they spread; from ten on it is trusted alone."""
    values = np.random.default_rng(3).normal(size=10)
    for n in (2, 5, 9):
        found = intervals([sample(values[:n])], rate=False, within=(-np.inf, np.inf))[0]
        bounds = ttest_1samp(values[:n], 0).confidence_interval(0.95)
        assert found.low <= bounds.low + 1e-9
        assert found.high >= bounds.high - 1e-9
        assert found.method == "studentised bootstrap, at least Student's t"
    assert interval(values, rate=False).method == "studentised bootstrap"


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_very_small_and_very_large_values_do_not_break_it(scale):
    """A reward of a simulation that blew up is still a number."""
    found, plain = (interval(np.array([1.0, 2.0, 4.0, 3.0]) * factor, rate=False) for factor in (scale, 1.0))
    assert (found.low / scale, found.high / scale) == pytest.approx((plain.low, plain.high), rel=1e-6)


def test_a_sample_has_the_same_bits_alone_and_among_others():
    """What is computed beside it, or was computed before, leaves no trace."""
    rng = np.random.default_rng(5)
    groups = [rng.lognormal(size=n) for n in (7, 30, 30, 30, 500, 30)]
    _remembered.cache_clear()
    together = intervals([sample(group) for group in groups], rate=False)
    _remembered.cache_clear()
    assert [interval(group, rate=False) for group in reversed(groups)] == together[::-1]
    assert intervals([sample(group) for group in groups], rate=False) == together


def test_a_group_stays_in_the_range_of_the_whole_eval():
    """Two values of a group say little; what the metric was elsewhere bounds it better than they do."""
    few = [sample(np.array([0.4, 0.6]))]
    alone, known = intervals(few, rate=False)[0], intervals(few, rate=False, within=(0.1, 1.0))[0]
    assert (alone.low, alone.high) == (0.4, 0.6)
    assert (known.low, known.high) == (0.1, 1.0)


@pytest.mark.parametrize(
    ("values", "rate", "told"),
    [
        ([], True, "at least one"),
        ([1.0, np.nan], False, "not finite"),
        ([1.0, np.inf], False, "not finite"),
        ([1.0, 0.5], True, "0 and 1"),
    ],
)
def test_what_has_no_interval_is_an_error(values, rate, told):
    """A mean over nothing is an error, not zero; so are values that are missing, and a rate that is none."""
    with pytest.raises(ValueError, match=told):
        interval(np.array(values), rate=rate)


def test_a_cluster_for_each_value_or_none():
    """Another number of them is a mistake."""
    with pytest.raises(ValueError, match="3 values and 2 clusters"):
        interval(np.ones(3), np.zeros(2, dtype=np.int64), rate=True)


def test_a_small_group_is_marked():
    """Groups under ten episodes say so."""
    assert interval(outcomes(3, 9), rate=True).wire()["small_n"] is True
    assert interval(outcomes(3, 10), rate=True).wire() == {
        "mean": 0.3,
        "low": pytest.approx(0.108, abs=1e-3),
        "high": pytest.approx(0.603, abs=1e-3),
        "n": 10,
        "small_n": False,
    }


def test_a_mean_whose_sum_is_too_large_is_the_mean():
    """The sum of two numbers near the largest there is has no float; their mean has."""
    assert interval(np.array([1e308, 1.5e308, 0.5e308]), rate=False).mean == pytest.approx(1e308)
    assert interval(np.array([1e308, 1e308, *[0.0] * 12]), rate=False).mean == pytest.approx(1e308 / 7)
