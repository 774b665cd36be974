"""Waiting before the first answer of a handle's life, when nothing moves yet and waiting is free."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Callable, Optional, TypeVar

from sequence_ai._clock import Clock
from sequence_ai._errors import Unavailable, Unreachable

T = TypeVar("T")
OnWarming = Callable[[float, float], object]
OnQueue = Callable[[int, Optional[float], float, Optional[str]], object]

_ABSENT_S = 5.0
_WARMING_LEAST_S = 1.0
_QUEUE_LEAST_S, _QUEUE_MOST_S = 2.0, 30.0
_DROPPED_S = 1.0


@dataclass(frozen=True)
class Startup:
    """How long to wait and whom to tell. `budget_s=0` waits for nothing."""

    model: str
    budget_s: float
    on_warming: OnWarming | None
    on_queue: OnQueue | None
    clock: Clock
    chance: random.Random

    def wait_out(self, attempt: Callable[[float], T]) -> T:
        """The first success of `attempt(seconds left)`, made again for as long as the budget allows.

        Waited out: a worker that starts, a place in line, a connection that breaks. All else is raised at once.
        """
        began = self.clock.monotonic()
        while True:
            try:
                return attempt(max(0.0, self.budget_s - (self.clock.monotonic() - began)))
            except Unavailable as error:
                waited = self.clock.monotonic() - began
                pause = self._pause(error)
                if pause is None or self.budget_s == 0:
                    raise
                if waited >= self.budget_s:
                    raise self._spent(error, waited) from error
                pause = min(pause, self.budget_s - waited)
                self._tell(error, waited, pause)
            self.clock.sleep(pause)

    def _pause(self, error: Unavailable) -> float | None:
        asked = error.retry_after_s or _ABSENT_S
        if error.queued:
            return min(max(asked, _QUEUE_LEAST_S), _QUEUE_MOST_S) * self.chance.uniform(1.0, 1.2)
        if error.warming:
            return max(asked, _WARMING_LEAST_S)
        if isinstance(error, Unreachable) and error.dropped:
            return _DROPPED_S
        return None

    def _spent(self, error: Unavailable, waited: float) -> Unavailable:
        return Unavailable(
            f"{self.model} gave no first answer within startup_timeout_s={self.budget_s:g} (waited {waited:.0f} s): "
            f"{error.message}",
            status=error.status,
            code=error.code,
            retryable=error.retryable,
            retry_after_s=error.retry_after_s,
            request_id=error.request_id,
            hint=error.hint,
            details=error.details,
            body=error.body,
        )

    def _tell(self, error: Unavailable, waited: float, pause: float) -> None:
        if error.queue_position is not None:
            tell = self.on_queue or _print_queue
            tell(error.queue_position, error.details.get("eta_s"), waited, error.details.get("reason"))
        elif self.on_warming is not None:
            self.on_warming(waited, pause)
        else:
            _print(f"{self.model} is starting: waited {waited:.0f}s, asking again in {pause:.0f}s")


def _print_queue(position: int, eta_s: float | None, waited_s: float, reason: str | None) -> None:
    about = "" if eta_s is None else f", about {eta_s:.0f}s"
    why = "" if reason is None else f" ({reason.replace('_', ' ')})"
    _print(f"queued for a GPU slot: position {position}{about} … waited {waited_s:.0f}s{why}")


def _print(line: str) -> None:
    print(f"[sequences] {line}", file=sys.stderr, flush=True)  # noqa: T201  the line is the feature; stdout stays the user's
