"""Values with the strata whose means are averaged and the clusters of values that depend on each other. Pure.

Every estimate here is the mean of the strata's means (one stratum: the plain mean). Values of one cluster in one
stratum are never counted as independent: they are one *unit*, and only units are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.integer]

CONFIDENCE = 0.95
UPPER = (1 + CONFIDENCE) / 2
Z = float(ndtri(UPPER))
IMAGINED = Z**2 / 4  # the sum of squares of the values that Wilson's interval imagines: z^2 of them, half 0 and half 1
SPARSE = 4  # codes that span more than so many times their number are sorted, not counted


@dataclass(frozen=True, eq=False)
class Sample:
    """Values (n,), each one's stratum (n,) and unit (n,), both dense codes; no units: every value is one."""

    values: Floats
    stratum: Codes
    unit: Codes | None

    @property
    def n(self) -> int:
        """How many values there are."""
        return len(self.values)

    @cached_property
    def units(self) -> int:
        """How many independent units they are."""
        return self.n if self.unit is None else int(self.unit.max()) + 1

    @cached_property
    def sizes(self) -> Floats:
        """Values in each stratum (K,)."""
        return np.bincount(self.stratum).astype(float)

    @cached_property
    def means(self) -> Floats:
        """The mean of each stratum (K,)."""
        if len(self.sizes) == 1:
            return np.array([_mean(self.values)])
        return np.bincount(self.stratum, self.values) / self.sizes

    @cached_property
    def mean(self) -> float:
        """The estimate: the mean of the strata's means."""
        return _mean(self.means)

    @cached_property
    def shares(self) -> Floats:
        """The share of the estimate that one value of each stratum has (K,)."""
        return 1 / (len(self.sizes) * self.sizes)

    @cached_property
    def residuals(self) -> Floats:
        """What each value adds to the estimate beyond its stratum's mean (n,)."""
        return (self.values - self.means[self.stratum]) * self.shares[self.stratum]

    @cached_property
    def home(self) -> Codes:
        """The stratum of each unit (units,)."""
        if self.unit is None:
            return self.stratum
        home = np.empty(self.units, self.stratum.dtype)
        home[self.unit] = self.stratum
        return home

    def totals(self, values: Floats) -> Floats:
        """Values (n,) summed by unit (units,)."""
        return values if self.unit is None else np.bincount(self.unit, values)


def sample(values: Floats, clusters: Codes | None = None, strata: Codes | None = None) -> Sample:
    """A sample of `values` (n,); `clusters` and `strata` are any integer codes (n,), None: all apart, all in one.

    Raises ValueError on no values, on other lengths than n and on values that are not finite.
    """
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        raise ValueError("no values; an interval needs at least one")
    for name, codes in (("clusters", clusters), ("strata", strata)):
        if codes is not None and len(codes) != len(values):
            raise ValueError(f"{len(values)} values and {len(codes)} {name}; there must be one for each value")
    if not np.isfinite(values).all():
        raise ValueError("a value is not finite; leave out what is missing")
    stratum = np.zeros(len(values), dtype=np.intp) if strata is None else _dense(strata)
    return Sample(values, stratum, None if clusters is None else _units(_dense(clusters), stratum))


def effective_size(sample: Sample) -> float:
    """As many independent 0/1 values (or differences of two) tell as much of the mean: n, where these are independent.

    From the cluster-robust variance (Liang and Zeger 1986) within strata, less for few units as by Korn and Graubard
    (1998). Few failures tell little of how much units and strata matter, so that variance and the plain one it is
    compared with both begin with Wilson's imagined values, taken as fully dependent ones (ours): who has seen nothing
    fail has seen no independence. Dependence never adds to what the values tell, and takes no more away than counting
    every unit once.
    """
    if sample.unit is None and len(sample.sizes) == 1:
        return float(sample.n)
    shares = sample.shares[sample.stratum]
    equal = 1 / float(np.sum(shares**2))  # as many values of equal shares
    apart = _variance_ratio(Sample(sample.values, sample.stratum, None), 1.0)
    if sample.unit is None:
        return equal / apart
    weights = sample.totals(shares)
    worst = equal * float(np.sum(weights**2))
    return equal / min(max(_variance_ratio(sample, worst), apart), max(worst, apart))


