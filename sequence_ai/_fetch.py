"""One request under way beside the loop that waits for it."""

from __future__ import annotations

from typing import Callable, Generic, TypeVar

from sequence_ai._clock import Alarm, Clock
from sequence_ai._errors import Unavailable

T = TypeVar("T")


class Fetch(Generic[T]):
    """Begun by `start`; `done` once it ended, well or not. Abandoned, it ends by itself, its answer unread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._value: T | None = None
        self._error: BaseException | None = None
        self.began = clock.monotonic()
        self.ended = self.began
        self.done = False
        self.abandoned = False

    @classmethod
    def start(cls, clock: Clock, alarm: Alarm, work: Callable[[Callable[[], bool]], T]) -> Fetch[T]:
        """Do `work` beside the caller's own and set the alarm when it ended.

        `work` is given a function that says whether anybody still waits for it: it asks before each step.
        """
        fetch = cls(clock)
        clock.later(0, lambda: fetch._do(alarm, work))
        return fetch

    @property
    def took_s(self) -> float:
        """How long it has been under way, or took."""
        return (self.ended if self.done else self._clock.monotonic()) - self.began

    @property
    def failed(self) -> bool:
        """It ended without an answer."""
        return self._error is not None

    @property
    def refusal(self) -> Unavailable | None:
        """The Unavailable that it ended with: asking again later may help."""
        return self._error if isinstance(self._error, Unavailable) else None

    def result(self) -> T:
        """What the work returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set wherever no error is

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self.abandoned = True

    def _do(self, alarm: Alarm, work: Callable[[Callable[[], bool]], T]) -> None:
        try:
            self._value = work(lambda: not self.abandoned)
        except BaseException as error:  # noqa: BLE001  raised where the loop takes delivery
            self._error = error
        self.ended = self._clock.monotonic()
        self.done = True
        alarm.set()
