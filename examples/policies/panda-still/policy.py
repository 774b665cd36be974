"""panda-still: never moves. What a benchmark scores it, it would score anything."""

from __future__ import annotations

from typing import Any

import seq

ROWS = 20
JOINT_BOUNDS = [
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
]


@seq.policy(
    name="panda-still",
    gpu="cpu",
    action=seq.ActionContract(
        robot="franka_panda",
        action_space="joint_absolute",
        action_dim=8,
        control_frequency_hz=20,
        bounds=[*JOINT_BOUNDS, (0.0, 0.085)],
    ),
    observation=seq.ObservationContract(
        cameras={"front": seq.Camera(width=224, height=224), "wrist": seq.Camera(width=224, height=224)},
        proprio={"joint_positions": 7, "gripper": 1},
        state={"cube_pos": 3, "cube_quat": 4, "block_pos": 3, "block_quat": 4, "goal_pos": 3},
        instruction=True,
    ),
)
class PandaStill:
    """Answers with 20 equal rows (8,): the joint angles (radians) and the opening (metres) it was sent."""

    @seq.infer
    def infer(self, obs: dict[str, Any], *, seed: int | None = None) -> list[list[float]]:  # noqa: ARG002 - no chance in it
        """Twenty times where the arm is."""
        here = [*obs["proprioception"]["joint_positions"], *obs["proprioception"]["gripper"]]
        return [here] * ROWS