def contributions(sample: Sample) -> tuple[Floats, float]:
    """What each unit adds to the estimate's error (units,): the variance of the estimate is the sum of their squares;
    and its degrees of freedom (Welch's, in the form that squares estimated variances without bias), 0: no telling.

    A stratum of one unit says nothing of its own variance; all such strata together are taken as one, around the
    estimate (the lonely units of a survey, Lumley 2010).
    """
    home, strata = sample.home, len(sample.sizes)
    units_in = np.bincount(home).astype(float)
    added = sample.totals(sample.residuals) * np.sqrt(_unbiased(units_in))[home]
    if strata == 1:
        return added, sample.units - 1.0
    lonely = units_in[home] == 1
    count = int(lonely.sum())
    added[lonely] = (sample.means[home[lonely]] - sample.mean) / strata * np.sqrt(count / max(1, count - 1))
    return added, _freedom(added, np.where(lonely, strata, home))


def _mean(values: Floats) -> float:
    """The mean, which rounding does not carry out of the values' range: equal values have their value as mean."""
    with np.errstate(over="ignore"):
        mean = np.mean(values)
    if not np.isfinite(mean):  # the sum is too large for a float, not the mean
        mean = np.sum(values / len(values))
    return float(np.clip(mean, values.min(), values.max()))


def _unbiased(counts: Floats) -> Floats:
    """The factor n / (n - 1) of a variance that is estimated from n, 0 where n is 1."""
    return np.where(counts > 1, counts / np.maximum(counts - 1, 1), 0.0)


def _variance_ratio(sample: Sample, dependence: float) -> float:
    """The variance of the mean, the values in their units and strata, as a multiple of that of n values all apart."""
    added, freedom = contributions(sample)
    if not freedom:
        return dependence
    shares = sample.shares[sample.stratum]
    plain = float(np.sum(((sample.values - sample.mean) * shares) ** 2)) * sample.n / (sample.n - 1)
    imagined = IMAGINED * float(np.mean(shares**2))
    few = float((stdtrit(freedom, UPPER) / stdtrit(sample.n - 1, UPPER)) ** 2)
    return few * (float(np.sum(added**2)) + dependence * imagined) / (plain + imagined)


def _freedom(added: Floats, home: Codes) -> float:
    free = np.maximum(np.bincount(home) - 1.0, 0)
    largest = np.abs(added).max()
    if not largest:
        return float(free.sum())
    variances = np.bincount(home, (added / largest) ** 2)
    variances /= variances.sum()
    return float(min(max(1 / np.sum(variances**2 / (free + 2)) - 2, 1), free.sum()))


def _dense(codes: Codes) -> Codes:
    """The same codes as 0, 1, 2, ... in their order."""
    codes = np.asarray(codes)
    first, last = int(codes.min()), int(codes.max())
    if last - first > SPARSE * len(codes):
        return np.unique(codes, return_inverse=True)[1]
    codes = codes - first
    there = np.bincount(codes) > 0
    return codes if there.all() else (np.cumsum(there) - 1)[codes]


def _units(cluster: Codes, stratum: Codes) -> Codes | None:
    """Clusters within strata; None where each value is alone in its own."""
    count = int(cluster.max()) + 1
    home = np.empty(count, stratum.dtype)
    home[cluster] = stratum
    nested = bool((home[cluster] == stratum).all())
    unit = cluster if nested else _dense(stratum.astype(np.int64) * count + cluster)
    return None if int(unit.max()) + 1 == len(unit) else unit
