"""How many episodes it takes: to tell two policies apart, and for a gate that a good policy passes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, log

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import bdtrc, ndtri
from scipy.stats import binom

from runner.evals.stats.sample import Z

POWER = 0.8
Z_POWER = float(ndtri(POWER))
DIFFERENCES = (0.05, 0.1, 0.2)
CORRELATIONS = (0.3, 0.6)
MISS = 0.05
SMALLEST = 1e-4
MOST_EPISODES = 100_000
FEWEST = 6  # five pairs that all differ one way have p = 0.063
OPS = (">=", "<=", ">", "<", "==")


def episodes(rate_a: float, rate_b: float) -> int:
    """Episodes of each arm that tell two rates apart in 80 % of runs (5 % two-sided), on different starts.

    The normal approximation with the pooled variance under "no difference" (Fleiss, Levin and Paik 2003, ch. 4).
    Raises ValueError on equal rates and on rates outside 0 to 1, as `pairs` does.
    """
    return _whole(_episodes(rate_a, rate_b))


def pairs(rate_a: float, rate_b: float, correlation: float) -> int:
    """Starts played by both arms that tell two rates apart in 80 % of runs (5 % two-sided).

    `correlation` is that of the two outcomes of one start. McNemar's test (Connor 1987).
    """
    return _whole(_pairs(rate_a, rate_b, correlation))


def planning(count: int) -> list[str]:
    """What a dry run of `count` episodes an arm says of the differences they can tell (80 % power, 5 % two-sided).

    The rates lie on both sides of 0.5, where the most episodes are needed.
    """
    return [_reach(count), *(_sentence(difference) for difference in DIFFERENCES)]


def pass_chance(true_rate: float, bar: float, n: int, op: str = ">=") -> float:
    """The chance that the mean of a 0/1 metric over n episodes meets `mean op bar`, where its true rate is `true_rate`.

    Exact (binomial); means are compared as a gate compares them, unrounded. Raises ValueError on another `op` than
    >= <= > < ==, a rate outside 0 to 1, or no episodes.
    """
    if op not in OPS:
        raise ValueError(f"no operator {op!r}; there are: {' '.join(OPS)}")
    if not (0 <= true_rate <= 1 and n >= 1):
        raise ValueError(f"a rate of {true_rate} over {n} episodes; it takes a rate from 0 to 1 and an episode")
    fewest, more = int(_fewest(bar, np.array([n]))[0]), int(_fewest(np.nextafter(bar, np.inf), np.array([n]))[0])
    below, at_most = float(binom.cdf(fewest - 1, n, true_rate)), float(binom.cdf(more - 1, n, true_rate))
    at_least, above = float(binom.sf(fewest - 1, n, true_rate)), float(binom.sf(more - 1, n, true_rate))
    return {">=": at_least, "<": below, ">": above, "<=": at_most, "==": at_least - above}[op]


def highest_bar(true_rate: float, n: int, miss: float = MISS) -> float:
    """The highest bar that a policy of this true rate misses, `>= bar`, in at most `miss` of runs of n episodes."""
    return float(binom.ppf(miss, n, true_rate)) / n


def enough_episodes(true_rate: float, bar: float, miss: float = MISS) -> int | None:
    """The number of episodes from which on a policy of this true rate misses a gate `>= bar` in at most `miss` of runs.

    None where no number up to 100,000 does, as for a rate that is not above the bar.
    """
    if bar <= 0 or true_rate == 1 >= bar:
        return 1
    if true_rate <= bar:
        return None
    surely = ceil(log(1 / miss) / (2 * (true_rate - bar) ** 2))  # Hoeffding (1963): from here on it always holds
    n = np.arange(1, min(surely, MOST_EPISODES) + 1)
    missing = np.flatnonzero(bdtrc(_fewest(bar, n) - 1, n, true_rate) < 1 - miss)
    first = int(missing[-1]) + 2 if len(missing) else 1
    return first if first <= MOST_EPISODES else None


def _episodes(rate_a: float, rate_b: float) -> float:
    middle = (rate_a + rate_b) / 2
    return _needed(2 * _variance(middle), _variance(rate_a) + _variance(rate_b), rate_b - rate_a)


def _pairs(rate_a: float, rate_b: float, correlation: float) -> float:
    a, b = _variance(rate_a), _variance(rate_b)
    spread = max(a + b - 2 * correlation * (a * b) ** 0.5, 0)
    return _needed(spread + (rate_b - rate_a) ** 2, spread, rate_b - rate_a)


def _variance(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise ValueError(f"{rate} is no rate; it takes a number from 0 to 1")
    return rate * (1 - rate)


def _needed(variance_if_equal: float, variance: float, difference: float) -> float:
    if not difference:
        raise ValueError("no number of episodes tells two equal rates apart")
    return (Z * variance_if_equal**0.5 + Z_POWER * variance**0.5) ** 2 / difference**2


def _whole(needed: float) -> int:
    return ceil(needed - 1e-9)


def _reach(count: int) -> str:
    """The smallest differences that `count` episodes an arm tell."""
    if count < FEWEST:
        return f"{count} episode(s) an arm tell no two policies apart"
    told = (
        f"{count} episodes an arm tell apart rates (around 0.5; 80 % power, 5 % two-sided) that differ by "
        f"{_smallest(_episodes, count):.2g}"
    )
    apart = {r: _smallest(partial(_pairs, correlation=r), count) for r in CORRELATIONS}
    paired = [f"{found:.2g} at correlation {r}" for r, found in apart.items() if r <= _most_correlated(found)]
    return f"{told}, on the same starts by {', '.join(paired)}" if paired else told


def _most_correlated(difference: float) -> float:
    """The most that two outcomes can correlate whose rates lie so far apart around 0.5: one never fails alone."""
    return (1 - difference) / (1 + difference)


def _smallest(needed: Callable[[float, float], float], count: int) -> float:
    """The difference around 0.5 that needs just so many episodes."""
    return float(brentq(lambda apart: needed(0.5 - apart / 2, 0.5 + apart / 2) - count, SMALLEST, 1))


def _sentence(difference: float) -> str:
    a, b = 0.5 - difference / 2, 0.5 + difference / 2
    paired = ", ".join(f"{pairs(a, b, r):,} at correlation {r}" for r in CORRELATIONS)
    return f"a difference of {difference:.2f} takes {episodes(a, b):,} episodes an arm, on the same starts {paired}"


def _fewest(bar: float, n: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """The fewest successes of n whose share is at least the bar, as floating-point numbers compare; n + 1: none are."""
    fewest = np.clip(np.ceil(bar * n), 0, n + 1)
    fewest -= (fewest > 0) & ((fewest - 1) / n >= bar)
    fewest += (fewest <= n) & (fewest / n < bar)
    return fewest.astype(np.int64)
