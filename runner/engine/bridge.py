"""From a benchmark's observation to the body of an act, and from the policy's answer to rows for `step`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sequence_ai
from runner.engine.usercode import UserCodeError, frames, sentence
from seq.contract import codec
from sequence_ai._wire import observation_body

Rows = NDArray[np.float64]
Where = tuple[Any, Any] | None
"""A place in an observation: the place that it is in, and the key, number or index of an array that leads to it."""
_PLAIN: tuple[tuple[type, Any], ...] = ((str, str.__str__), (int, int.__int__), (float, float.__float__))


class BridgeError(UserCodeError):
    """An observation or an answer did not fit; the message says which side, and what would fit."""


class TooFewRowsError(BridgeError):
    """An answer holds fewer rows than are to be played of each; the message says how many would do."""


@dataclass(frozen=True)
class Bridge:
    """The adapter of an eval (None: the sides fit as they are), and what the benchmark takes.

    `action_dim` is the benchmark's declared row length, `steps_per_query` how many rows of an answer are played.
    """

    adapter: Any = None
    policy_io: str = "robot_arm"
    action_dim: int | None = None
    steps_per_query: int | None = None

    def ask(self, observation: Any, task: str) -> dict[str, Any]:
        """The act's body: `{"observation": ...}` (wire.md 3.2) for a robot-arm policy, else `{"inputs": ...}`.

        A robot-arm value is a wire observation or the keywords of `sequence_ai.observation`; a missing instruction is
        the task's name. Raises BridgeError.
        """
        value = self._adapted("obs", observation)
        own = self.adapter is not None and self.policy_io == "own"
        if own or not (isinstance(value, dict) and "images" in value):
            return {"inputs": _sendable(value)}
        return {"observation": _robot_arm(value, task)}

    def rows(self, outputs: Any) -> Rows:
        """The rows of an answer to play, shape (n, action_dim), float64; raises BridgeError on NaN, a wrong shape or
        no row.
        """
        value = outputs
        chunk = value if isinstance(value, dict) and "steps" in value else None
        if self.adapter is not None:
            given = _matrix(chunk["steps"], "the policy") if chunk and self.policy_io == "robot_arm" else value
            value = self._adapted("action", given)
        elif chunk is not None:
            value = chunk["steps"]
        rows = _matrix(value, "the adapter's action()" if self.adapter is not None else "the policy")
        self._check_rows(rows)
        return rows[: self._played(len(rows), chunk)]

    def _played(self, available: int, chunk: dict[str, Any] | None) -> int:
        wanted = self.steps_per_query or getattr(self.adapter, "steps_per_query", None)
        if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
            raise BridgeError(f"steps_per_query is {wanted!r}; it must be a whole number of at least 1")
        if wanted is None:
            wanted = (chunk or {}).get("open_loop_horizon") or available
            return min(int(wanted), available)
        if wanted > available:
            raise TooFewRowsError(
                f"steps_per_query is {wanted} but an answer holds {available} rows; use at most {available}"
            )
        return int(wanted)

    def _check_rows(self, rows: Rows) -> None:
        if not len(rows):
            raise BridgeError("the answer holds no row to play")
        if self.action_dim is not None and rows.shape[1] != self.action_dim:
            raise BridgeError(
                f"the benchmark takes rows of {self.action_dim} numbers and got {rows.shape[1]}; "
                "an adapter's action() can convert them"
            )
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            row, dim = (int(i) for i in bad[0])
            raise BridgeError(
                f"row {row}, dimension {dim} of the answer is {rows[row, dim]}; every number must be finite"
            )

    def _adapted(self, side: str, value: Any) -> Any:
        if self.adapter is None:
            return value
        try:
            return getattr(self.adapter, side)(value)
        except (Exception, SystemExit, KeyboardInterrupt) as failed:
            name = type(self.adapter).__name__
            raise BridgeError(f"{name}.{side}() failed: {sentence(failed)}", frames(failed)) from failed


def _sendable(value: Any, where: Where = None) -> Any:
    """A value as an act carries it, arrays left as they are; raises BridgeError on what no act can carry."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else _not_finite(value, where)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is list or kind is tuple:
        if all(type(item) is float for item in value) and all(map(math.isfinite, value)):
            return list(value)
        return [_sendable(item, (where, place)) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {_key(key): _sendable(item, (where, key)) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return _finite(value, where)
    return _sendable(_as_plain(value), where)


def _finite(values: NDArray[Any], where: Where) -> NDArray[Any]:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        _not_finite(float(values[place]), (where, place) if place else where)
    return values


def _as_plain(value: Any) -> Any:
    """What JSON has a kind for, of what is like it: a NumPy scalar, a member of an enum, what the wire can tag."""
    if isinstance(value, np.generic):
        return value.item()
    for plain, as_plain in _PLAIN:
        if isinstance(value, plain):
            return as_plain(value)
    try:
        return codec.encode(value)
    except TypeError as wrong:
        raise BridgeError(f"the observation cannot be sent to the policy: {wrong}") from wrong


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    try:
        return codec.key_text(key)
    except (TypeError, ValueError) as wrong:
        raise BridgeError(f"the observation cannot be sent to the policy: {wrong}") from wrong


def _not_finite(value: float, where: Where) -> Any:
    raise BridgeError(f"{_written(where)} is {value}; every number an observation sends must be finite")


def _written(where: Where) -> str:
    """`the observation['state'][3]`."""
    if where is None:
        return "the observation"
    inside, place = where
    told = ", ".join(map(str, place)) if isinstance(place, tuple) else repr(place)
    return f"{_written(inside)}[{told}]"


def _robot_arm(value: dict[str, Any], task: str) -> dict[str, Any]:
    if isinstance(value["images"], list):
        return _sendable({**value, "instruction": value.get("instruction") or task})
    keywords = {**value, "instruction": value.get("instruction") or task}
    try:
        body = observation_body(sequence_ai.observation(**keywords), codec.MSGPACK)
    except (TypeError, ValueError, sequence_ai.SequencesError) as wrong:
        raise BridgeError(
            f"the observation does not make a robot-arm observation: {sentence(wrong)}", frames(wrong)
        ) from wrong
    # As raw bytes, which is what MessagePack carries of an encoded frame.
    return {
        **body,
        "images": [{**frame, "data": getattr(frame["data"], "raw", frame["data"])} for frame in body["images"]],
    }


def _matrix(value: Any, who: str) -> Rows:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = [row["values"] for row in value]
    try:
        rows = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as ragged:
        raise BridgeError(
            f"{who} must give rows of equally many numbers; got {type(value).__name__} ({ragged})"
        ) from ragged
    if rows.ndim == 1:
        rows = rows[None, :] if rows.size else rows.reshape(0, 0)
    if rows.ndim != 2:
        raise BridgeError(f"{who} must give an array of shape (rows, dim); got shape {rows.shape}")
    return rows
