"""The studentised bootstrap of a mean, of many samples at once, seeded. Pure.

Samples of one size share their draws, so a thousand tasks cost one product of two matrices. The products are taken of
whole numbers that stay below 2^53: they are exact, hence equal to the last bit whatever is beside them in the matrix
and however many threads work on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from runner.evals.stats.sample import UPPER, Floats

DRAWS = 2000
SEED = 0
MOST_UNITS = 10_000  # above it the t interval is as good (docs/statistics.md)
CELLS = 2_000_000
TOGETHER = 250
STEPS = 2.0**36  # of the whole numbers: 10,000 of them times a weight stay below 2^53
REMEMBERED = 65_536


class Quantiles(NamedTuple):
    """The 2.5 % and the 97.5 % quantile of a studentised mean."""

    low: float
    high: float


def quantiles(samples: Sequence[Floats]) -> list[Quantiles | None]:
    """Of each sample (g,), two values or more that vary: the quantiles of (mean of a resample - mean) / its standard
    error. Efron and Tibshirani (1993), 12.5; Hall (1988). None above 10,000 values.

    A resample whose values happen to be equal has no standard error to divide by, so the sample's own variance counts
    as one value more in that of every resample (ours; it keeps the coverage, see docs/statistics.md).
    """
    places = [_remembered(_digest(sample)) for sample in samples]
    unknown: dict[int, list[int]] = {}
    for number, sample in enumerate(samples):
        if not places[number] and len(sample) <= MOST_UNITS:
            unknown.setdefault(len(sample), []).append(number)
    for numbers in unknown.values():
        for first in range(0, len(numbers), TOGETHER):
            some = numbers[first : first + TOGETHER]
            for number, found in zip(some, _resampled([samples[number] for number in some]), strict=True):
                places[number][:] = [found]
    return [place[0] if place else None for place in places]


def _resampled(samples: Sequence[Floats]) -> list[Quantiles]:
    """The quantiles of samples of one size."""
    g = len(samples[0])
    values = np.stack([_whole(sample) for sample in samples], axis=1)
    squares = np.rint(values**2 / STEPS)
    sums = [(drawn @ values, drawn @ squares) for drawn in _draws(g)]
    shift = (np.concatenate([s for s, _ in sums]) - values.sum(axis=0)) / (g * STEPS)
    own_mean, own_square = values.sum(axis=0) / (g * STEPS), squares.sum(axis=0) / (g * STEPS)
    own_variance = own_square - own_mean**2
    variance = np.concatenate([s for _, s in sums]) / (g * STEPS) - (shift + own_mean) ** 2
    steadied = (g * np.maximum(variance, 0) + own_variance) / (g + 1)
    low, high = np.quantile(shift / np.sqrt(steadied / (g - 1)), (1 - UPPER, UPPER), axis=0)
    return [Quantiles(*bounds) for bounds in zip(low.tolist(), high.tolist(), strict=True)]


def _whole(sample: Floats) -> Floats:
    """A sample around its mean, as whole numbers from -2^36 to 2^36."""
    centred = sample - np.mean(sample)
    return np.rint(centred / np.abs(centred).max() * STEPS)


def _draws(g: int) -> Iterator[Floats]:
    """How often each of g values is in each resample, in blocks (rows, g)."""
    rng = np.random.default_rng(SEED)
    rows = max(1, CELLS // g)
    for first in range(0, DRAWS, rows):
        count = min(rows, DRAWS - first)
        drawn = rng.integers(g, size=(count, g), dtype=np.int32) + (np.arange(count, dtype=np.int32) * g)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * g).reshape(count, g).astype(float)


def _digest(sample: Floats) -> bytes:
    return blake2b(np.ascontiguousarray(sample).data, digest_size=16).digest()


@lru_cache(maxsize=REMEMBERED)  # a report is read again and again while its eval runs, mostly with the same groups
def _remembered(digest: bytes) -> list[Quantiles]:  # noqa: ARG001
    """Where the quantiles of the sample with that digest are kept, once they are known."""
    return []
