"""What is promised of a figure, and what is said where it does not hold."""

from bench.results import Measured
from bench.rows import Promise, Row
from bench.table import figures, promised

FAST = Row("ours", {"p50_ms": 1.5, "x": 0.9, "x_low": 0.8, "x_high": 1.01})
AT_MOST = Promise("ours", "x_high", at_most=1.05)


def measured(*rows, promises=(AT_MOST,)):
    return Measured("predict", "", rows, promises, 0.0)


def test_a_bound_that_holds_is_kept():
    """Nothing is said of it, and the table says so."""
    assert measured(FAST).missed() == []
    assert promised(measured(FAST), FAST) == "x_high ≤ 1.05: kept"


def test_a_bound_that_does_not_hold_is_named_with_its_value():
    """The sentence names subject, row, bound and value."""
    slow = Row("ours", {"x_high": 1.2})
    assert measured(slow).missed() == ["predict: ours: x_high ≤ 1.05 was promised, and it is 1.2"]
    floor = Promise("ours", "x_low", at_least=1.0)
    assert measured(FAST, promises=(floor,)).missed() == ["predict: ours: x_low ≥ 1 was promised, and it is 0.8"]


def test_what_was_not_measured_is_not_kept():
    """A bound without a figure is missed, with the reason, so that a check can never pass on nothing."""
    absent = Row("ours", not_measured="no network")
    assert measured(absent).missed() == ["predict: ours: x_high ≤ 1.05 was not measured: no network"]
    assert measured().missed() == ["predict: ours: x_high ≤ 1.05 was not measured: there is no such figure"]


def test_a_figure_is_shown_with_its_interval():
    """Low and high stand behind the estimate, not as figures of their own."""
    assert figures(FAST) == "p50_ms 1.5  x 0.9 [0.8, 1.01]"
    assert figures(Row("ours", not_measured="no network")) == "not measured: no network"
