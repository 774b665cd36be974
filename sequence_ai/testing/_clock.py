"""A clock moved by hand, which also runs what was to be done beside the caller's own work."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Callable

_Due = tuple[float, int, Callable[[], None]]


class FakeClock:
    """A clock that stands still until it is slept on or moved; `slept` lists every sleep in seconds, `waited` every
    wait for an alarm.

    Work left to it with `later` is done in the thread that lets the time pass, at its due time; `lag_s` is how long
    such work takes, as a request to a far server would.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.waited: list[float] = []
        self.lag_s = 0.0
        self._due: list[_Due] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Pass at once, as if `seconds` had gone by."""
        self.slept.append(seconds)
        self.move(seconds)

    def alarm(self) -> FakeAlarm:
        """A new alarm, whose waits pass at once."""
        return FakeAlarm(self)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do `work` once `seconds` and `lag_s` have gone by."""
        self.at(self.now + seconds + self.lag_s, work)

    def at(self, when: float, work: Callable[[], None]) -> None:
        """Do `work` when the clock reads `when`."""
        heapq.heappush(self._due, (when, next(self._order), work))

    def move(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let `seconds` go by without anybody sleeping, or less when something done meanwhile makes `until` true."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            when, _, work = heapq.heappop(self._due)
            self.now = max(self.now, when)
            work()
            if until():
                return
        self.now = max(self.now, end)


class FakeAlarm:
    """An alarm on a `FakeClock`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._is_set = False

    def set(self) -> None:
        """End the wait under way, or else the next one."""
        self._is_set = True

    def wait(self, seconds: float) -> None:
        """Let the time pass until set, at most `seconds`."""
        if not self._is_set:
            self._clock.waited.append(seconds)
            # A wait too short to count is one all the same: whoever waits in a loop gets on.
            least = math.ulp(self._clock.now) if seconds > 0 else 0.0
            self._clock.move(max(seconds, least), until=lambda: self._is_set)
        self._is_set = False
