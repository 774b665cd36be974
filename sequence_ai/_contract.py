"""What a policy declares about its observations, held against one. Pure: the worker refuses what is found here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from sequence_ai._errors import InvalidRequest
from sequence_ai._types import ImageFrame, Observation

Contract = Mapping[str, Any]
_PROPRIO = ("joint_positions", "joint_velocities", "end_effector_pose", "gripper")


@dataclass(frozen=True)
class Mismatch:
    """One sentence about one difference. `refused`: the worker would not run such an act."""

    text: str
    refused: bool = True


def mismatches(observation: Observation, contract: Contract) -> list[Mismatch]:
    """Everything in which the observation differs from the declared one, in the order of the contract's fields."""
    return [*_views(observation, contract), *_vectors(observation, contract), *_instruction(observation, contract)]


def newest_frames(images: Sequence[ImageFrame], history: int) -> list[ImageFrame]:
    """The newest `history` frames of each view and kind, oldest first in each.

    Frames without a timestamp keep their order and count as newer than those with one.
    """
    groups: dict[tuple[str, str | None], list[ImageFrame]] = {}
    for frame in images:
        groups.setdefault((frame.view, frame.kind), []).append(frame)
    return [frame for frames in groups.values() for frame in sorted(frames, key=_age)[-history:]]


def without_undeclared_views(observation: Observation, contract: Contract) -> Observation:
    """The observation with only the cameras that the contract names."""
    declared = contract.get("cameras") or {}
    return replace(observation, images=[frame for frame in observation.images if frame.view in declared])


def check_expected(expected: Mapping[str, Any], action: Contract | None, model: str) -> None:
    """Raise InvalidRequest unless every expected field is declared with that value (compared as text)."""
    if action is None:
        raise InvalidRequest(f"{model} declares no action contract, so expect={dict(expected)!r} cannot hold")
    wrong = [
        f"{name} is {_plain(action[name])}, expected {_plain(value)}"
        if name in action
        else f"{name!r} is not declared (declared: {sorted(action)})"
        for name, value in expected.items()
        if name not in action or not _same(action[name], value)
    ]
    if wrong:
        raise InvalidRequest(f"{model} is not the policy this robot expects: {'; '.join(wrong)}")


def _views(observation: Observation, contract: Contract) -> Iterator[Mismatch]:
    cameras = contract.get("cameras") or {}
    history = contract.get("history") or 1
    colour = Counter(frame.view for frame in observation.images if frame.kind != "depth")
    depth = Counter(frame.view for frame in observation.images if frame.kind == "depth")
    missing = sorted(view for view in cameras if not colour[view])
    if missing:
        yield Mismatch(
            f"missing view(s) {missing}: the policy reads {sorted(cameras)}, and an act without them is refused"
        )
    for view in sorted(cameras):
        if 0 < colour[view] < history:
            yield Mismatch(f"view {view!r} has {colour[view]} frame(s): the policy reads the newest {history}")
    flat = sorted(view for view, camera in cameras.items() if (camera or {}).get("depth") and depth[view] < history)
    if flat:
        yield Mismatch(f"missing depth frame(s) of view(s) {flat}: give them as depth={{view: map}}")
    extra = sorted((set(colour) | set(depth)) - set(cameras))
    if extra:
        yield Mismatch(f"view(s) {extra} are not read by the policy (it reads {sorted(cameras)})", refused=False)


def _vectors(observation: Observation, contract: Contract) -> Iterator[Mismatch]:
    felt = observation.proprioception
    for name in _PROPRIO:
        length = (contract.get("proprio") or {}).get(name)
        if length is not None:
            yield from _length(f"proprioception.{name}", getattr(felt, name), length)
    state = observation.state or {}
    for name, length in sorted((contract.get("state") or {}).items()):
        yield from _length(f"state[{name!r}]", state.get(name), length)


def _length(name: str, vector: Sequence[float] | None, length: int) -> Iterator[Mismatch]:
    if vector is None or (not len(vector) and length):
        yield Mismatch(f"{name} is missing: the policy reads {length} value(s) of it")
    elif len(vector) != length:
        yield Mismatch(f"{name} has {len(vector)} value(s): the policy reads exactly {length}")


def _instruction(observation: Observation, contract: Contract) -> Iterator[Mismatch]:
    if contract.get("instruction", True) and not observation.instruction.strip():
        yield Mismatch("the instruction is empty: the policy needs a sentence")


def _age(frame: ImageFrame) -> tuple[bool, int]:
    return (frame.timestamp_ms is None, frame.timestamp_ms or 0)


def _same(declared: Any, expected: Any) -> bool:
    """Compared as text, but two numbers as numbers: 15 and 15.0 are one rate."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (declared, expected))
    return bool(declared == expected) if numbers else _plain(declared) == _plain(expected)


def _plain(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)
