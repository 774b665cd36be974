"""Where an environment process stands, in memory that its instance reads too: what a watchdog can see of it."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

IDLE, RESET, STEP, ACT, CLOSE = range(5)
NAMES = {RESET: "reset", STEP: "step", ACT: "act", CLOSE: "close"}
_HEAD, _SLOT, _BYTES = 2, 2, 8


@dataclass(frozen=True)
class Standing:
    """The phase and since when, in s of the machine's monotonic clock; the episode of each slot, and whether the phase
    is about it.
    """

    phase: int
    since: float
    episodes: dict[int, int]
    concerned: frozenset[int]


class Progress:
    """Written by the process and read by its instance, through one inherited descriptor; never blocks either.

    A reader may see a phase that has just ended: it looks again before it acts on it.
    """

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self._slots = slots
        self._map = mmap.mmap(descriptor, (_HEAD + _SLOT * slots) * _BYTES)
        self._cells = memoryview(self._map).cast("d")

    @classmethod
    def create(cls, slots: int) -> Progress:
        """Fresh memory, with no slot in use."""
        descriptor = os.memfd_create("progress")
        os.ftruncate(descriptor, (_HEAD + _SLOT * slots) * _BYTES)
        made = cls(descriptor, slots)
        for slot in range(slots):
            made.holds(slot, None)
        return made

    def enter(self, phase: int) -> None:
        """A phase begins now."""
        self._cells[1] = time.monotonic()
        self._cells[0] = phase

    def about(self, slots: Iterable[int]) -> None:
        """The following phases are about these slots alone."""
        mine = set(slots)
        for slot in range(self._slots):
            self._cells[_HEAD + _SLOT * slot + 1] = slot in mine

    def holds(self, slot: int, episode: int | None) -> None:
        """A slot plays the episode of that index, or none."""
        self._cells[_HEAD + _SLOT * slot] = -1 if episode is None else episode

    def read(self) -> Standing:
        """How it stands."""
        cells = self._cells.tolist()
        slots = [(cells[_HEAD + _SLOT * slot], cells[_HEAD + _SLOT * slot + 1]) for slot in range(self._slots)]
        episodes = {slot: int(episode) for slot, (episode, _) in enumerate(slots) if episode >= 0}
        concerned = frozenset(slot for slot, (_, mine) in enumerate(slots) if mine)
        return Standing(int(cells[0]), cells[1], episodes, concerned)

    def close(self) -> None:
        """Let go of the memory; the process's own view stays."""
        self._cells.release()
        self._map.close()
        os.close(self.descriptor)
