"""Percentiles and paired ratios. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000


class Interval(NamedTuple):
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, float]:
        """As three figures of a row."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def spread(values: Sequence[float], unit: str) -> dict[str, float]:
    """Median and 99th percentile as figures of a row."""
    return {f"p50_{unit}": float(np.percentile(values, 50)), f"p99_{unit}": float(np.percentile(values, 99))}


def paired_ratio(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], seed: int) -> Interval:
    """A block's p50 of `ours` over that of `theirs`, block i of both taken side by side: the median over all blocks.

    Whatever slows the machine for a while slows both blocks of a pair. The interval is bootstrapped over the pairs.
    """
    ratios = np.median(ours, axis=1) / np.median(theirs, axis=1)
    picks = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picks], axis=1), [2.5, 97.5])
    return Interval(float(np.median(ratios)), float(low), float(high))
