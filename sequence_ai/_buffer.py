"""The actions still to be played, and the declared limits on each one handed out. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from sequence_ai._errors import PolicyError
from sequence_ai._types import ActionChunk


class ChunkBuffer:
    """The rows of the newest chunk that are still to be played; knows the row handed out last, across chunks."""

    def __init__(self) -> None:
        self._rows: deque[list[float]] = deque()
        self._last: list[float] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, chunk: ActionChunk) -> None:
        """Hold this chunk's rows up to its open-loop horizon; what an older plan had left is dropped."""
        self._rows = deque(list(row) for row in chunk.steps[: chunk.open_loop_horizon])

    def pop(self, action: Mapping[str, Any] | None) -> list[float]:
        """The next row, inside the limits of the action contract (None: no limits). Raises IndexError when empty."""
        self._last = limited(self._rows.popleft(), self._last, action)
        return list(self._last)


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
