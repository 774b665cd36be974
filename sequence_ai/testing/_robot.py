"""A robot that writes down all it was told, and fails or dawdles where a test says so.

```
robot = FakeRobot()
outcome = policy.run(**robot.callables, max_actions=20)
assert [played.row for played in robot.played] == [...]
```
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Union

from sequence_ai._clock import Clock, SystemClock
from sequence_ai._types import Observation, Prediction, Proprioception

CALLABLES = ("observe", "act", "validate", "hold", "until", "on_chunk", "on_underrun", "on_status")

_Happening = Union[BaseException, Callable[[], object]]


@dataclass(frozen=True)
class Played:
    """One action as it reached the robot: when, in seconds of the robot's clock, in which run and from which thread.

    `chunk` numbers the chunks that the robot was shown, over all runs; None when it was shown none that has this row.
    """

    when: float
    row: tuple[float, ...]
    run: int
    chunk: int | None
    thread: int


@dataclass(frozen=True)
class Told:
    """One call of the robot: which callable, when, with what, in which run and from which thread."""

    call: str
    when: float
    value: Any = field(compare=False)
    run: int
    thread: int


class FakeRobot:
    """`observe`, `act` and the other callables of `run`, all in `callables`; `told` and `played` are its log.

    `look(number)` makes the observation of the robot's nth look, from 1; by default the joints are that number alone.
    A chunk is known row by row once `on_chunk` showed it, up to its open-loop horizon, or `horizon` where the run is
    told another. A run begins at the status "starting".
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        look: Callable[[int], Observation] | None = None,
        instruction: str = "go",
        horizon: int | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.told: list[Told] = []
        self.played: list[Played] = []
        self.runs = 0
        self._look = look or (lambda number: _seen(number, instruction))
        self._horizon = horizon
        self._shown = 0
        self._coming: deque[tuple[int, tuple[float, ...]]] = deque()
        self._calls: Counter[str] = Counter()
        self._plans: dict[tuple[str, int], _Happening] = {}
        self._lock = threading.Lock()

    @property
    def callables(self) -> dict[str, Any]:
        """Everything that `run` can be given of a robot."""
        return {name: getattr(self, name) for name in CALLABLES}

    def plan(self, call: str, at: int, happening: _Happening) -> None:
        """In the `at`th call of that name, from 1: raise this error, or do this before going on as usual."""
        if call not in CALLABLES:
            raise ValueError(f"a robot has no {call!r}; it has {', '.join(CALLABLES)}")
        self._plans[call, at] = happening

    def calls(self, call: str) -> list[Told]:
        """The calls of one name, oldest first."""
        return [told for told in self.told if told.call == call]

    @property
    def rows(self) -> list[tuple[float, ...]]:
        """Every row played, oldest first."""
        return [played.row for played in self.played]

    def observe(self) -> Observation:
        """Look."""
        self._note("observe", None)
        return self._look(self._calls["observe"])

    def act(self, row: Sequence[float]) -> None:
        """Play one row. A row that a planned error stopped is not in `played`."""
        when = self.clock.monotonic()
        self._note("act", tuple(row))
        self.played.append(Played(when, tuple(row), self.runs, self._origin(tuple(row)), threading.get_ident()))

    def validate(self, row: Sequence[float]) -> bool:
        """Every row is fine."""
        self._note("validate", tuple(row))
        return True

    def hold(self) -> None:
        """Stand still."""
        self._note("hold", None)

    def until(self) -> bool:
        """It is never done by itself."""
        self._note("until", None)
        return False

    def on_chunk(self, prediction: Prediction) -> None:
        """See which rows are coming."""
        self._note("on_chunk", prediction)
        self._shown += 1
        chunk = prediction.action_chunk
        horizon = self._horizon or chunk.open_loop_horizon
        self._coming.extend((self._shown, tuple(row)) for row in chunk.steps[:horizon])

    def on_underrun(self, seconds: float) -> None:
        """Hear of a wait."""
        self._note("on_underrun", seconds)

    def on_status(self, state: str) -> None:
        """Hear of a run's beginning, moving and end."""
        if state == "starting":
            self.runs += 1
            self._coming.clear()
        self._note("on_status", state)

    def _note(self, call: str, value: Any) -> None:
        with self._lock:
            self._calls[call] += 1
            number = self._calls[call]
            self.told.append(Told(call, self.clock.monotonic(), value, self.runs, threading.get_ident()))
        happening = self._plans.get((call, number))
        if isinstance(happening, BaseException):
            raise happening
        if happening is not None:
            happening()

    def _origin(self, row: tuple[float, ...]) -> int | None:
        """The chunk this row came with; rows shown before it were dropped. Clipped or blended rows go by their turn."""
        known = any(coming == row for _, coming in self._coming)
        while self._coming:
            number, coming = self._coming.popleft()
            if coming == row or not known:
                return number
        return None


def _seen(number: int, instruction: str) -> Observation:
    return Observation(images=[], proprioception=Proprioception([float(number)]), instruction=instruction)
