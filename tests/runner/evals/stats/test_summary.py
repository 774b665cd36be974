"""Every metric by task, suite and variant."""

from __future__ import annotations

import numpy as np
import pytest

from runner.evals.stats import Grouping, interval, macro, summarize

NAN = float("nan")


def grouping(tasks, seeds=None, suites=None, variations=None):
    n = len(tasks)
    return Grouping.of(tasks, seeds or list(range(n)), suites or [None] * n, variations or [()] * n)


def test_means_are_given_by_task_suite_and_variant():
    """Micro and macro mean, and every group with its own interval, groups in the order of their first episode."""
    day, night = (("light", "day"),), (("light", "night"),)
    episodes = grouping(list("bbba"), [0, 0, 1, 0], ["s", "s", "s", None], [day, night, day, night])
    summary = summarize({"success": np.array([1.0, 1.0, 1.0, 0.0])}, episodes)["success"]
    assert (summary.overall.mean, summary.overall.n, summary.overall.clusters) == (0.75, 4, 3)
    assert (summary.macro.mean, summary.macro.n) == (0.5, 4)
    assert [(task, group.mean, group.n) for task, group in summary.per_task.items()] == [("b", 1.0, 3), ("a", 0.0, 1)]
    assert {suite: group.n for suite, group in summary.per_suite.items()} == {"s": 3}
    assert {name: group.mean for name, group in summary.per_variant.items()} == {"light=day": 1.0, "light=night": 0.5}


def test_each_group_has_the_interval_of_its_values():
    """As if they were all there is, but for the range of a metric that is no rate."""
    rng = np.random.default_rng(0)
    tasks = [f"task {k}" for k in range(5) for _ in range(12)]
    episodes = grouping(tasks, [k % 6 for k in range(60)], variations=[(("arm", str(k % 2)),) for k in range(60)])
    success, effort = (rng.random(60) < 0.7) * 1.0, rng.normal(size=60)
    found = summarize({"success": success, "effort": effort}, episodes)
    assert found["success"].overall == interval(success, episodes.cluster, rate=True)
    assert found["success"].macro == macro(success, episodes.task, episodes.cluster, rate=True)
    assert found["effort"].overall == interval(effort, episodes.cluster, rate=False)
    assert found["success"].per_task["task 3"] == interval(success[36:48], episodes.cluster[36:48], rate=True)
    assert found["success"].per_variant["arm=1"] == interval(success[1::2], episodes.cluster[1::2], rate=True)


def test_the_kind_of_a_metric_is_that_of_the_whole_eval():
    """A distance of 0.0 alone in its task is no failure rate; a rate that is 1 throughout a task stays one there."""
    metrics = {"distance_m": np.array([0.0, 0.4, 0.2]), "lifted": np.array([1.0, 0.0, 1.0])}
    found = summarize(metrics, grouping(["near", "far", "far"]))
    near, far = found["distance_m"].per_task["near"], found["distance_m"].per_task["far"]
    assert (near.mean, near.low, near.high) == (0.0, None, None)
    assert 0.0 <= far.low < 0.3 < far.high <= 0.4
    assert round(found["lifted"].per_task["near"].low, 3) == 0.207


def test_one_variant_is_no_group():
    """Per-variant numbers appear when the eval ran two or more."""
    episodes = grouping(["a", "a"], variations=[(("light", "day"),)] * 2)
    assert summarize({"success": np.array([1.0, 0.0])}, episodes)["success"].per_variant == {}


def test_a_combination_of_variants_is_in_the_group_of_each():
    """Four combinations of two axes are four groups of half the episodes."""
    combinations = [(("light", light), ("cup", cup)) for light in ("day", "night") for cup in ("red", "blue")]
    episodes = grouping(["a"] * 8, [0] * 4 + [1] * 4, variations=combinations * 2)
    found = summarize({"success": np.array([1.0, 1.0, 0.0, 0.0] * 2)}, episodes)["success"]
    means = {name: (group.mean, group.n, group.clusters) for name, group in found.per_variant.items()}
    assert means == {
        "light=day": (1.0, 4, 2),
        "cup=red": (0.5, 4, 2),
        "cup=blue": (0.5, 4, 2),
        "light=night": (0.0, 4, 2),
    }


def test_variants_of_one_start_are_one_cluster():
    """Task and seed make a start; the same seed of another task is another."""
    assert grouping(["a", "a", "b", "a"], [0, 0, 0, 1]).cluster.tolist() == [0, 0, 1, 2]


def test_a_metric_counts_the_episodes_that_have_it():
    """A metric that only some episodes report has its own n, and its groups begin with the first of them."""
    metrics = {"success": np.array([1.0, 0.0, 1.0]), "time": np.array([NAN, 2.0, NAN]), "never": np.full(3, NAN)}
    found = summarize(metrics, grouping(["a", "b", "a"]))
    assert list(found) == ["success", "time"]
    assert (found["success"].overall.n, found["time"].overall.n) == (3, 1)
    assert list(found["time"].per_task) == ["b"]


def test_no_episode_is_no_metric():
    """An eval of which nothing is scored yet has nothing to tell."""
    assert summarize({"success": np.array([])}, grouping([])) == {}


def test_a_metric_of_another_length_is_an_error():
    """It would put values beside other episodes."""
    with pytest.raises(ValueError, match="success: 1 values for 2 episodes"):
        summarize({"success": np.ones(1)}, grouping(["a", "b"]))


def test_equal_runs_have_equal_bits():
    """Metrics given in another order, arrays laid out otherwise, groups renamed: the numbers are the same."""
    rng = np.random.default_rng(0)
    values = {name: rng.lognormal(size=400) for name in ("time", "effort")}
    tasks = [f"t{k // 40}" for k in range(400)]
    first = summarize(values, grouping(tasks))
    other = {name: np.repeat(values[name], 2)[::2] for name in reversed(values)}
    assert summarize(other, grouping([f"other {task}" for task in tasks]))["time"].overall == first["time"].overall
    assert summarize(other, grouping(tasks)) == first


def test_codes_of_no_episode_make_no_group():
    """A grouping of a whole eval may name tasks, suites and variants of which nothing ran."""
    codes = np.zeros(2, dtype=np.int32)
    episodes = Grouping(
        ("a", "b"), codes, ("s", "t"), codes - 1, ("x=1", "x=2"), codes, ((0,), (1,)), np.arange(2, dtype=np.int64)
    )
    found = summarize({"success": np.array([1.0, 0.0])}, episodes)["success"]
    assert (list(found.per_task), found.per_suite, found.per_variant) == (["a"], {}, {})
