"""Two arms on the same episodes, and many comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel, wilcoxon
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from runner.evals.stats import difference, holm, interval


def arms(won, lost, both=0, neither=0):
    """Outcomes of two arms with so many pairs of each kind."""
    counts = [won, lost, both, neither]
    return np.repeat([0.0, 1.0, 1.0, 0.0], counts), np.repeat([1.0, 0.0, 1.0, 0.0], counts)


@pytest.mark.parametrize(
    ("won", "lost", "p"), [(10, 2, 0.0386), (6, 0, 0.031), (5, 0, 0.063), (15, 5, 0.041), (30, 12, 0.0079)]
)
def test_rates_have_the_exact_p_of_mcnemar(won, lost, p):
    """The published worked examples; pairs that agree change nothing."""
    for both in (0, 7):
        found = difference(*arms(won, lost, both), rate=True)
        assert found.p == pytest.approx(p, abs=0.0006 if p > 0.01 else 0.00006)
        assert (found.won, found.lost, found.n, found.p_method) == (won, lost, won + lost + both, "exact McNemar")
        assert found.mean_diff == pytest.approx((won - lost) / (won + lost + both))


@settings(deadline=None)
@given(cells=st.tuples(*[st.integers(0, 60)] * 4).filter(any))
def test_the_p_of_mcnemar_is_that_of_statsmodels(cells):
    """For any four counts."""
    won, lost, both, neither = cells
    found = difference(*arms(*cells), rate=True)
    expected = mcnemar([[both, lost], [won, neither]], exact=True).pvalue if won + lost else 1.0
    assert found.p == pytest.approx(min(expected, 1.0), rel=1e-9)
    assert -1 <= found.low <= found.high <= 1


def test_rates_have_the_interval_of_agresti_and_min():
    """40 pairs for the first arm, 20 for the second, of 160: the example of R's PropCIs."""
    found = difference(*arms(20, 40, 60, 40), rate=True)
    assert (found.low, found.high) == pytest.approx((-0.216017, -0.030897), abs=1e-5)
    assert found.method == "Agresti-Min"


def test_the_approval_of_a_prime_minister():
    """Agresti, Categorical Data Analysis: 794 approve twice, 150 no more, 86 only now, 570 never: down 2 to 6."""
    found = difference(*arms(86, 150, 794, 570), rate=True)
    assert (round(found.mean_diff, 2), round(found.low, 2), round(found.high, 2)) == (-0.04, -0.06, -0.02)


def test_the_arms_are_told_apart():
    """Turned round, everything changes its sign and its name."""
    a, b = arms(10, 2, 5)
    there, back = difference(a, b, rate=True), difference(b, a, rate=True)
    assert (back.mean_diff, back.low, back.high) == pytest.approx((-there.mean_diff, -there.high, -there.low))
    assert (back.p, back.won, back.lost) == (there.p, there.lost, there.won)


def test_other_metrics_have_the_interval_and_p_of_their_differences():
    """The bootstrap of the mean difference; a sign-flip test that says what t and Wilcoxon say where all agree."""
    rng = np.random.default_rng(1)
    a = rng.normal(10, 5, 60)
    b = a + rng.normal(0.4, 1, 60)
    found = difference(a, b, rate=False)
    plain = interval(b - a, rate=False)
    assert (found.mean_diff, found.low, found.high) == (plain.mean, plain.low, plain.high)
    assert found.p == pytest.approx(ttest_rel(b, a).pvalue, abs=0.003)
    assert found.p == pytest.approx(wilcoxon(b, a).pvalue, abs=0.01)
    assert (found.method, found.p_method) == ("studentised bootstrap", "sign flip")
    assert found == difference(a, b, rate=False)


def test_few_pairs_are_flipped_in_every_way():
    """Five differences of one sign: two of 32 ways are as far out."""
    found = difference(np.zeros(5), np.array([0.1, 0.5, 0.2, 0.3, 0.9]), rate=False)
    assert (found.p, found.p_method) == (2 / 32, "exact sign flip")


