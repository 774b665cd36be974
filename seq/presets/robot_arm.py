"""A robot arm's observation and chunk as objects, for an `infer(self, obs: Observation) -> ActionChunk`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import sequence_ai
from sequence_ai import ImageFrame, Proprioception

__all__ = ["ActionChunk", "ActionStep", "ImageFrame", "Observation", "Proprioception"]


@dataclass(frozen=True)
class Observation(sequence_ai.Observation):
    """What a robot sees, feels and was told: `.images` of `ImageFrame`, `.proprioception`, `.instruction`, `.state`."""

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Observation:
        """The observation of an act's body; raises ValueError naming a part that is missing or is no part of one."""
        try:
            return cls(
                images=tuple(_made(ImageFrame, _FRAME, frame) for frame in body.get("images") or ()),
                proprioception=_made(Proprioception, _PROPRIO, body["proprioception"]),
                instruction=body.get("instruction") or "",
                state=body.get("state"),
            )
        except KeyError as missing:
            raise ValueError(f"the observation has no {missing.args[0]!r}; it has {sorted(body)}") from missing

    def to_wire(self) -> dict[str, Any]:
        """The body `from_wire` reads, unset parts left out."""
        body = {
            "images": [_set(frame, _FRAME) for frame in self.images],
            "proprioception": _set(self.proprioception, _PROPRIO),
            "instruction": self.instruction,
        }
        return body if self.state is None else {**body, "state": dict(self.state)}

    def view(self, name: str) -> ImageFrame:
        """The newest colour frame of a camera; raises KeyError with the cameras there are."""
        found = [frame for frame in self.images if frame.view == name and frame.kind != "depth"]
        if not found:
            raise KeyError(f"no view {name!r}; the views are {sorted({frame.view for frame in self.images})}")
        return max(found, key=lambda frame: frame.timestamp_ms or 0)


@dataclass(frozen=True)
class ActionStep:
    """One row of a chunk."""

    index: int
    values: Sequence[float]


@dataclass(frozen=True)
class ActionChunk:
    """What `infer` answers: rows, and what they mean. Parts left None are filled in from the policy's `action=`."""

    steps: Sequence[ActionStep | Sequence[float]]
    robot: str | None = None
    action_space: str | None = None
    action_dim: int | None = None
    control_frequency_hz: float | None = None
    covers_seconds: float | None = None
    open_loop_horizon: int | None = None
    sustains_seconds: float | None = None

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> ActionChunk:
        """The chunk of an act's answer; raises ValueError when it has no steps."""
        if "steps" not in body:
            raise ValueError(f"the chunk has no 'steps'; it has {sorted(body)}")
        steps = [
            ActionStep(int(row["index"]), list(row["values"]))
            if isinstance(row, Mapping)
            else ActionStep(number, list(row))
            for number, row in enumerate(body["steps"])
        ]
        return cls(steps, **{name: body.get(name) for name in _CHUNK})

    def to_wire(self) -> dict[str, Any]:
        """The chunk as a dict, rows as `{"index", "values"}`, unset parts left out."""
        rows = [
            {"index": step.index, "values": list(step.values)}
            if isinstance(step, ActionStep)
            else {"index": number, "values": list(step)}
            for number, step in enumerate(self.steps)
        ]
        return {"steps": rows, **_set(self, _CHUNK)}


_FRAME = ("view", "data", "timestamp_ms", "kind")
_PROPRIO = tuple(field.name for field in fields(Proprioception))
_CHUNK = tuple(field.name for field in fields(ActionChunk) if field.name != "steps")


def _made(kind: Any, names: tuple[str, ...], body: Mapping[str, Any]) -> Any:
    unknown = sorted(set(body) - set(names))
    if unknown:
        raise ValueError(f"{kind.__name__} has no {unknown}; its parts are {list(names)}")
    try:
        return kind(**body)
    except TypeError as wrong:
        raise ValueError(f"{kind.__name__}: {wrong}") from wrong


def _set(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names if getattr(value, name) is not None}
