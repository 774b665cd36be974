"""Waiting before the first answer, when nothing moves yet and waiting is free. Pure but for the lines it prints."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from typing import Callable, Optional

from sequence_ai._arguments import number
from sequence_ai._errors import Unavailable, Unreachable, said_as
from sequence_ai._warn import warn_caller

OnWarming = Callable[[float, float], object]
OnQueue = Callable[[int, Optional[float], float, Optional[str]], object]

_ABSENT_S = 5.0
_WARMING_LEAST_S = 1.0
_QUEUE_LEAST_S, _QUEUE_MOST_S = 2.0, 30.0
_DROPPED_S = 1.0
_HELD_S = 0.05  # should a gateway say that it holds, and not do it


@dataclass(frozen=True)
class Startup:
    """How long to wait and whom to tell. `budget_s=0` waits for nothing."""

    model: str
    budget_s: float
    on_warming: OnWarming | None
    on_queue: OnQueue | None
    chance: random.Random

    def within(self, budget_s: float | None) -> Startup:
        """The same with another budget; None keeps this one. Raises ValueError on one below 0."""
        if budget_s is None:
            return self
        return replace(self, budget_s=number("startup_timeout_s", budget_s, least=0))

    def pause(self, error: Unavailable, waited_s: float, *, waiting: bool = False) -> float:
        """How long to wait before asking again, `waited_s` after the first attempt; whoever listens is told.

        Waited out: a worker that starts, a place in line, a connection that breaks; and, for one who is `waiting`
        already, a platform that went away, since it comes back and knows the places. All else is raised, and so is
        an error past the budget, in words that say so. A gateway that holds the next question does the waiting itself.
        """
        wanted = self._wanted(error, waiting=waiting)
        if wanted is None or self.budget_s == 0:
            raise error
        if waited_s >= self.budget_s:
            raise self._spent(error, waited_s) from error
        told = min(error.holds_s or wanted, self.budget_s - waited_s)
        self._tell(error, waited_s, told)
        return min(_HELD_S, told) if error.holds_s else told

    def _wanted(self, error: Unavailable, *, waiting: bool) -> float | None:
        asked = error.retry_after_s or _ABSENT_S
        if error.queued:
            return min(max(asked, _QUEUE_LEAST_S), _QUEUE_MOST_S) * self.chance.uniform(1.0, 1.2)
        if error.warming:
            return max(asked, _WARMING_LEAST_S)
        if isinstance(error, Unreachable) and (error.dropped or waiting):
            return _DROPPED_S
        return None

    def _spent(self, error: Unavailable, waited: float) -> Unavailable:
        return said_as(
            error,
            f"{self.model} gave no first answer within startup_timeout_s={self.budget_s:g} (waited {waited:.0f} s): "
            f"{error.message}",
        )

    def _tell(self, error: Unavailable, waited: float, pause: float) -> None:
        if error.queue_position is not None:
            tell = self.on_queue or _print_queue
            tell(error.queue_position, error.details.get("eta_s"), waited, error.details.get("reason"))
        elif self.on_warming is not None:
            self.on_warming(waited, pause)
        else:
            _print(f"{self.model} is starting: waited {waited:.0f}s, asking again in {pause:.0f}s")
        warn_caller(f"{self.model} does not act yet: {error.message}; asking again in {pause:.0f} s")


def _print_queue(position: int, eta_s: float | None, waited_s: float, reason: str | None) -> None:
    about = "" if eta_s is None else f", about {eta_s:.0f}s"
    why = "" if reason is None else f" ({reason.replace('_', ' ')})"
    _print(f"queued for a GPU slot: position {position}{about} … waited {waited_s:.0f}s{why}")


def _print(line: str) -> None:
    print(f"[sequences] {line}", file=sys.stderr, flush=True)  # noqa: T201  the line is the feature; stdout stays the user's
