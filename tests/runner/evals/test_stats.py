"""The numbers of a report, against published figures."""

from __future__ import annotations

import pytest

from runner.evals.stats import Scored, interval, is_rate, summarize


def outcomes(successes, of):
    return [1.0] * successes + [0.0] * (of - successes)


@pytest.mark.parametrize(
    ("successes", "of", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (50, 100, 0.404, 0.596), (400, 400, 0.990, 1.0)],
)
def test_a_rate_has_wilsons_interval(successes, of, low, high):
    """0/1 metrics get the 95 % Wilson interval."""
    found = interval(outcomes(successes, of), rate=True)
    assert (round(found.low, 3), round(found.high, 3)) == (low, high)
    assert found.mean == successes / of


def test_another_metric_has_a_bootstrap_interval_that_repeats():
    """Values beyond 0 and 1 get a bootstrap interval of the mean, the same every time."""
    values = [0.1, 0.5, 0.7, 0.9, 0.2, 0.4]
    found = interval(values, rate=False)
    assert found == interval(values, rate=False)
    assert min(values) < found.low < found.mean < found.high < max(values)


@pytest.mark.parametrize("values", [[0.0], [2.5], [2.5] * 5])
def test_values_that_do_not_vary_have_no_interval(values):
    """Of a metric that is no rate they tell nothing of its uncertainty; a single value is the shortest such list."""
    told = interval(values, rate=False).wire()
    assert (told["mean"], told["low"], told["high"], told["n"]) == (values[0], None, None, len(values))


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
    assert is_rate(name, values) is rate


def test_the_kind_of_a_metric_is_that_of_the_whole_eval():
    """A distance of 0.0 alone in its task is no failure rate; a rate that is 1 throughout a task stays one there."""

    def episode(index, task, distance, lifted):
        return Scored(index, task, None, (), {"distance_m": distance, "lifted": lifted})

    found = summarize([episode(0, "near", 0.0, 1.0), episode(1, "far", 0.4, 0.0), episode(2, "far", 0.2, 1.0)])
    near, far = found["distance_m"].per_task["near"], found["distance_m"].per_task["far"]
    assert (near.mean, near.low, near.high) == (0.0, None, None)
    assert 0.2 <= far.low < far.high <= 0.4
    assert round(found["lifted"].per_task["near"].low, 3) == 0.207


def test_no_values_have_no_interval():
    """A mean over nothing is an error, not zero."""
    with pytest.raises(ValueError, match="at least one"):
        interval([], rate=True)


def scored(index, task, success, suite=None, variation=()):
    return Scored(index, task, suite, variation, {"success": success})


def test_means_are_given_by_task_suite_and_variant():
    """Micro and macro mean, and every group with its own interval, groups in the order of their first episode."""
    summary = summarize(
        [
            scored(0, "b", 1.0, "s", (("light", "day"),)),
            scored(1, "b", 1.0, "s", (("light", "night"),)),
            scored(2, "b", 1.0, "s", (("light", "day"),)),
            scored(3, "a", 0.0, None, (("light", "night"),)),
        ]
    )["success"]
    assert (summary.overall.mean, summary.overall.n, summary.macro) == (0.75, 4, 0.5)
    assert [(task, group.mean, group.n) for task, group in summary.per_task.items()] == [("b", 1.0, 3), ("a", 0.0, 1)]
    assert {suite: group.n for suite, group in summary.per_suite.items()} == {"s": 3}
    assert {name: group.mean for name, group in summary.per_variant.items()} == {"light=day": 1.0, "light=night": 0.5}


def test_one_variant_is_no_group():
    """Per-variant numbers appear when the eval ran two or more."""
    assert summarize([scored(0, "a", 1.0, None, (("light", "day"),))])["success"].per_variant == {}


def test_a_metric_counts_the_episodes_that_have_it():
    """A metric that only some episodes report has its own n."""
    given = [Scored(0, "a", None, (), {"success": 1.0, "time": 2.0}), Scored(1, "a", None, (), {"success": 0.0})]
    found = summarize(given)
    assert (found["success"].overall.n, found["time"].overall.n) == (2, 1)


def test_the_order_of_arrival_changes_nothing():
    """Sums are taken by index, so the numbers are equal to the last bit."""
    given = [scored(i, "a", value) for i, value in enumerate([0.1, 0.7, 1e16, -1e16, 0.3])]
    assert summarize(given) == summarize(reversed(given))


def test_a_small_group_is_marked():
    """Groups under ten episodes say so."""
    assert interval(outcomes(3, 9), rate=True).wire()["small_n"] is True
    assert interval(outcomes(3, 10), rate=True).wire()["small_n"] is False
