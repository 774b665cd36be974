"""Time as an argument: nothing in the client reads a clock, waits or starts a thread by itself."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Callable, Protocol

# What a selector rounds up to, with room to spare: the rest of a wait is slept, which is exact to tens of microseconds.
_COARSE_S = 0.002
_LONGEST_S = 3600.0  # a selector cannot wait for months; whoever waits looks at the time and waits on


class Alarm(Protocol):
    """A wait that another thread can end."""

    def set(self) -> None:
        """End the wait under way, or else the next one. From any thread."""

    def wait(self, seconds: float) -> None:
        """Return when set, which unsets it, or else `seconds` later; after an hour in any case."""


class Clock(Protocol):
    """Seconds that only go forward, waiting for them to pass, and work beside the caller's."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Return `seconds` later."""

    def alarm(self) -> Alarm:
        """A new alarm."""

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do `work` beside the caller's own, `seconds` from now. What it raises is lost: it must not raise."""


class SystemClock:
    """The machine's clock. Setting the time of day changes nothing here."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return `seconds` later."""
        time.sleep(seconds)

    def alarm(self) -> Alarm:
        """A new alarm."""
        return _SocketAlarm()

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do `work` in a thread of its own, which ends with the process whatever it waits for."""
        threading.Thread(target=_after, args=(seconds, work), name="sequence_ai", daemon=True).start()


def _after(seconds: float, work: Callable[[], None]) -> None:
    if seconds > 0:
        time.sleep(seconds)
    work()


class _SocketAlarm:
    """A pair of sockets, since a timed wait for a lock follows the time of day before Python 3.11.

    There, a robot whose clock is set back by an hour would wait for an hour.
    """

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        self._heard.setblocking(False)
        self._rung.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._heard, selectors.EVENT_READ)

    def set(self) -> None:
        """End the wait under way, or else the next one."""
        with suppress(BlockingIOError):  # full: it is set many times over
            self._rung.send(b"!")

    def wait(self, seconds: float) -> None:
        """Return when set, which unsets it, or else `seconds` later; after an hour in any case."""
        seconds = min(seconds, _LONGEST_S)
        until = time.monotonic() + seconds
        if self._selector.select(max(0.0, seconds - _COARSE_S)):
            with suppress(BlockingIOError):
                self._heard.recv(4096)
            return
        time.sleep(max(0.0, until - time.monotonic()))

    def __del__(self) -> None:
        # Nobody else can say when the last thread that might ring it is gone.
        self._selector.close()
        self._heard.close()
        self._rung.close()
