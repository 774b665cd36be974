"""What a benchmark hands back: a step's verdict, what to record, and the episodes `score` is given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seq import _check as check
from seq.contract.benchmarks import RenderSpec as WireRenderSpec
from seq.errors import BenchmarkDefinitionError

Flip = Literal["vertical", "horizontal", "both"]


@dataclass(frozen=True)
class Step:
    """What `@seq.check` answers: whether the episode is over, and the numbers it is judged by (True is 1.0).

    Raises BenchmarkDefinitionError on a metric that is no finite number.
    """

    done: bool
    terminated: bool = False
    truncated: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    record: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "done", bool(self.done))
        object.__setattr__(self, "terminated", bool(self.terminated))
        object.__setattr__(self, "truncated", bool(self.truncated))
        object.__setattr__(self, "metrics", {name: _metric(name, value) for name, value in self.metrics.items()})


@dataclass(frozen=True)
class Record:
    """What is recorded: a camera, frames a second, and how recorded frames (never what the policy sees) are turned."""

    camera: str
    fps: float = 30
    flip: Flip | None = None

    def __post_init__(self) -> None:
        error = BenchmarkDefinitionError
        check.text("camera", self.camera, error, longest=200)
        if check.number("fps", self.fps, error, low=0, high=1000) == 0:
            raise error("fps= must be above 0, got 0")
        if self.flip is not None:
            check.choice("flip", self.flip, error, ("vertical", "horizontal", "both"))

    def wire(self) -> WireRenderSpec:
        """As a registration carries it."""
        return WireRenderSpec(camera=self.camera, fps=self.fps, flip=self.flip)


RenderSpec = Record


@dataclass(frozen=True)
class EpisodeResult:
    """A finished episode as `@seq.score` sees it; the metrics are those of the step that ended it."""

    metrics: Mapping[str, float]
    steps: int
    terminated: bool
    truncated: bool
    trajectory: Any = None
    frames: tuple[Any, ...] = ()
    task: str | None = None
    seed: int | None = None
    suite: str | None = None
    variation: tuple[tuple[str, str], ...] = ()
    error: str | None = None


def _metric(name: Any, value: Any) -> float:
    if not isinstance(name, str) or not name:
        raise BenchmarkDefinitionError(f"a metric's name must be a text, got {name!r}")
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise BenchmarkDefinitionError(f"metric {name!r} must be a number, got {value!r}")
    as_float = float(value)
    if not math.isfinite(as_float):
        raise BenchmarkDefinitionError(
            f"metric {name!r} is {as_float}; a mean over it would say nothing, so give a finite number"
        )
    return as_float
