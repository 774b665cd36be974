"""Percentiles and paired ratios."""

from bench.figures import paired_ratio, spread


def test_a_ratio_of_paired_blocks_holds_its_own_value_in_its_interval():
    """Blocks twice as slow give a ratio of one half, whatever the machine did from block to block."""
    theirs = [[1.0, 1.1, 1.2], [5.0, 5.5, 6.0], [2.0, 2.2, 2.4]] * 10
    ours = [[value / 2 for value in block] for block in theirs]
    ratio = paired_ratio(ours, theirs, seed=0)
    assert ratio.low <= ratio.value == 0.5 <= ratio.high
    assert set(ratio.named("x")) == {"x", "x_low", "x_high"}


def test_a_ratio_is_the_same_for_the_same_seed():
    """Resampling is seeded."""
    ours, theirs = [[1.0, 3.0], [2.0, 2.0], [4.0, 1.0]], [[2.0, 3.0], [2.5, 1.0], [4.0, 2.0]]
    assert paired_ratio(ours, theirs, seed=7) == paired_ratio(ours, theirs, seed=7)


def test_the_spread_is_median_and_99th_percentile():
    """The names end in the unit."""
    assert spread([float(value) for value in range(101)], "ms") == {"p50_ms": 50.0, "p99_ms": 99.0}
