"""Whether 95 % intervals hold the truth in about 95 % of evals; `tools/coverage.py` tells more, and more exactly."""

from __future__ import annotations

from math import sqrt

import pytest

from tools.coverage import coverage, dependent, family_errors, macros, others, paired, rates

pytestmark = pytest.mark.slow

REPEATS = 1000
LUCK = 4 * sqrt(0.95 * 0.05 / REPEATS)  # four standard errors of a simulated 95 %
HELD = [case for case in (*rates(), *others(), *dependent(), *macros()) if case.bounds[0] > 0]


@pytest.mark.parametrize("case", HELD, ids=[case.metric for case in HELD])
def test_an_interval_holds_the_truth_as_often_as_it_says(case):
    """Within the bounds of docs/statistics.md and the luck of so few simulated evals."""
    low, high = case.bounds
    assert low - LUCK <= coverage(case, REPEATS, seed=1).share <= high + LUCK


@pytest.mark.parametrize(("rate_a", "rate_b", "n"), [(0.5, 0.7, 50), (0.9, 0.95, 50)])
def test_the_interval_of_a_paired_difference_holds_the_truth(rate_a, rate_b, n):
    """Agresti and Min's, for arms that share half of their luck."""
    assert paired(rate_a, rate_b, n, REPEATS, seed=1).share >= 0.95 - LUCK


def test_ten_identical_arms_are_rarely_called_different():
    """With Holm in at most 5 % of evals; without it in far more."""
    with_holm, without = family_errors(arms=10, n=50, repeats=500, seed=1)
    assert with_holm <= 0.05
    assert without > 0.1
