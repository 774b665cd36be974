"""What a benchmark's own score says of each group, and what becomes of one that goes wrong."""

from __future__ import annotations

import math

import pytest

from runner.engine.score import score_groups
from seq import EpisodeResult


def result(task: str, success: float, suite: str | None = None) -> EpisodeResult:
    metrics = {"success": success}
    return EpisodeResult(metrics=metrics, steps=1, terminated=True, truncated=False, task=task, seed=0, suite=suite)


RESULTS = [result("reach", 1.0, "free"), result("push", 0.0, "contact"), result("push", 1.0, "contact")]


def test_each_group_is_scored_once() -> None:
    """All episodes, every suite, every task, each with its own episodes."""
    found = score_groups(
        lambda group: {"percent": 100 * sum(r.metrics["success"] for r in group) / len(group)}, RESULTS
    )
    assert found.overall == {"percent": pytest.approx(66.6667, abs=1e-3)}
    assert found.per_task == {"reach": {"percent": 100.0}, "push": {"percent": 50.0}}
    assert found.per_suite == {"free": {"percent": 100.0}, "contact": {"percent": 50.0}}
    assert found.sizes == {"overall": 3, "per_task": {"reach": 1, "push": 2}, "per_suite": {"free": 1, "contact": 2}}
    assert found.errors == []


def test_none_adds_nothing() -> None:
    """It is no error either."""
    found = score_groups(lambda group: None, RESULTS)
    assert (found.overall, found.errors) == ({}, [])


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ([1.0], "it returned a list; return a dict of numbers, or None"),
        ({"x": math.nan}, "'x' is nan; every value must be a finite number"),
        ({"x": "high"}, "'x' is 'high'; every value must be a finite number"),
        ({1: 2.0}, "1 is 2.0"),
    ],
)
def test_what_is_no_score_is_told_and_keeps_the_means(said, says: str) -> None:
    """A line for each group that begins with `score:`."""
    found = score_groups(lambda group: said, RESULTS)
    assert found.overall == {}
    assert len(found.errors) == 5
    assert all(line.startswith("score: ") and says in line for line in found.errors)


def test_a_score_that_raises_spoils_its_group_alone() -> None:
    """The others are scored."""

    def score(group):
        if len(group) == 2:
            raise ZeroDivisionError("two")
        return {"n": len(group)}

    found = score_groups(score, RESULTS)
    assert found.overall == {"n": 3.0}
    assert found.per_task == {"reach": {"n": 1.0}, "push": {}}
    assert found.errors == [
        "score: of suite 'contact': ZeroDivisionError: two",
        "score: of task 'push': ZeroDivisionError: two",
    ]


def test_nothing_scored_is_not_asked() -> None:
    """An empty group is no group."""
    assert score_groups(lambda group: pytest.fail("asked"), []).overall == {}
