"""Episodes that share their start never count as independent."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.evals.stats import interval
from runner.evals.stats.interval import wilson
from runner.evals.stats.sample import contributions, sample

SIZES = st.lists(st.integers(1, 5), min_size=2, max_size=25)


def width(found):
    return found.high - found.low


@settings(deadline=None)
@given(values=st.lists(st.floats(0, 10), min_size=2, max_size=40), seed=st.integers(0, 99), rate=st.booleans())
def test_clusters_of_one_episode_are_the_plain_formula(values, seed, rate):
    """To the bit, whatever their numbers are."""
    values = (np.array(values) > 5) * 1.0 if rate else np.array(values)
    apart = np.random.default_rng(seed).permutation(len(values)) * 10**12
    assert interval(values, apart, rate=rate) == interval(values, rate=rate)


@pytest.mark.parametrize("rate", [True, False])
def test_listing_every_episode_twice_tells_nothing_new(rate):
    """The interval is that of listing it once, and says how many episodes that is."""
    values = np.random.default_rng(1).exponential(size=30)
    values = (values > 1) * 1.0 if rate else values
    once, twice = interval(values, rate=rate), interval(np.repeat(values, 2), np.repeat(np.arange(30), 2), rate=rate)
    assert (twice.mean, twice.low, twice.high) == pytest.approx((once.mean, once.low, once.high), rel=1e-9)
    assert (twice.n, twice.clusters, twice.method) == (60, 30, f"{once.method}, over clusters")


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 999), p=st.floats(0, 1))
def test_a_rate_over_clusters_lies_between_no_dependence_and_full(sizes, seed, p):
    """A design effect is never below 1, and never above what counting every cluster once gives."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    values = (rng.random(len(cluster)) < np.where(rng.random(len(sizes)) < p, 0.9, 0.1)[cluster]) * 1.0
    found, plain = interval(values, cluster, rate=True), interval(values, rate=True)
    low, high = wilson(found.mean, len(cluster) ** 2 / sum(size**2 for size in sizes))
    assert width(plain) - 1e-9 <= width(found) <= high - low + 1e-9


def test_opposite_outcomes_of_one_start_gain_nothing():
    """Where a start succeeds under one variant and fails under the other, the variance is small by design: still n."""
    values, cluster = np.tile([1.0, 0.0], 20), np.repeat(np.arange(20), 2)
    found, plain = interval(values, cluster, rate=True), interval(values, rate=True)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=1e-12)


def test_where_nothing_failed_the_starts_count():
    """400 episodes of one start tell what one tells, those of 100 starts what 100 do."""
    values = np.ones(400)
    for starts in (1, 100, 400):
        found = interval(values, np.repeat(np.arange(starts), 400 // starts), rate=True)
        assert (found.low, found.high, found.clusters) == (pytest.approx(wilson(1.0, starts)[0], rel=1e-9), 1.0, starts)


def test_a_first_failure_tells_little_of_how_much_starts_matter():
    """One failure of 400 over 100 starts is neither one of 400 apart nor one of 100; a start that failed whole is."""
    cluster = np.repeat(np.arange(100), 4)
    one, whole = np.r_[0.0, np.ones(399)], np.r_[np.zeros(4), np.ones(396)]
    assert wilson(399 / 400, 100)[0] < interval(one, cluster, rate=True).low < wilson(399 / 400, 250)[0]
    assert interval(whole, cluster, rate=True).low == pytest.approx(wilson(0.99, 100)[0], rel=1e-9)


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 999))
def test_the_variance_over_clusters_is_that_of_statsmodels(sizes, seed):
    """The cluster-robust variance of a mean, with the correction g / (g - 1)."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    values = rng.normal(size=len(sizes))[cluster] + rng.normal(size=len(cluster))
    if max(sizes) == 1:
        return
    added, freedom = contributions(sample(values, cluster))
    fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": cluster})
    assert np.sqrt(np.sum(added**2)) == pytest.approx(fit.bse[0], rel=1e-9)
    assert freedom == len(sizes) - 1


def test_the_numbers_of_clusters_are_names():
    """Negative, far apart or not in order: only which are equal matters to a rate."""
    rng = np.random.default_rng(2)
    cluster = np.repeat(np.arange(25), 4)
    values = (rng.random(100) < rng.random(25)[cluster]) * 1.0
    found = interval(values, cluster, rate=True)
    for names in (rng.permutation(25), rng.permutation(25) * 10**15 - 10**16, -np.arange(25)):
        renamed = interval(values, names[cluster], rate=True)
        assert (renamed.low, renamed.high) == pytest.approx((found.low, found.high), rel=1e-12)


def test_one_cluster_alone_has_no_interval():
    """Its episodes vary, but nothing tells how another start would do."""
    found = interval(np.array([0.1, 0.5, 0.3]), np.zeros(3, dtype=np.int64), rate=False)
    assert (found.low, found.high, found.clusters, found.method) == (None, None, 1, "none: one cluster")


def test_a_million_clustered_episodes_take_bounded_memory():
    """A few arrays of their length, none of draws by length."""
    n = 1_000_000
    rng = np.random.default_rng(4)
    values, cluster = rng.exponential(size=n), rng.permutation(n // 4).repeat(4) * 7
    tracemalloc.start()
    try:
        others, rates = interval(values, cluster, rate=False), interval((values > 1) * 1.0, cluster, rate=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert others.low < 1 < others.high
    assert rates.low < np.exp(-1) < rates.high
    assert (others.clusters, rates.clusters) == (n // 4, n // 4)
    assert peak < 120 * n
