"""What `infer` returned made into the chunk and outputs of an answer. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from runner.worker.check import Checked, ChunkError, check_rows
from runner.worker.trace import message
from seq.contract import codec
from seq.contract.robot import ActionContract
from seq.presets.robot_arm import ActionChunk

MOST_HZ = 10_000  # the client plays nothing faster
_ECHOED = ("robot", "action_space", "action_dim", "control_frequency_hz")


@dataclass(frozen=True)
class Outcome:
    """The parts of an answer that come from the policy; `outputs` may hold arrays, and objects of the policy's own.

    `plain`: it holds checked rows and what was declared alone, so that it can be written as it is.
    """

    outputs: Any
    action_chunk: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    plain: bool = False


def outcome(action: ActionContract | None, value: Any, *, opaque: bool) -> Outcome:
    """`infer`'s value as it crosses the wire; raises ChunkError when it is not what the policy declared.

    With a contract the rows are checked, clipped and completed. Rows given to opaque inputs come back as rows, clipped
    alike, since an adapter of its own reads them; everything else carries the chunk twice.
    """
    try:
        chunk = _chunk_of(value)
        if action is None:
            return _undeclared(chunk, value, opaque)
        given = {"steps": _rows(value)} if chunk is None else chunk
        checked = check_rows(action, _all_values(_rows(given["steps"])))
    except (TypeError, AttributeError) as wrong:
        raise ChunkError(f"infer returned {_named(value)}, which is no chunk of numbers: {message(wrong)}") from wrong
    _check_echo(action, given)
    made = _completed(action, checked, given)
    if opaque and chunk is None:
        outputs = _like(value, checked.rows)
        return Outcome(outputs, made, checked.warnings, plain=outputs is checked.rows)
    return Outcome(made, made, checked.warnings, plain=True)


def _undeclared(chunk: dict[str, Any] | None, value: Any, opaque: bool) -> Outcome:
    """Without a contract a whole chunk goes out as it is; any other value only as outputs."""
    whole = chunk is not None and all(key in chunk for key in _ECHOED)
    if not whole and not opaque:
        raise ChunkError(
            f"infer returned {_named(value)}, and a robot needs a whole chunk; declare action=, "
            f"or return steps with {', '.join(_ECHOED)}"
        )
    if chunk is None or not whole:
        return Outcome(value if chunk is None else chunk)
    steps = _rows(chunk["steps"])
    told = {**chunk, "steps": steps, **_replanning(chunk, len(steps))}
    hz = _number("control_frequency_hz", chunk["control_frequency_hz"])
    if not 0 < hz <= MOST_HZ:
        raise ChunkError(f"control_frequency_hz is {hz:g}; it must be above 0 and at most {MOST_HZ}")
    covered = chunk.get("covers_seconds")
    told["covers_seconds"] = len(steps) / hz if covered is None else _number("covers_seconds", covered)
    return Outcome(told, told)


def _chunk_of(value: Any) -> dict[str, Any] | None:
    """A chunk object or a dict with steps, as a dict; None for anything else."""
    if isinstance(value, ActionChunk):
        return value.to_wire()
    if isinstance(value, Mapping) and "steps" in value:
        return {key: item for key, item in value.items() if item is not None}
    if hasattr(value, "steps") and hasattr(value, "control_frequency_hz"):
        names = (*_ECHOED, "steps", "open_loop_horizon", "sustains_seconds")
        return {name: found for name in names if (found := getattr(value, name, None)) is not None}
    return None


def _completed(contract: ActionContract, checked: Checked, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "steps": [{"index": index, "values": row} for index, row in enumerate(checked.rows)],
        "robot": contract.robot,
        "action_space": contract.action_space.value,
        "action_dim": contract.action_dim,
        "control_frequency_hz": contract.control_frequency_hz,
        "covers_seconds": len(checked.rows) / contract.control_frequency_hz,
        **_replanning(given, len(checked.rows)),
    }


def _replanning(given: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """What a chunk says of how long it is good for, as plain numbers."""
    made: dict[str, Any] = {}
    if (told := given.get("open_loop_horizon")) is not None:
        horizon = _number("open_loop_horizon", told)
        if not (horizon.is_integer() and 1 <= horizon <= rows):
            raise ChunkError(f"open_loop_horizon is {horizon:g}; it must be from 1 to the {rows} rows returned")
        made["open_loop_horizon"] = int(horizon)
    if (told := given.get("sustains_seconds")) is not None:
        made["sustains_seconds"] = _number("sustains_seconds", told)
    return made


def _number(name: str, value: Any) -> float:
    """A number of the policy's, numpy's included, as a plain one; raises ChunkError naming it where it is none."""
    plain = value.item() if getattr(value, "shape", None) == () else value
    try:
        number = float(plain) if isinstance(plain, (int, float)) and not isinstance(plain, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ChunkError(f"{name} is {plain!r}; it must be a finite number")
    return number


def _check_echo(contract: ActionContract, given: Mapping[str, Any]) -> None:
    """What a chunk says of itself must be what the policy declared."""
    for name in [name for name in _ECHOED if name in given]:
        declared = _plain(getattr(contract, name))
        told = _plain(given[name])
        if told != declared:
            raise ChunkError(f"the chunk says {name}={told!r}; the policy declares {declared!r}")


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)


def _rows(value: Any) -> list[Any]:
    plain = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(plain, Sequence) or isinstance(plain, (str, bytes)):
        raise TypeError("expected rows of numbers, (rows, dim)")
    return list(plain)


def _all_values(steps: list[Any]) -> list[list[float]]:
    if set(map(type, steps)) == {list} and codec.are_floats(list(chain.from_iterable(steps))):
        return steps  # as nearly all come
    return [_values(step) for step in steps]


def _values(step: Any) -> list[float]:
    if isinstance(step, dict) and codec.are_floats(row := step.get("values")):
        return row  # as a chunk object of plain floats gives it, which is nearly always
    if isinstance(step, Mapping):
        step = step["values"] if "values" in step else _no_values(step)
    elif hasattr(step, "values") and hasattr(step, "index") and not isinstance(step, Sequence):
        step = step.values
    return [item.item() if hasattr(item, "item") else item for item in _rows(step)]


def _no_values(step: Mapping[str, Any]) -> Any:
    raise TypeError(f"a step has no 'values'; it has {sorted(step)}")


def _like(value: Any, rows: list[list[float]]) -> Any:
    """The checked rows in the form they were given in: an array stays one."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        import numpy as np  # noqa: PLC0415  a policy that returns lists may live without it

        kept = np.asarray(rows)
        return kept.astype(value.dtype) if isinstance(value, np.ndarray) else kept
    return rows


def _named(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")
