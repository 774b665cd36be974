"""The numbers of a report: means with 95 % intervals, overall and by task, suite and variant. Pure.

An episode that ended in an error has no metrics and counts in no mean. Sums are taken in the order of the episodes'
indices, so equal runs give equal numbers to the last bit.

Whether a metric is a rate (0/1) is decided once, over all its values in the eval, and holds for each of its groups. It
is one when every value is 0 or 1 and both occur, or its name reads as a yes or no (`success...`, `is_...`, `has_...`):
a distance that happened to be 0.0 is none. Where the values of any other metric do not vary, one value included, they
say nothing of how uncertain their mean is, and no interval is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum

import numpy as np
from scipy.stats import binomtest, bootstrap

RATE_NAMES = ("success", "is_", "has_")
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
    """A mean over `n` values and the 95 % interval it lies in (None: there is none); `small_n` below ten values."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def wire(self) -> dict[str, float | int | bool | None]:
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


def is_rate(name: str, values: Iterable[float]) -> bool:
    """Whether a metric with these values, all those of an eval, is 0/1."""
    found = set(values)
    return found == {0.0, 1.0} or (found < {0.0, 1.0} and name.startswith(RATE_NAMES))


def interval(values: Sequence[float], *, rate: bool) -> Interval:
    """The mean and its interval: Wilson's for a rate, else a seeded bootstrap of the mean where the values vary.

    Raises ValueError on no values.
    """
    if not values:
        raise ValueError("no values; an interval needs at least one")
    mean = fsum(values) / len(values)
    if not rate and len(set(values)) == 1:
        return Interval(mean, None, None, len(values))
    low, high = _wilson(values) if rate else _bootstrap(tuple(values))
    return Interval(mean, low, high, len(values))


def _summary(name: str, episodes: Sequence[Scored]) -> Summary:
    values = [episode.metrics[name] for episode in episodes]
    rate = is_rate(name, values)

    def grouped(keys: Callable[[Scored], list[str]]) -> dict[str, Interval]:
        groups = _groups(zip(map(keys, episodes), values, strict=True))
        return {key: interval(group, rate=rate) for key, group in groups.items()}

    per_task = grouped(lambda episode: [episode.task])
    variants = grouped(lambda episode: [f"{axis}={value}" for axis, value in episode.variation])
    return Summary(
        overall=interval(values, rate=rate),
        macro=fsum(group.mean for group in per_task.values()) / len(per_task),
        per_task=per_task,
        per_suite=grouped(lambda episode: [episode.suite] if episode.suite else []),
        per_variant=variants if len(variants) > 1 else {},
    )


def _groups(keyed: Iterable[tuple[list[str], float]]) -> dict[str, list[float]]:
    """Groups in the order of their first episode."""
    groups: dict[str, list[float]] = {}
    for keys, value in keyed:
        for key in keys:
            groups.setdefault(key, []).append(value)
    return groups


def _wilson(values: Sequence[float]) -> tuple[float, float]:
    test = binomtest(int(fsum(values)), len(values))
    bounds = test.proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return float(bounds.low), float(bounds.high)


@lru_cache(maxsize=256)  # a report is read again and again while its eval runs, mostly with the same groups
def _bootstrap(values: tuple[float, ...]) -> tuple[float, float]:
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
