"""A mean and its 95 % interval. Pure.

Whether a metric is a rate (0/1) is decided once, over all its values in the eval, and holds for each of its groups. It
is one when every value is 0 or 1 and both occur, or its name reads as a yes or no (`success...`, `is_...`, `has_...`):
a distance that happened to be 0.0 is none. Where the values of any other metric do not vary, one value included, they
say nothing of how uncertain their mean is, and no interval is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from runner.evals.stats import bootstrap
from runner.evals.stats.sample import UPPER, Codes, Floats, Sample, Z, contributions, effective_size, sample

RATE_NAMES = ("success", "is_", "has_")
SMALL = 10
ROUNDING = 1e-12  # values that differ by less, relative to the largest, differ by how they were computed


@dataclass(frozen=True)
class Interval:
    """A mean over `n` values and the 95 % interval it lies in (None: there is none); `small_n` below ten values.

    `clusters` is how many of the values are independent of each other, `method` how the interval was found.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    clusters: int
    method: str

    def wire(self) -> dict[str, float | int | bool | None]:
        """As it stands in the details document."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "small_n": self.n < SMALL}


@dataclass(frozen=True)
class Bounds:
    """Where an estimate lies, or None twice and a method that says why there is no telling."""

    low: float | None
    high: float | None
    method: str


def is_rate(name: str, values: Floats) -> bool:
    """Whether a metric with these values (n,), all those of an eval, is 0/1."""
    values = np.asarray(values)
    zeros, ones = values == 0, values == 1
    if not (zeros | ones).all():
        return False
    return bool(zeros.any() and ones.any()) or name.startswith(RATE_NAMES)


def interval(values: Floats, clusters: Codes | None = None, *, rate: bool) -> Interval:
    """The mean of values (n,) and its 95 % interval; values with one number in `clusters` (n,) depend on each other.

    A rate has Wilson's (1927), with an effective sample size where values depend on each other (Dean and Pagano 2015).
    Anything else has a seeded studentised bootstrap of the mean over the independent values or clusters, Student's t
    beyond 10,000 of them; below ten each bound is the farther one of the two. It stays in the values' range.

    Raises ValueError on no values, values that are not finite, and a rate with other values than 0 and 1.
    """
    return intervals([sample(values, clusters)], rate=rate)[0]


def macro(values: Floats, group: Codes, clusters: Codes | None = None, *, rate: bool) -> Interval:
    """The mean of the groups' means (`group`: codes (n,)) and its 95 % interval, for these very groups, as `interval`.

    The groups are strata, none drawn by chance, so only what varies within them counts; see docs/statistics.md.
    """
    return intervals([sample(values, clusters, group)], rate=rate)[0]


def intervals(samples: Sequence[Sample], *, rate: bool, within: tuple[float, float] | None = None) -> list[Interval]:
    """The interval of each sample; `within`: the range of the metric where it is known better than from each sample."""
    bounds = [_rate(each) for each in samples] if rate else around(samples, within)
    return [
        Interval(each.mean, found.low, found.high, each.n, each.units, found.method)
        for each, found in zip(samples, bounds, strict=True)
    ]


def around(samples: Sequence[Sample], within: tuple[float, float] | None = None) -> list[Bounds]:
    """Where the mean of each sample lies, whatever its values are."""
    found = [_error(each) for each in samples]
    drawn = iter(bootstrap.quantiles([known.added for known in found if isinstance(known, _Error)]))
    return [
        _bounds(each, known, next(drawn), within or (each.values.min(), each.values.max()))
        if isinstance(known, _Error)
        else known
        for each, known in zip(samples, found, strict=True)
    ]


def wilson(mean: float, size: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate seen in `size` independent values, which need not be a whole number."""
    middle = (mean + Z**2 / (2 * size)) / (1 + Z**2 / size)
    half = Z / (1 + Z**2 / size) * np.sqrt(mean * (1 - mean) / size + Z**2 / (4 * size**2))
    low, high = max(0.0, float(middle - half)), min(1.0, float(middle + half))
    return 0.0 if mean == 0 else low, 1.0 if mean == 1 else high


@dataclass(frozen=True, eq=False)
class _Error:
    """What each unit adds to a mean's error (units,), the standard error, and its degrees of freedom."""

    added: Floats
    standard: float
    freedom: float


def _error(each: Sample) -> _Error | Bounds:
    if each.values.min() == each.values.max():
        return Bounds(None, None, "none: one value" if each.n == 1 else "none: equal values")
    added, freedom = contributions(each)
    if not freedom:
        return Bounds(None, None, "none: one cluster")
    largest = np.abs(added).max()
    if largest * each.n <= ROUNDING * np.abs(each.values).max():
        return Bounds(None, None, "none: equal values but for rounding")
    return _Error(added, float(largest * np.sqrt(np.sum((added / largest) ** 2))), freedom)


def _bounds(each: Sample, known: _Error, drawn: bootstrap.Quantiles | None, within: tuple[float, float]) -> Bounds:
    half = float(stdtrit(known.freedom, UPPER))
    low, high, method = -half, half, "Student's t"
    if drawn is not None:
        wider = half / float(stdtrit(len(known.added) - 1, UPPER))  # in strata fewer are free than all but one
        low, high, method = -drawn.high * wider, -drawn.low * wider, "studentised bootstrap"
        if len(known.added) < SMALL:  # too few for the bootstrap to know their spread
            low, high, method = min(low, -half), max(high, half), f"{method}, at least Student's t"
    bottom = max(each.mean + min(low, 0) * known.standard, within[0])
    top = min(each.mean + max(high, 0) * known.standard, within[1])
    return Bounds(float(bottom), float(top), _named(method, each))


def _rate(each: Sample) -> Bounds:
    if not ((each.values == 0) | (each.values == 1)).all():
        raise ValueError("a rate has no other values than 0 and 1")
    return Bounds(*wilson(each.mean, effective_size(each)), _named("Wilson", each))


def _named(method: str, each: Sample) -> str:
    strata = ", stratified" if len(each.sizes) > 1 else ""
    return f"{method}{strata}{', over clusters' if each.unit is not None else ''}"
