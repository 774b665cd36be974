"""What a copy does beside the door, in memory that both see: who counts an act must not wait for the other."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

_FIELDS = ("began_ns", "busy", "acts", "errors", "used_ns")
_SIZE = 8 * len(_FIELDS)
_BEGAN, _BUSY, _ACTS, _ERRORS, _USED = range(len(_FIELDS))


@dataclass(frozen=True)
class Counted:
    """Acts that were not asked at the door: run, failed, running or waiting; when the last one ended (monotonic, s)."""

    acts: int = 0
    errors: int = 0
    busy: int = 0
    used: float = 0.0


class Tally:
    """One copy's, over all its restarts. The copy writes whole numbers of 8 bytes, each at once; the door reads them.

    Times are those of the machine's monotonic clock, which all its processes share.
    """

    def __init__(self, inherited: int | None = None) -> None:
        """A new one, all zero (Linux), or that behind an inherited descriptor, which then goes no further."""
        self.descriptor = os.memfd_create("tally") if inherited is None else inherited
        if inherited is None:
            os.ftruncate(self.descriptor, _SIZE)
        os.set_inheritable(self.descriptor, False)
        self._memory = mmap.mmap(self.descriptor, _SIZE)
        self._numbers = memoryview(self._memory).cast("Q")

    def close(self) -> None:
        """Look at it no more from here; the descriptor stays open."""
        self._numbers.release()
        self._memory.close()

    def begin(self) -> None:
        """A turn begins, the door's or one of the copy's own."""
        self._numbers[_BEGAN] = time.monotonic_ns()

    def end(self) -> None:
        """The turn is over."""
        self._numbers[_BEGAN] = 0

    def waits(self, acts: int) -> None:
        """So many acts of the copy's own run or wait."""
        self._numbers[_BUSY] = acts

    def ran(self, acts: int, errors: int) -> None:
        """So many of them were run, and so many of those failed."""
        self._numbers[_ACTS] += acts
        self._numbers[_ERRORS] += errors
        self._numbers[_USED] = time.monotonic_ns()

    def quiet(self) -> None:
        """The copy is gone, with what it ran."""
        self.end()
        self.waits(0)

    def overdue(self, limit_s: float) -> bool:
        """Whether the turn that runs began longer ago than that."""
        began_ns: int = self._numbers[_BEGAN]
        return began_ns > 0 and time.monotonic_ns() - began_ns > limit_s * 1e9

    def counted(self) -> Counted:
        """What was counted so far."""
        _, busy, acts, errors, used_ns = self._numbers
        return Counted(acts, errors, busy, used_ns / 1e9)


def total(tallies: Iterable[Tally]) -> Counted:
    """Of several copies."""
    counted = [tally.counted() for tally in tallies]
    return Counted(
        sum(one.acts for one in counted),
        sum(one.errors for one in counted),
        sum(one.busy for one in counted),
        max((one.used for one in counted), default=0.0),
    )
