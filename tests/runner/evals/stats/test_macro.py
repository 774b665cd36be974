"""The mean of task means, for these very tasks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from runner.evals.stats import interval, macro


def width(found):
    return found.high - found.low


@settings(deadline=None)
@given(values=st.lists(st.floats(0, 10), min_size=2, max_size=30), rate=st.booleans())
def test_the_macro_mean_of_one_task_is_its_mean(values, rate):
    """To the bit, interval and all."""
    values = (np.array(values) > 5) * 1.0 if rate else np.array(values)
    assert macro(values, np.full(len(values), 7), rate=rate) == interval(values, rate=rate)


def test_every_task_counts_once_however_many_episodes_it_has():
    """3 of 3 and 0 of 1 are a half."""
    found = macro(np.array([1.0, 1.0, 1.0, 0.0]), np.array([4, 4, 4, 2]), rate=True)
    assert (found.mean, found.n) == (0.5, 4)
    assert 0 < found.low < 0.5 < found.high < 1


def test_many_episodes_have_the_stratified_interval_of_the_textbook():
    """mean +- z sqrt(sum of s^2 / n of the tasks) / tasks."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(6), [2000, 4000, 3000, 2000, 1000, 8000])
    values = rng.exponential(1 + task)
    found = macro(values, task, rate=False)
    parts = [values[task == k] for k in range(6)]
    half = norm.ppf(0.975) * np.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)) / 6
    middle = np.mean([part.mean() for part in parts])
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), rel=1e-3)
    assert found.method == "Student's t, stratified"


@pytest.mark.parametrize("rate", [True, False])
def test_what_differs_between_tasks_widens_nothing(rate):
    """Easy and hard tasks are the benchmark, not luck: the interval is narrower than that of the plain mean."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(10), 20)
    values = (rng.random(200) < np.linspace(0.02, 0.98, 10)[task]) * 1.0 if rate else rng.normal(task)
    stratified, plain = macro(values, task, rate=rate), interval(values, rate=rate)
    assert stratified.mean == pytest.approx(plain.mean)
    assert width(stratified) < 0.9 * width(plain)


def test_tasks_that_only_succeed_or_only_fail_are_not_certain():
    """Twenty perfect tasks and twenty hopeless ones: a half, with a little doubt left."""
    found = macro(np.repeat([1.0, 0.0], 200), np.repeat(np.arange(40), 10), rate=True)
    assert 0.003 < 0.5 - found.low < 0.03


@pytest.mark.parametrize("rate", [True, False])
def test_tasks_of_one_episode_are_taken_together(rate):
    """Nothing tells what varies within them, so what varies between them has to: the plain interval."""
    values = np.random.default_rng(1).exponential(size=40)
    values = (values > 1) * 1.0 if rate else values
    alone, plain = macro(values, np.arange(40), rate=rate), interval(values, rate=rate)
    assert (alone.low, alone.high) == pytest.approx((plain.low, plain.high), rel=1e-6)


def test_a_task_of_one_episode_beside_others_adds_to_the_doubt():
    """It has a third of the weight and nobody knows its spread."""
    values = np.r_[np.random.default_rng(1).normal(size=40), 2.0]
    lonely = macro(values, np.r_[np.repeat([0, 1], 20), 2], rate=False)
    assert width(lonely) > 2 * width(macro(values[:-1], np.repeat([0, 1], 20), rate=False))


def test_starts_shared_by_variants_are_clusters_within_their_task():
    """A start's episodes count once; one number in two tasks is two starts."""
    rng = np.random.default_rng(1)
    task, start = np.repeat(np.arange(4), 40), np.tile(np.repeat(np.arange(10), 4), 4)
    values = (rng.random((4, 10)) < 0.6)[task, start] * 1.0
    found = macro(values, task, start, rate=True)
    assert (found.clusters, found.method) == (40, "Wilson, stratified, over clusters")
    assert found == macro(values, task, task * 10 + start, rate=True)
    assert width(found) > 1.7 * width(macro(values, task, rate=True))


def test_tasks_without_any_variation_have_no_interval():
    """Each task always gives the same distance: a mean, and no telling."""
    found = macro(np.repeat([0.1, 0.4, 0.7], 5), np.repeat([0, 1, 2], 5), rate=False)
    assert (found.mean, found.low) == (pytest.approx(0.4), None)
