"""The numbers of a report: means with 95 % intervals, overall and by task, suite and variant. Pure.

An episode that ended in an error has no metrics and counts in no mean. Sums are taken in the order of the episodes'
indices, so equal runs give equal numbers to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum

import numpy as np
from scipy.stats import binomtest, bootstrap

SMALL = 10
CONFIDENCE = 0.95
DRAWS = 1000
SEED = 0
MOST_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Scored:
    """One episode that was scored."""

    index: int
    task: str
    suite: str | None
    variation: tuple[tuple[str, str], ...]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Interval:
    """A mean over `n` values and the 95 % interval it lies in; `small_n` below ten values."""

    mean: float
    low: float
    high: float
    n: int

    def wire(self) -> dict[str, float | int | bool]:
        """As it stands in the details document."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "small_n": self.n < SMALL}


@dataclass(frozen=True)
class Summary:
    """One metric: over all episodes (`overall`, the micro mean), as mean of task means (`macro`), and by group."""

    overall: Interval
    macro: float
    per_task: dict[str, Interval]
    per_suite: dict[str, Interval]
    per_variant: dict[str, Interval]


def summarize(scored: Iterable[Scored]) -> dict[str, Summary]:
    """Every metric's summary, metrics by name."""
    episodes = sorted(scored, key=lambda episode: episode.index)
    names = sorted({name for episode in episodes for name in episode.metrics})
    return {name: _summary(name, [episode for episode in episodes if name in episode.metrics]) for name in names}


def interval(values: Sequence[float]) -> Interval:
    """The mean and its interval: Wilson's where every value is 0 or 1, a seeded bootstrap of the mean elsewhere.

    Raises ValueError on no values.
    """
    if not values:
        raise ValueError("no values; an interval needs at least one")
    mean = fsum(values) / len(values)
    low, high = _wilson(values) if set(values) <= {0.0, 1.0} else _bootstrap(tuple(values))
    return Interval(mean, low, high, len(values))


def _summary(name: str, episodes: Sequence[Scored]) -> Summary:
    per_task = _grouped(name, episodes, lambda episode: [episode.task])
    variants = _grouped(name, episodes, lambda episode: [f"{axis}={value}" for axis, value in episode.variation])
    return Summary(
        overall=interval([episode.metrics[name] for episode in episodes]),
        macro=fsum(group.mean for group in per_task.values()) / len(per_task),
        per_task=per_task,
        per_suite=_grouped(name, episodes, lambda episode: [episode.suite] if episode.suite else []),
        per_variant=variants if len(variants) > 1 else {},
    )


def _grouped(name: str, episodes: Sequence[Scored], keys: Callable[[Scored], list[str]]) -> dict[str, Interval]:
    """Groups in the order of their first episode."""
    groups: dict[str, list[float]] = {}
    for episode in episodes:
        for key in keys(episode):
            groups.setdefault(key, []).append(episode.metrics[name])
    return {key: interval(values) for key, values in groups.items()}


def _wilson(values: Sequence[float]) -> tuple[float, float]:
    test = binomtest(int(fsum(values)), len(values))
    bounds = test.proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return float(bounds.low), float(bounds.high)


@lru_cache(maxsize=256)  # a report is read again and again while its eval runs, mostly with the same groups
def _bootstrap(values: tuple[float, ...]) -> tuple[float, float]:
    if len(set(values)) == 1:
        return values[0], values[0]
    drawn = bootstrap(
        (np.asarray(values),),
        np.mean,
        n_resamples=DRAWS,
        batch=max(1, MOST_AT_ONCE // len(values)),
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(SEED),
    )
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)
