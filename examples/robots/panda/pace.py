"""Keeping simulated time at the wall clock's, and saying honestly when that did not work. Pure: time is an argument."""

from __future__ import annotations

from typing import Any

LOST_S = 0.1  # two control periods: further behind than that, nothing measured on this robot is worth anything


class Pace:
    """How many steps are due. A simulation further behind than `LOST_S` lets the time go, and has lost real time."""

    def __init__(self, step_s: float, now: float) -> None:
        self._step_s = step_s
        self._began = now
        self._steps = 0
        self._behind: list[float] = []
        self._lost: list[float] = []

    @property
    def simulated_s(self) -> float:
        """Time that has passed in the simulation."""
        return self._steps * self._step_s

    def due(self, now: float) -> int:
        """How many steps it takes to be where the clock is."""
        behind = now - self._began - self.simulated_s
        if behind > LOST_S:
            self._lost.append(behind)
            self._began += behind
            behind = 0.0
        self._behind.append(behind)
        return int(behind / self._step_s)

    def stepped(self) -> None:
        """One step was made."""
        self._steps += 1

    def report(self) -> dict[str, Any]:
        """`real_time` (was it kept), how late physics was (ms, 99th percentile and most) and the seconds let go."""
        late = sorted(self._behind) or [0.0]
        return {
            "real_time": not self._lost,
            "late_p99_ms": 1000 * late[int(0.99 * (len(late) - 1))],
            "late_max_ms": 1000 * max([late[-1], *self._lost]),
            "lost_s": sum(self._lost),
        }
