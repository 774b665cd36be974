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


class BridgeError(UserCodeError):
    """An observation or an answer did not fit; the message says which side, and what would fit."""


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
            return {"inputs": _plain(value)}
        return {"observation": _robot_arm(value, task)}

    def rows(self, answer: dict[str, Any]) -> Rows:
        """The rows to play, shape (n, action_dim), float64; raises BridgeError on NaN, a wrong shape or no row."""
        value = answer["outputs"]
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
            raise BridgeError(
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


def _plain(value: Any) -> Any:
    try:
        plain = codec.encode(value)
    except TypeError as wrong:
        raise BridgeError(f"the observation cannot be sent to the policy: {wrong}") from wrong
    _refuse_not_finite(plain, "the observation")
    return plain


def _refuse_not_finite(value: Any, where: str) -> None:
    """Raise BridgeError naming the first number that JSON cannot carry."""
    if isinstance(value, float) and not math.isfinite(value):
        raise BridgeError(f"{where} is {value}; every number an observation sends must be finite")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        _refuse_not_finite(item, f"{where}[{key!r}]")


def _robot_arm(value: dict[str, Any], task: str) -> dict[str, Any]:
    if isinstance(value["images"], list):
        return _plain({**value, "instruction": value.get("instruction") or task})
    keywords = {**value, "instruction": value.get("instruction") or task}
    try:
        return _plain(observation_body(sequence_ai.observation(**keywords)))
    except (TypeError, ValueError, sequence_ai.SequencesError) as wrong:
        raise BridgeError(
            f"the observation does not make a robot-arm observation: {sentence(wrong)}", frames(wrong)
        ) from wrong


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
