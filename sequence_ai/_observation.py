"""Building an observation from what a robot holds: arrays, images, numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sequence_ai._contract import Contract, mismatches, without_undeclared_views
from sequence_ai._encode import DEFAULT_JPEG_QUALITY, encoded, encoded_depth
from sequence_ai._errors import InvalidRequest
from sequence_ai._types import ImageFrame, Observation, Proprioception
from sequence_ai._warn import warn_caller


def observation(
    *,
    images: Mapping[str, Any],
    instruction: str,
    joints: Sequence[float] | None = None,
    gripper: Sequence[float] | None = None,
    joint_velocities: Sequence[float] | None = None,
    end_effector_pose: Sequence[float] | None = None,
    state: Mapping[str, Sequence[float]] | None = None,
    timestamp_ms: int | None = None,
    quality: int = DEFAULT_JPEG_QUALITY,
    depth: Mapping[str, Any] | None = None,
    depth_unit: str = "m",
    contract: Contract | None = None,
    strict: bool = True,
) -> Observation:
    """An observation to predict from. Frames are encoded here (see `encode`), RGB, once for either encoding.

    `images` maps a camera's name to its frame, or to a list of frames, oldest first, for a policy that reads several.
    `depth` maps it to a (height, width) map in `depth_unit`. Joints in rad and rad/s, the end effector's pose as 7
    numbers. With `contract` (a policy's `.contract`, or its observation part), undeclared cameras are dropped with a
    warning, and what the worker would refuse raises InvalidRequest (with `strict=False` it warns).
    """
    if not isinstance(instruction, str):
        raise TypeError(f"instruction is a {type(instruction).__name__}: it must be text (empty where there is none)")
    frames = [
        *_frames("images", images, timestamp_ms, None, lambda frame: encoded(frame, quality=quality)),
        *_frames("depth", depth or {}, timestamp_ms, "depth", lambda frame: encoded_depth(frame, unit=depth_unit)),
    ]
    felt = Proprioception(
        joint_positions=_vector("joints", joints) or [],
        joint_velocities=_vector("joint_velocities", joint_velocities),
        end_effector_pose=_vector("end_effector_pose", end_effector_pose),
        gripper=_vector("gripper", gripper),
    )
    if state is not None and not isinstance(state, Mapping):
        raise TypeError(f"state must be a dict of name to numbers, not a {type(state).__name__}")
    named = None if state is None else {name: _vector(f"state[{name!r}]", row) or [] for name, row in state.items()}
    seen = Observation(frames, felt, instruction, named)
    declared = _declared(contract)
    return seen if declared is None else _held_against(seen, declared, strict)


def _frames(argument: str, frames: Any, timestamp_ms: int | None, kind: str | None, write: Any) -> list[ImageFrame]:
    if not isinstance(frames, Mapping):
        raise TypeError(f"{argument} must be a dict of camera name to frame, not a {type(frames).__name__}")
    return [
        ImageFrame(view, write(one), timestamp_ms, kind)
        for view, given in frames.items()
        for one in (given if isinstance(given, (list, tuple)) else [given])
    ]


def _vector(name: str, values: Any | None) -> list[float] | None:
    if values is None:
        return None
    if isinstance(values, (str, bytes)):
        raise InvalidRequest(f"{name} is text: give a list of numbers")
    try:
        row = [float(value) for value in values]
    except (TypeError, ValueError) as wrong:
        raise InvalidRequest(f"{name} must be a flat list of numbers: {wrong}") from wrong
    bad = [index for index, value in enumerate(row) if not math.isfinite(value)]
    if bad:
        raise InvalidRequest(f"{name} holds NaN or infinity at {bad}: no policy can act on that")
    return row


def _declared(contract: Contract | None) -> Contract | None:
    """The observation part, from itself or from a whole contract; None when nothing is declared."""
    if contract is None:
        return None
    if not isinstance(contract, Mapping):
        raise TypeError(f"contract must be a policy's .contract, not a {type(contract).__name__}")
    return contract.get("observation") if "observation" in contract else contract


def _held_against(seen: Observation, declared: Contract, strict: bool) -> Observation:
    found = mismatches(seen, declared)
    refused = [mismatch.text for mismatch in found if mismatch.refused]
    if refused and strict:
        raise InvalidRequest("; ".join(refused))
    for mismatch in found:
        warn_caller(mismatch.text if mismatch.refused else f"{mismatch.text}; dropped")
    return without_undeclared_views(seen, declared)
