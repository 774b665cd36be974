"""What a policy declared, held against what arrives and what it answers. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from operator import add, le, sub
from typing import Any

from seq.contract import codec
from seq.contract.robot import ActionContract, ObservationContract

_JPEG_OR_PNG = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_JPEG_OR_PNG_TEXT = ("/9j/", "iVBORw0KGgo")  # the same in base64


class ChunkError(ValueError):
    """A chunk that must not reach a robot; `reason` is `bounds` where a declared bound refuses it."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Checked:
    """Rows as they may be played, one value a dimension, and a sentence for every step that was clipped."""

    rows: list[list[float]]
    warnings: list[str]


def observation_faults(contract: ObservationContract, observation: Mapping[str, Any]) -> list[str]:
    """What the observation lacks, each a phrase; empty when it fits. Cameras nobody declared are no fault."""
    faults = [
        *_frame_faults(contract, observation.get("images") or []),
        *_vector_faults("proprioception", contract.proprio, observation.get("proprioception") or {}),
        *_vector_faults("state", contract.state, observation.get("state") or {}),
    ]
    if contract.instruction and not observation.get("instruction"):
        faults.append("instruction is empty")
    return faults


def shape_faults(observation: Mapping[str, Any]) -> list[str]:
    """What is malformed whatever was declared: frames that are no images, vectors that are no numbers."""
    images = observation.get("images")
    if not isinstance(images, list):
        return ["images must be a list of {view, data}"]
    faults = [fault for index, image in enumerate(images) if (fault := _image_fault(index, image))]
    for part in ("proprioception", "state"):
        vectors = observation.get(part)
        if vectors is not None and not isinstance(vectors, Mapping):
            faults.append(f"{part} must be an object of vectors")
        for name, vector in (vectors or {}).items() if isinstance(vectors, Mapping) else ():
            if vector is not None and not _is_vector(vector):
                faults.append(f"{part}.{name} must be a list of numbers")
    if not isinstance(observation.get("proprioception"), Mapping):
        faults.append("proprioception must be an object with joint_positions")
    if not isinstance(observation.get("instruction", ""), str):
        faults.append("instruction must be text")
    return faults


def check_rows(contract: ActionContract, rows: Sequence[Sequence[Any]]) -> Checked:
    """The rows within `bounds` and `max_delta`; raises ChunkError on what cannot be clipped, or must not be."""
    if not rows:
        raise ChunkError("infer returned no rows; a chunk has at least one")
    if _all_within(contract, rows):
        return Checked(list(map(list, rows)), [])
    for step, row in enumerate(rows):
        _check_numbers(contract, step, row)
    return _limited(contract, rows)


def _all_within(contract: ActionContract, rows: Sequence[Sequence[Any]]) -> bool:
    """Whether all are finite floats within every limit, as they nearly always are: told without a look at each."""
    values = list(chain.from_iterable(rows))
    if set(map(len, rows)) != {contract.action_dim} or not codec.are_floats(values):
        return False
    for column, (low, high) in zip(zip(*rows, strict=True), contract.bounds or (), strict=False):
        if min(column) < low or max(column) > high:
            return False
    if contract.max_delta is None:
        return True
    deltas, after = _deltas(contract, contract.max_delta), values[contract.action_dim :]
    return all(map(le, map(sub, values, cycle(deltas)), after)) and all(map(le, after, map(add, values, cycle(deltas))))


def _check_numbers(contract: ActionContract, step: int, row: Sequence[Any]) -> None:
    if len(row) != contract.action_dim:
        raise ChunkError(f"row {step} has {len(row)} values; action_dim is {contract.action_dim}")
    for dimension, value in enumerate(row):
        if isinstance(value, (str, bytes)) or not _finite(value):
            raise ChunkError(f"row {step}, dimension {dimension} is {value!r}; every value must be a finite number")


def _limited(contract: ActionContract, rows: Sequence[Sequence[Any]]) -> Checked:
    if contract.bounds is None and contract.max_delta is None:
        return Checked([[float(value) for value in row] for row in rows], [])
    kept: list[list[float]] = []
    warnings: list[str] = []
    for step, row in enumerate(rows):
        limits = _limits(contract, kept[-1] if kept else None)
        clipped = [min(max(float(value), low), high) for value, (low, high) in zip(row, limits, strict=True)]
        if clipped != row:
            warnings += _clips(step, row, clipped)
        kept.append(clipped)
    if warnings and contract.on_violation == "refuse":
        raise ChunkError(f"the chunk leaves its declared limits ({warnings[0]}); on_violation is refuse", "bounds")
    return Checked(kept, warnings)


def _clips(step: int, row: Sequence[Any], clipped: list[float]) -> list[str]:
    """What was clipped in one row, in one sentence; nothing where it only changed its type."""
    changed = [
        f"dimension {dimension} from {float(row[dimension]):g} to {value:g}"
        for dimension, value in enumerate(clipped)
        if value != row[dimension]
    ]
    return [f"step {step}: clipped {', '.join(changed)}"] if changed else []


def _limits(contract: ActionContract, previous: list[float] | None) -> list[tuple[float, float]]:
    """The range of each dimension of the next row: its bounds, narrowed to what `max_delta` allows after `previous`."""
    limits = contract.bounds or [(-math.inf, math.inf)] * contract.action_dim
    if contract.max_delta is None or previous is None:
        return limits
    return [
        (max(low, before - delta), min(high, before + delta))
        for (low, high), before, delta in zip(limits, previous, _deltas(contract, contract.max_delta), strict=True)
    ]


def _deltas(contract: ActionContract, declared: float | list[float]) -> list[float]:
    return declared if isinstance(declared, list) else [declared] * contract.action_dim


def _frame_faults(contract: ObservationContract, images: Sequence[Mapping[str, Any]]) -> list[str]:
    if not contract.cameras:
        return []
    seen = Counter((image.get("view"), image.get("kind") == "depth") for image in images)
    faults = []
    for view, camera in contract.cameras.items():
        for depth in (False, True) if camera.depth else (False,):
            count = seen[view, depth]
            if count < contract.history:
                lack = "is missing" if count == 0 else f"has {count} frames of {contract.history}"
                faults.append(f"{'depth ' if depth else ''}view {view!r} {lack}")
    return faults


def _vector_faults(part: str, declared: Mapping[str, int], given: Mapping[str, Any]) -> list[str]:
    faults = []
    for name, length in declared.items():
        vector = given.get(name)
        if vector is None:
            faults.append(f"{part}.{name} is missing")
        elif len(vector) != length:
            faults.append(f"{part}.{name} has {len(vector)} values of {length}")
    return faults


def _image_fault(index: int, image: Any) -> str | None:
    if not isinstance(image, Mapping) or not isinstance(image.get("view"), str):
        return f"images[{index}] must have a view, the camera's name"
    data = image.get("data")
    if isinstance(data, bytes) and data.startswith(_JPEG_OR_PNG):
        return None
    if isinstance(data, str) and data.startswith(_JPEG_OR_PNG_TEXT):
        return None
    return f"images[{index}].data of view {image['view']!r} must be base64 of a JPEG or PNG"


def _is_vector(value: Any) -> bool:
    return codec.are_floats(value) or (
        isinstance(value, list)
        and all(isinstance(item, (int, float)) and not isinstance(item, bool) and _finite(item) for item in value)
    )


def _finite(value: float) -> bool:
    """Whether a float can hold it; a whole number may be too large for one."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
