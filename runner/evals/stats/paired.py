"""Two arms on the same episodes: how far apart, how sure, and what many comparisons do to that. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binomtest, permutation_test

from runner.evals.stats.interval import Bounds, around
from runner.evals.stats.sample import Codes, Floats, Sample, Z, effective_size, sample

FLIPS = 9999
SEED = 0
MOST_FLIPPED = 1000  # above it a sum of so many flipped differences is normal
CELLS = 2_000_000


@dataclass(frozen=True)
class Difference:
    """Arm b minus arm a over n pairs: the mean with its 95 % interval, and the p of "there is none", two-sided.

    `won` counts the pairs in which b is higher, `lost` those in which a is. None: no telling, and `method` says why.
    """

    n: int
    mean_diff: float | None
    low: float | None
    high: float | None
    p: float | None
    won: int
    lost: int
    method: str
    p_method: str

    def wire(self) -> dict[str, Any]:
        """As it stands in the details document."""
        return asdict(self)


def difference(a: Floats, b: Floats, clusters: Codes | None = None, *, rate: bool) -> Difference:
    """The difference b - a of matched values (n,) and (n,); pairs with one number in `clusters` (n,) are dependent.

    0/1 metrics (`rate`): the interval of Agresti and Min (2005) and the exact test of McNemar (1947). Others: the
    bootstrap of `interval`, on the differences, and a seeded test by flipping their signs. Where pairs are dependent,
    the interval is that of as many independent pairs, or of clusters, and the test flips whole clusters.

    Raises ValueError on arms of different lengths, values that are not finite, and a rate that is not all 0 and 1.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values of one arm and {len(b)} of the other; match them first")
    if not len(a):
        return Difference(0, None, None, None, None, 0, 0, "none: no pairs", "none: no pairs")
    pairs = sample(b - a, clusters)
    won, lost = int(np.sum(b > a)), int(np.sum(b < a))
    bounds = _agresti_min(pairs, a, b) if rate else _bootstrap(pairs, a, b)
    p, p_method = _mcnemar(won, lost) if rate and pairs.unit is None else _flipped(pairs)
    return Difference(len(a), pairs.mean, bounds.low, bounds.high, p, won, lost, bounds.method, p_method)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p values adjusted for their number (Holm 1979): where those at most 0.05 are called differences, the chance
    that any of them is none is at most 5 %. None stays None and counts for nothing.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    most = 0.0
    for rank, (p, place) in enumerate(known):
        most = max(most, min(1.0, p * (len(known) - rank)))
        adjusted[place] = most
    return adjusted


def _agresti_min(pairs: Sample, a: Floats, b: Floats) -> Bounds:
    """Half a pair is added to each of the four outcomes, then Wald's interval is taken."""
    if not (((a == 0) | (a == 1)) & ((b == 0) | (b == 1))).all():
        raise ValueError("a rate has no other values than 0 and 1")
    size = effective_size(pairs)
    weight = size / pairs.n
    up, down = np.sum(b > a) * weight + 0.5, np.sum(b < a) * weight + 0.5
    total = size + 2
    middle = (up - down) / total
    half = Z * np.sqrt(((up + down) / total - middle**2) / total)
    method = "Agresti-Min" if pairs.unit is None else "Agresti-Min, over clusters"
    return Bounds(float(max(middle - half, -1)), float(min(middle + half, 1)), method)


def _bootstrap(pairs: Sample, a: Floats, b: Floats) -> Bounds:
    """No difference can be larger than the range of what both arms showed."""
    widest = float(max(a.max(), b.max()) - min(a.min(), b.min()))
    return around([pairs], (-widest, widest))[0]


def _mcnemar(won: int, lost: int) -> tuple[float, str]:
    p = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
    return p, "exact McNemar"


def _flipped(pairs: Sample) -> tuple[float, str]:
    """The chance of a sum so far from 0, were every difference (cluster) as likely the other way round."""
    totals = pairs.totals(pairs.values)
    totals = totals[totals != 0]
    over = "" if pairs.unit is None else ", over clusters"
    if len(totals) < 2:  # turned round, one is as far out
        return 1.0, f"exact sign flip{over}"
    totals = totals / np.abs(totals).max()
    if len(totals) > MOST_FLIPPED:
        score = np.sum(totals) / np.sqrt(np.sum(totals**2))
        return float(2 * ndtr(-abs(score))), f"sign flip, normal limit{over}"
    return _sign_flip(totals.tobytes()), f"{'exact ' if 2 ** len(totals) <= FLIPS else ''}sign flip{over}"


@lru_cache(maxsize=1024)  # a report is read again and again
def _sign_flip(totals: bytes) -> float:
    differences = np.frombuffer(totals)
    found = permutation_test(
        (differences,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        batch=CELLS // len(differences),
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue)
