"""How often one key, or one address without a key, may ask the gateway: token buckets, in memory.

What robots must do to drive has a wider bucket of its own, so that no amount of reading keeps one from its slot.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

from runner.errors import Refused

DOOR = frozenset({"/v1/act/connect", "/v1/act/release"})
UNCOUNTED = frozenset({"/v1/latency"})
"""Paths whose requests the client bounds itself: they take nothing from what a key may ask."""

MOST_CALLERS = 10_000


@dataclass(frozen=True)
class Pace:
    """`per_s` requests a second in the long run, `burst` of them at once after a rest."""

    per_s: float
    burst: float


@dataclass(frozen=True)
class Bucket:
    """What was left of a burst `at` a moment (monotonic seconds)."""

    tokens: float
    at: float

    def filled(self, pace: Pace, now: float) -> Bucket:
        """The same later."""
        return Bucket(min(pace.burst, self.tokens + max(0.0, now - self.at) * pace.per_s), now)


class Buckets:
    """One bucket a caller. Of more than `most` callers, the one silent longest is forgotten and starts afresh."""

    def __init__(self, pace: Pace, most: int = MOST_CALLERS) -> None:
        self.pace = pace
        self._most = most
        self._kept: OrderedDict[str, Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, who: str, now: float) -> float:
        """Take one request from the bucket of `who`: 0.0, or the seconds until there is one to take."""
        with self._lock:
            bucket = self._kept.pop(who, Bucket(self.pace.burst, now)).filled(self.pace, now)
            wait_s = max(0.0, (1.0 - bucket.tokens) / self.pace.per_s)
            self._kept[who] = bucket if wait_s else Bucket(bucket.tokens - 1.0, now)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return wait_s


class Rates:
    """The paces of one gateway. Raises Refused `busy`, with the time to wait, where a caller asks more often."""

    def __init__(self, per_s: float) -> None:
        self._keys = Buckets(Pace(per_s, 2 * per_s))
        self._addresses = Buckets(Pace(per_s, 2 * per_s))
        self._door = Buckets(Pace(4 * per_s, 40 * per_s))

    def by_key(self, key_id: str, path: str, now: float) -> None:
        """A request of a key that is known."""
        if path not in UNCOUNTED:
            _take(self._door if path in DOOR else self._keys, key_id, now, "this key")

    def by_address(self, host: str, now: float) -> None:
        """A request of nobody known."""
        _take(self._addresses, host, now, "without a key, this address")


def _take(buckets: Buckets, who: str, now: float, named: str) -> None:
    wait_s = buckets.take(who, now)
    if wait_s:
        pace = f"{buckets.pace.per_s:g}"
        raise Refused(
            "busy",
            f"{named} may ask {pace} times a second, and asked more often",
            hint="ask again after retry_after_s, and less often from then on",
            retry_after_s=math.ceil(wait_s * 1000) / 1000,
            reason="rate_limited",
            per_s=buckets.pace.per_s,
        )
