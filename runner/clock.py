"""Time, passed in: the real clock, and in tests one moved by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the platform asks of time."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is told to move; sleeping moves it."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """The time it was set to."""
        return self._now

    def monotonic(self) -> float:
        """The same scale as `now`."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move on without waiting."""
        self._now += seconds
