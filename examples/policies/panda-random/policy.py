"""panda-random: glides to one random posture after the other. What a benchmark scores it, luck would score."""

from __future__ import annotations

import random
from typing import Any

import seq

ROWS = 20
BOUNDS = [
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
    (0.0, 0.085),
]


@seq.policy(
    name="panda-random",
    gpu="cpu",
    action=seq.ActionContract(
        robot="franka_panda",
        action_space="joint_absolute",
        action_dim=8,
        control_frequency_hz=20,
        bounds=BOUNDS,
    ),
    observation=seq.ObservationContract(
        cameras={"front": seq.Camera(width=224, height=224), "wrist": seq.Camera(width=224, height=224)},
        proprio={"joint_positions": 7, "gripper": 1},
        state={"cube_pos": 3, "cube_quat": 4, "block_pos": 3, "block_quat": 4, "goal_pos": 3},
        instruction=True,
    ),
)
class PandaRandom:
    """Answers with 20 rows (8,), joint angles (radians) and opening (metres), towards a posture drawn from a seed."""

    @seq.infer
    def infer(self, obs: dict[str, Any], *, seed: int | None = None) -> list[list[float]]:
        """One second's way to a random posture within the bounds; without a seed another one each time."""
        draw = random.Random(seed)  # noqa: S311 - not a secret
        here = [*obs["proprioception"]["joint_positions"], *obs["proprioception"]["gripper"]]
        there = [draw.uniform(low, high) for low, high in BOUNDS]
        return [[a + (b - a) * row / ROWS for a, b in zip(here, there, strict=True)] for row in range(1, ROWS + 1)]
