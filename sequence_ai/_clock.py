"""Time as an argument: nothing in the client reads a clock or sleeps by itself."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only go forward, and waiting for them to pass."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Return `seconds` later."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return `seconds` later."""
        time.sleep(seconds)