def test_many_pairs_have_the_normal_limit():
    """It says what a thousand flipped differences say."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=1001), rng.normal(0.07, size=1001)
    many, fewer = difference(a, b, rate=False), difference(a[:-1], b[:-1], rate=False)
    assert (many.p_method, fewer.p_method) == ("sign flip, normal limit", "sign flip")
    assert many.p == pytest.approx(fewer.p, abs=0.01)


@pytest.mark.parametrize("rate", [True, False])
def test_pairs_listed_twice_tell_nothing_new(rate):
    """Dependent pairs: the interval of half of them, and whole clusters flipped."""
    rng = np.random.default_rng(1)
    a, b = (rng.random((2, 40)) < [[0.4], [0.7]]) * 1.0 if rate else rng.exponential(size=(2, 40))
    once = difference(a, b, rate=rate)
    twice = difference(np.repeat(a, 2), np.repeat(b, 2), np.repeat(np.arange(40), 2), rate=rate)
    assert (twice.low, twice.high) == pytest.approx((once.low, once.high), rel=1e-6)
    assert twice.p == pytest.approx(once.p, abs=0.02)
    assert (twice.n, twice.method) == (80, f"{once.method}, over clusters")
    assert twice.p_method.endswith("sign flip, over clusters")


def test_clusters_of_one_pair_change_nothing():
    """To the bit."""
    rng = np.random.default_rng(1)
    a, b = rng.exponential(size=(2, 30))
    assert difference(a, b, np.arange(30) * 9, rate=False) == difference(a, b, rate=False)
    assert difference(*arms(9, 3), np.arange(12), rate=True) == difference(*arms(9, 3), rate=True)


def test_opposite_differences_of_one_start_cancel():
    """A start that is won under one variant and lost under another says nothing for either arm."""
    a, b = np.tile([0.0, 1.0], 10), np.tile([1.0, 0.0], 10)
    found = difference(a, b, np.repeat(np.arange(10), 2), rate=True)
    assert (found.mean_diff, found.p, found.won, found.lost) == (0.0, 1.0, 10, 10)
    assert found.low < 0 < found.high


def test_no_pairs_have_no_numbers():
    """And it says so."""
    found = difference(np.array([]), np.array([]), rate=True)
    assert (found.n, found.mean_diff, found.low, found.high, found.p) == (0, None, None, None, None)
    assert found.method == found.p_method == "none: no pairs"


@pytest.mark.parametrize(
    ("a", "b", "mean", "p", "method"),
    [
        ([0.2], [0.5], 0.3, 1.0, "none: one value"),
        ([0.2] * 6, [0.2] * 6, 0.0, 1.0, "none: equal values"),
        ([1.0] * 6, [1.5] * 6, 0.5, 2 / 64, "none: equal values"),
        ([0.1, 0.2, 0.7], [0.2, 0.3, 0.8], 0.1, 0.25, "none: equal values but for rounding"),
    ],
)
def test_equal_differences_have_no_interval(a, b, mean, p, method):
    """They tell nothing of their uncertainty; their signs still do."""
    found = difference(np.array(a), np.array(b), rate=False)
    assert (found.mean_diff, found.low, found.high, found.p) == (pytest.approx(mean), None, None, p)
    assert found.method == method


def test_equal_rates_have_an_interval():
    """Ten pairs without a difference leave room for one."""
    found = difference(*arms(0, 0, 6, 4), rate=True)
    assert (found.mean_diff, found.p) == (0.0, 1.0)
    assert -0.3 < found.low < 0 < found.high < 0.3


@settings(deadline=None, max_examples=50)
@given(
    pairs=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=14),
    clustered=st.booleans(),
)
def test_no_number_is_ever_nan(pairs, clustered):
    """Whatever the values: bounds around the mean or none, p from 0 to 1."""
    a, b, cluster = (np.array(column) for column in zip(*pairs, strict=True))
    found = difference(a, b, cluster if clustered else None, rate=False)
    assert 0 < found.p <= 1
    assert found.low is None or -1 <= found.low <= found.mean_diff <= found.high <= 1


@pytest.mark.parametrize(("a", "b", "told"), [([1.0], [1.0, 0.0], "match them"), ([1.0], [0.5], "0 and 1")])
def test_arms_that_do_not_match_are_an_error(a, b, told):
    """Pairs are matched before they are compared."""
    with pytest.raises(ValueError, match=told):
        difference(np.array(a), np.array(b), rate=True)


@settings(deadline=None, max_examples=30)  # its call takes a while
@given(p_values=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_adjusted_p_values_are_those_of_statsmodels(p_values):
    """For any p values, in any order."""
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_a_comparison_without_p_counts_for_nothing():
    """It stays without, and the others are adjusted for their own number."""
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert holm([None]) == [None]
    assert holm([]) == []
