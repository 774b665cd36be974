"""Exact binomial chances without SciPy, held against SciPy's."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from seq._binomial import bar_for, episodes_for, miss

COMPARES = (operator.ge, operator.gt, operator.le, operator.lt, operator.eq)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 2000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))),
    st.one_of(st.floats(0, 1), st.none()),
    st.sampled_from(COMPARES),
)
def test_the_chance_to_miss_is_the_binomial_sum(sized, bar, compare):
    """P(mean misses the bar) is the sum of SciPy's masses, for every operator, bars that are met exactly included."""
    n, successes, met = sized
    rate, bar = successes / n, met / n if bar is None else bar
    expected = sum(float(binom.pmf(k, n, rate)) for k in range(n + 1) if not compare(k / n, bar))
    assert miss(rate, n, compare, bar) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("rate", "n", "bar", "chance"),
    [
        (0.95, 20, 0.9, 1 - 0.9245163),  # P(K <= 17) of Binomial(20, 0.95)
        (0.5, 10, 0.8, 0.9453125),  # 1 - 56/1024
        (1.0, 20, 1.0, 0.0),
        (0.0, 20, 0.1, 1.0),
    ],
)
def test_known_chances(rate, n, bar, chance):
    """Numbers that can be read in a table or counted by hand."""
    assert miss(rate, n, operator.ge, bar) == pytest.approx(chance, abs=1e-7)


@pytest.mark.parametrize(
    ("rate", "compare", "bar"),
    [
        (0.95, operator.ge, 0.9),
        (0.95, operator.gt, 0.9),
        (0.95, operator.ge, 0.94),
        (0.5, operator.ge, 0.4),
        (0.97, operator.ge, 0.95),
        (0.999, operator.ge, 0.99),
        (0.05, operator.le, 0.1),
        (0.3, operator.lt, 0.4),
    ],
)
def test_the_number_of_episodes_is_enough_from_there_on_and_not_before(rate, compare, bar):
    """From the answer on the chance stays within the risk; one episode fewer lies over it somewhere close behind."""
    enough = episodes_for(rate, compare, bar, 0.05)
    assert enough is not None
    assert all(miss(rate, n, compare, bar) <= 0.05 for n in range(enough, enough + 500))
    assert any(miss(rate, n, compare, bar) > 0.05 for n in range(max(1, enough - 20), enough))


@pytest.mark.parametrize(("rate", "bar"), [(0.9, 0.9), (0.8, 0.9), (0.9, 0.8999)])
def test_no_number_of_episodes_helps_a_rate_that_does_not_clear_the_bar(rate, bar):
    """At the bar, below it, or so close above it that a million episodes would not do."""
    assert episodes_for(rate, operator.ge, bar, 0.05) is None


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_bar_is_within_the_risk_and_the_next_stricter_one_is_not(sized):
    """The strictest bar on three places, to either side."""
    n, successes = sized
    rate = successes / n
    low, high = bar_for(rate, n, operator.ge, 0.05), bar_for(rate, n, operator.le, 0.05)
    assert low is not None
    assert high is not None
    assert low <= rate + 1e-9
    assert high >= rate - 1e-9
    assert miss(rate, n, operator.ge, low) <= 0.05
    assert miss(rate, n, operator.le, high) <= 0.05
    assert low + 0.001 > rate or miss(rate, n, operator.ge, round(low + 0.001, 3)) > 0.05
    assert high - 0.001 < rate or miss(rate, n, operator.le, round(high - 0.001, 3)) > 0.05
