"""The actions still to be played: chunk after chunk, held inside the declared limits, seams measured. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from sequence_ai._errors import PolicyError
from sequence_ai._types import ActionChunk

_ABSOLUTE = ("absolute", "position", "joint_pos")


class ChunkBuffer:
    """The rows of the chunks that are still to be played, oldest chunk first; knows the row handed out last.

    `smooth_seam` rows of each chunk after the first are blended out of the last action, where the action space is
    absolute: blending deltas would rescale them. `max_seam_jump` is measured before that, None without a seam.
    `begun` counts the chunks whose first row was handed out.
    """

    def __init__(self, smooth_seam: int = 0) -> None:
        self._smooth_seam = smooth_seam
        self._waiting: deque[tuple[ActionChunk, int | None]] = deque()
        self._rows: deque[list[float]] = deque()
        self._last: list[float] | None = None
        self._playing: ActionChunk | None = None
        self.begun = 0
        self.max_seam_jump: float | None = None

    def __len__(self) -> int:
        return len(self._rows) + sum(len(chunk.steps[:horizon]) for chunk, horizon in self._waiting)

    @property
    def playing(self) -> ActionChunk | None:
        """The chunk of the next row; without one, of the row handed out last."""
        return self._playing if self._rows or not self._waiting else self._waiting[0][0]

    @property
    def untouched(self) -> int:
        """How many chunks wait with all their rows."""
        return len(self._waiting)

    def fill(self, chunk: ActionChunk) -> None:
        """Hold this chunk's rows up to its open-loop horizon; what an older plan had left is dropped."""
        self.drop()
        self.append(chunk)

    def append(self, chunk: ActionChunk, horizon: int | None = None) -> None:
        """Play this chunk after what is there, its first `horizon` rows (None: as many as the chunk itself says)."""
        self._waiting.append((chunk, chunk.open_loop_horizon if horizon is None else horizon))

    def drop(self) -> None:
        """Forget every row that is left."""
        self._waiting.clear()
        self._rows.clear()

    def clear(self) -> None:
        """Forget every row, and the action handed out last."""
        self.drop()
        self._last = None

    def pop(self, action: Mapping[str, Any] | None) -> list[float]:
        """The next row, inside the limits of the action contract (None: no limits). Raises IndexError when empty."""
        while not self._rows:
            self._begin_next_chunk()
        self._last = limited(self._rows.popleft(), self._last, action)
        return list(self._last)

    def _begin_next_chunk(self) -> None:
        self._playing, horizon = self._waiting.popleft()
        self.begun += 1
        rows = [list(row) for row in self._playing.steps[:horizon]]
        if self._last is not None and rows:
            _same_length("the previous action", self._last, rows[0])
            jump = max((abs(value - last) for value, last in zip(rows[0], self._last)), default=0.0)
            self.max_seam_jump = jump if self.max_seam_jump is None else max(jump, self.max_seam_jump)
            if any(word in self._playing.action_space.lower() for word in _ABSOLUTE):
                rows = blended(rows, self._last, self._smooth_seam)
        self._rows.extend(rows)


def blended(rows: Sequence[Sequence[float]], last: Sequence[float], count: int) -> list[list[float]]:
    """The rows with the first `count` led linearly out of `last`: row i has the weight (i + 1) / (count + 1)."""
    ramped = [list(row) for row in rows]
    many = min(count, len(ramped))
    for index in range(many):
        weight = (index + 1) / (many + 1)
        ramped[index] = [weight * value + (1 - weight) * start for value, start in zip(ramped[index], last)]
    return ramped


def limited(row: Sequence[float], previous: Sequence[float] | None, action: Mapping[str, Any] | None) -> list[float]:
    """`row` clamped to the contract's `bounds`, then to `max_delta` from `previous`; untouched where none are declared.

    Raises PolicyError when the row has another number of values than the limits: no part of it is safe to hand out.
    """
    values = list(row)
    declared = action or {}
    bounds, delta = declared.get("bounds"), declared.get("max_delta")
    if bounds is not None:
        _same_length("bounds", bounds, values)
        values = [min(max(value, low), high) for value, (low, high) in zip(values, bounds)]
    if delta is not None and previous is not None:
        steps = delta if isinstance(delta, (list, tuple)) else [delta] * len(values)
        _same_length("max_delta", steps, values)
        _same_length("the previous action", previous, values)
        values = [min(max(value, last - step), last + step) for value, last, step in zip(values, previous, steps)]
    return values


def _same_length(name: str, limits: Sequence[Any], values: Sequence[float]) -> None:
    if len(limits) != len(values):
        raise PolicyError(
            f"an action of {len(values)} values cannot be held within {name}, which has {len(limits)}: not handed out",
            code="policy_error",
        )
