"""What goes to a policy and what comes back. All values are frozen."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_Bytes = bytes  # `ImageFrame.bytes` hides the name inside its class


class ImageFrame:
    """One camera frame, JPEG or PNG: `view` is the camera's name.

    `data` may be given as base64 text or as the encoded bytes; the other form is made when it is asked for.
    `timestamp_ms` orders frames of one view; `kind` is None for colour, "depth" for 16-bit millimetres (0: no reading).
    """

    __slots__ = ("_raw", "_text", "kind", "timestamp_ms", "view")

    view: str
    timestamp_ms: int | None
    kind: str | None
    _text: str | None
    _raw: _Bytes | None

    def __init__(self, view: str, data: str | _Bytes, timestamp_ms: int | None = None, kind: str | None = None) -> None:
        put = object.__setattr__
        put(self, "view", view)
        put(self, "timestamp_ms", timestamp_ms)
        put(self, "kind", kind)
        put(self, "_text", data if isinstance(data, str) else None)
        put(self, "_raw", None if isinstance(data, str) else _Bytes(data))

    @property
    def data(self) -> str:
        """The encoded image as base64 text."""
        if self._text is None:
            object.__setattr__(self, "_text", base64.b64encode(self._raw or b"").decode("ascii"))
        return self._text or ""

    @property
    def has_bytes(self) -> bool:
        """The encoded image is at hand, so that `data` is known to be its base64."""
        return self._raw is not None

    @property
    def bytes(self) -> _Bytes:
        """The encoded image. Raises ValueError when `data` is not base64."""
        if self._raw is None:
            try:
                object.__setattr__(self, "_raw", base64.b64decode(self._text or "", validate=True))
            except binascii.Error as wrong:
                raise ValueError(f"the frame of view {self.view!r} is not base64: {wrong}") from wrong
        return self._raw or b""

    def array(self) -> Any:
        """The decoded image: uint8 RGB (height, width, 3); for depth uint16 millimetres (height, width).

        Needs Pillow and numpy. Raises ValueError when the bytes are not an image.
        """
        from sequence_ai._encode import pillow  # noqa: PLC0415  Pillow stays out of a robot that only sends

        image_module = pillow()
        import numpy as np  # noqa: PLC0415  the same

        try:
            image = image_module.open(io.BytesIO(self.bytes))
            if self.kind == "depth":
                return np.asarray(image, dtype=np.uint16)
            return np.asarray(image.convert("RGB"))
        except OSError as wrong:
            raise ValueError(f"the frame of view {self.view!r} is not a JPEG or PNG: {wrong}") from wrong

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an ImageFrame cannot be changed: make a new one instead of setting {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        given = self._text if self._raw is None else self._raw  # in the form at hand: to make the other one costs
        return (ImageFrame, (self.view, given, self.timestamp_ms, self.kind))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ImageFrame):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return (self.view, self.data, self.timestamp_ms, self.kind)

    def __repr__(self) -> str:
        size = f"{len(self.data)} base64 characters"
        return f"ImageFrame(view={self.view!r}, {size}, timestamp_ms={self.timestamp_ms}, kind={self.kind!r})"


@dataclass(frozen=True)
class Proprioception:
    """What a robot feels. Joints in rad and rad/s; the pose is 7 numbers, x, y, z in m and a quaternion."""

    joint_positions: Sequence[float]
    joint_velocities: Sequence[float] | None = None
    end_effector_pose: Sequence[float] | None = None
    gripper: Sequence[float] | None = None


@dataclass(frozen=True)
class Observation:
    """What a robot sees, feels and was told, at one moment. `state` holds named vectors beyond proprioception."""

    images: Sequence[ImageFrame]
    proprioception: Proprioception
    instruction: str
    state: Mapping[str, Sequence[float]] | None = None


@dataclass(frozen=True, repr=False)
class ActionChunk:
    """A block of future actions, one row a control period; what a row means is the policy's declaration.

    Play `open_loop_horizon` rows (all of them when it is None) at `control_frequency_hz`, then observe again.
    """

    steps: Sequence[Sequence[float]]
    robot: str
    action_space: str
    action_dim: int
    control_frequency_hz: float
    covers_seconds: float
    open_loop_horizon: int | None = None
    sustains_seconds: float | None = None

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        replan = "" if self.open_loop_horizon in (None, len(self)) else f", replan after {self.open_loop_horizon}"
        return (
            f"ActionChunk({len(self)} steps x {self.action_dim} dims, {self.action_space}, {self.robot}, "
            f"{self.control_frequency_hz:g} Hz, covers {self.covers_seconds:.2f}s{replan})"
        )


@dataclass(frozen=True)
class Prediction:
    """One answer of a policy. `perf` holds the worker's timings in ms, `warnings` what it clipped."""

    id: str
    model: str
    action_chunk: ActionChunk
    perf: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class RunOutcome:
    """How a run went. Times in s; the last five fields tell what the published client does not.

    Attributes:
        actions: rows that reached the robot.
        chunks: answers taken into the buffer.
        elapsed_s: from the call to the end, waits included, `hold` not.
        underruns: how often the buffer ran dry after the first action and the loop had to wait.
        underrun_s: for how long in all.
        episode_resets: how often another worker took over, without what the first one remembered.
        stopped_early: it ended before `max_actions`, so `hold` was called.
        reason: "completed", "until", "timeout", "interrupted" or "validate".
        max_seam_jump: the largest step of one dimension from an action to the next chunk's first row, before any
            blending; None where one chunk was enough.
        action_space: what the rows mean, as the last chunk said.
        instruction_swaps: how many sentences the policy was asked with that it was not asked with before.
        max_instruction_lag_s: the longest time from a new sentence to the first request that carried it.
        observe_s: time spent in `observe`.
        stale_answers: answers thrown away, or not played to their end, since they came far too late or a callback took
            too long. A fresh observation was taken instead.
        late_ticks: how often a callback took so long that the schedule began anew.
        observation_age_s: from the begin of `observe` to the first action of its chunk, the mean over the chunks.
        max_observation_age_s: the longest of these.
        max_observation_age_rows: the most rows that were played meanwhile.
    """

    actions: int
    chunks: int
    elapsed_s: float
    underruns: int = 0
    underrun_s: float = 0.0
    episode_resets: int = 0
    stopped_early: bool = False
    reason: str = "completed"
    max_seam_jump: float | None = None
    action_space: str | None = None
    instruction_swaps: int = 0
    max_instruction_lag_s: float | None = None
    observe_s: float = 0.0
    stale_answers: int = 0
    late_ticks: int = 0
    observation_age_s: float = 0.0
    max_observation_age_s: float = 0.0
    max_observation_age_rows: int = 0

    def __repr__(self) -> str:
        dry = f", {self.underruns} underruns ({self.underrun_s:.2f}s)" if self.underruns else ""
        lag = "" if self.max_instruction_lag_s is None else f" (max lag {self.max_instruction_lag_s:.2f}s)"
        swaps = f", {self.instruction_swaps} instruction swaps{lag}" if self.instruction_swaps else ""
        return (
            f"RunOutcome({self.actions} actions over {self.chunks} chunks in {self.elapsed_s:.1f}s"
            f"{dry}{swaps}, {self.reason})"
        )


@dataclass(frozen=True)
class Model:
    """A model that the platform serves itself (`kind="model"`) or a template to start from (`kind="template"`).

    `endpoint` is "chat" or "decide" for a model; `template_kind`, `stable` and `beta` belong to templates.
    """

    id: str
    endpoint: str | None
    architecture: str | None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    kind: str = "model"
    template_kind: str | None = None
    stable: str | None = None
    beta: str | None = None
    usage: Mapping[str, Any] | None = None

    @property
    def short_id(self) -> str:
        """The id's last part, which is enough to name it."""
        return self.id.rsplit("/", 1)[-1]

    @property
    def supported_parameters(self) -> list[str]:
        """The names of the parameters it takes."""
        return list(self.raw.get("supported_parameters") or [])
