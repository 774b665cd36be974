"""How often a 0/1 metric's mean meets a bar by luck: exact binomial sums, without SciPy.

With K successes in n episodes of a policy whose true rate is r, P(K = k) = C(n, k) r^k (1 - r)^(n - k).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from math import ceil, exp, floor, fsum, lgamma, log, log1p

Compare = Callable[[float, float], bool]

MOST_EPISODES = 2**20
_NOTHING = 1e-18  # terms below this share of a sum of at most 1 change no printed digit
_STEPS = 64


def miss(rate: float, n: int, compare: Compare, bar: float) -> float:
    """The chance that a policy of true rate `rate` misses `mean compare bar` over `n` episodes."""
    if compare is operator.eq:
        k = round(bar * n)
        return 1.0 - (_mass(k, n, rate) if 0 <= k <= n and k / n == bar else 0.0)
    if compare in (operator.ge, operator.gt):
        return _below(_fewest(n, compare, bar), n, rate)
    return _below(n - _most(n, compare, bar), n, 1.0 - rate)


def episodes_for(rate: float, compare: Compare, bar: float, risk: float) -> int | None:
    """From how many episodes on the bar is missed with a chance of at most `risk`; None: no number up to 2^20 will do.

    The chance falls with n in the shape of a saw, one tooth a step of the bar; the answer lies behind the last tooth
    that is too high.
    """
    if rate == bar or not compare(rate, bar):
        return None
    tooth = min(_STEPS, ceil(1 / max(min(bar, 1 - bar), 1 / _STEPS)))

    def safe(n: int) -> bool:
        return all(miss(rate, size, compare, bar) <= risk for size in range(n, n + tooth + 1))

    enough = 1
    while not safe(enough):
        enough *= 2
        if enough > MOST_EPISODES:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        enough, too_few = (middle, too_few) if safe(middle) else (enough, middle)
    return enough


def bar_for(rate: float, n: int, compare: Compare, risk: float) -> float | None:
    """The strictest bar, on three places, that a policy of true rate `rate` misses with a chance of at most `risk`."""
    if compare is operator.eq:
        return None
    upward = compare in (operator.ge, operator.gt)
    steps = range(floor(rate * 1000 + 1e-9), -1, -1) if upward else range(ceil(rate * 1000 - 1e-9), 1001)
    return next((step / 1000 for step in steps if miss(rate, n, compare, step / 1000) <= risk), None)


def _fewest(n: int, compare: Compare, bar: float) -> int:
    """The fewest successes that meet a lower bar, judged as the gate judges; n + 1 where none do."""
    k = min(max(floor(bar * n) - 1, 0), n)
    while k <= n and not compare(k / n, bar):
        k += 1
    return k


def _most(n: int, compare: Compare, bar: float) -> int:
    """The most successes that meet an upper bar; -1 where none do."""
    k = max(min(ceil(bar * n) + 1, n), 0)
    while k >= 0 and not compare(k / n, bar):
        k -= 1
    return k


def _below(k: int, n: int, rate: float) -> float:
    """P(K < k)."""
    if k <= 0:
        return 0.0
    if k > n:
        return 1.0
    if k <= n * rate:
        return min(fsum(_falling(k - 1, n, rate)), 1.0)
    return max(1.0 - fsum(_falling(n - k, n, 1.0 - rate)), 0.0)  # the short side of the sum: P(failures <= n - k)


def _falling(k: int, n: int, rate: float) -> Iterator[float]:
    """P(K = k), P(K = k - 1), ... for k at or below the mode, until what is left is nothing."""
    term = _mass(k, n, rate)
    while k >= 0 and term > _NOTHING:
        yield term
        if rate == 1.0:
            return
        term *= k / (n - k + 1) * ((1 - rate) / rate) if rate else 0.0
        k -= 1


def _mass(k: int, n: int, rate: float) -> float:
    if rate in (0.0, 1.0):
        return float(k == n * rate)
    ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(ways + k * log(rate) + (n - k) * log1p(-rate))
