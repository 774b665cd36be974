"""Ask a deployed panda-random for one chunk, as a robot would: python client.py [NAME]."""

from __future__ import annotations

import sys

import numpy as np

import sequence_ai


def read_robot() -> sequence_ai.Observation:
    """What your robot sees and feels; here black frames, the start posture and a cube in front of the arm."""
    black = np.zeros((224, 224, 3), dtype=np.uint8)
    upright = [1.0, 0.0, 0.0, 0.0]
    return sequence_ai.observation(
        images={"front": black, "wrist": black},
        joints=[0.0, -0.30, 0.0, -2.35, 0.0, 2.05, 0.785],
        gripper=[0.085],
        state={
            "cube_pos": [0.5, 0.1, 0.0225],
            "cube_quat": upright,
            "block_pos": [0.5, -0.1, 0.0225],
            "block_quat": upright,
            "goal_pos": [0.5, 0.1, 0.17],
        },
        instruction="Do what you like.",
    )


def main(model: str) -> None:
    """Print the chunk and its first row: seven joint targets (radians), then the gripper's opening (metres)."""
    with sequence_ai.connect(model) as policy:
        chunk = policy.predict(read_robot()).action_chunk
    print(chunk)
    print(chunk.steps[0])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "panda-random")
