"""What a policy declares about the robot it drives: actions out, observations in."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from seq.contract._model import Strict

PROPRIO_FIELDS = ("joint_positions", "joint_velocities", "end_effector_pose", "gripper")


class ActionSpace(str, Enum):
    """What one row of a chunk means. Joints in rad or rad/s, end-effector in m and rad."""

    JOINT_ABSOLUTE = "joint_absolute"
    JOINT_DELTA = "joint_delta"
    EE_ABSOLUTE = "ee_absolute"
    EE_DELTA = "ee_delta"
    JOINT_VELOCITY = "joint_velocity"


class ActionContract(Strict):
    """What a chunk of actions must look like; the worker checks every chunk against it.

    `bounds` is one `(low, high)` a dimension, in the dimension's own unit; `max_delta` the largest change between
    consecutive rows (a number for all dimensions, or one each). Raises pydantic's ValidationError (a ValueError).
    """

    robot: str = Field(min_length=1)
    action_space: ActionSpace
    action_dim: int = Field(ge=1)
    control_frequency_hz: float = Field(gt=0, le=10_000)
    bounds: list[tuple[float, float]] | None = None
    max_delta: float | list[float] | None = None
    on_violation: Literal["clip", "refuse"] | None = None

    @model_validator(mode="after")
    def _lengths_fit(self) -> ActionContract:
        if self.bounds is not None:
            if len(self.bounds) != self.action_dim:
                raise ValueError(
                    f"bounds has {len(self.bounds)} pairs for action_dim={self.action_dim}; give one a dimension"
                )
            for dim, (low, high) in enumerate(self.bounds):
                if not low <= high:
                    raise ValueError(f"bounds[{dim}] is ({low}, {high}); low must not be above high")
        deltas = self.max_delta if isinstance(self.max_delta, list) else [self.max_delta]
        if isinstance(self.max_delta, list) and len(self.max_delta) != self.action_dim:
            raise ValueError(
                f"max_delta has {len(self.max_delta)} values for action_dim={self.action_dim}; "
                "give one, or one a dimension"
            )
        if any(delta is not None and not delta > 0 for delta in deltas):
            raise ValueError(f"max_delta is {self.max_delta}; every value must be above 0")
        return self


class Camera(Strict):
    """One camera a policy reads; `depth=True` asks for a 16-bit depth frame beside the colour one."""

    width: int = Field(ge=1, le=8192)
    height: int = Field(ge=1, le=8192)
    depth: bool | None = None


class ObservationContract(Strict):
    """What an act must carry: cameras (and how many frames of each), the length of every vector, an instruction."""

    cameras: dict[str, Camera] = Field(default_factory=dict)
    history: int = Field(default=1, ge=1, le=64)
    proprio: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    state: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    instruction: bool = True

    @model_validator(mode="after")
    def _known_proprio(self) -> ObservationContract:
        unknown = sorted(set(self.proprio) - set(PROPRIO_FIELDS))
        if unknown:
            raise ValueError(
                f"proprio has {unknown}; the fields are {list(PROPRIO_FIELDS)} (other vectors go into state=)"
            )
        return self


class Embodiment(Strict):
    """One body of a policy that drives several."""

    action: ActionContract
    observation: ObservationContract | None = None
    meta: dict[str, Any] = Field(default_factory=dict)
