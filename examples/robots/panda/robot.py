"""The driver's side of the simulated Panda: the callables that a control loop wants, over a local socket.

`python robot.py PORT estop` presses the emergency stop from another terminal, `python robot.py PORT reset` lets it go.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from wire import GoneError, Line

import sequence_ai

# What this driver lets through: its own numbers, not the policy's declaration, for they are what the arm can do.
JOINT_BOUNDS = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)
OPENINGS = (0.0, 0.085)  # m, of the gripper
FURTHEST = 0.5  # rad from where a joint is to where a row may send it
STATE = ("cube_pos", "cube_quat", "block_pos", "block_quat", "goal_pos")
FIRST_FRAME_S = 10.0


class NotTakenError(Exception):
    """The robot did not take a row; the message says why."""


class Robot:
    """A Panda, driven by rows of seven joint targets (rad) and the gripper's opening (m).

    `why_unsafe` says what the last False of `is_safe` was about.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self.why_unsafe = ""

    def read_observation(self) -> sequence_ai.Observation:
        """The newest frame of both cameras, what the joints feel, and where things are: only a simulator knows that."""
        seen = self._seen()
        return sequence_ai.observation(
            images={"front": seen["front_image"], "wrist": seen["wrist_image"]},
            joints=seen["joint_positions"],
            gripper=seen["gripper"],
            state={name: seen[name] for name in STATE},
            instruction=seen["instruction"],
        )

    def apply_action(self, row: Sequence[float]) -> None:
        """Send one row on its way; raises NotTakenError when the robot does not take it."""
        refused = self._line.ask("row", row=list(row))["refused"]
        if refused:
            raise NotTakenError(refused)

    def is_safe(self, row: Sequence[float]) -> bool:
        """Whether this row may be sent, as the arm stands now."""
        self.why_unsafe = why_not(row, self.status())
        return not self.why_unsafe

    def hold(self) -> None:
        """Stop where the arm is, and stay."""
        self._line.ask("hold")

    def over(self) -> bool:
        """Whether the simulator says that the task is done, or cannot be done any more."""
        status = self.status()
        return bool(status["success"] or status["lost"])

    def status(self) -> dict[str, Any]:
        """What the simulator says of itself."""
        return self._line.ask("status")

    def begin(self, task: str, seed: int) -> str:
        """Put everything at the start of a task; the task in a sentence."""
        return str(self._line.ask("begin", task=task, seed=seed)["instruction"])

    def estop(self, why: str) -> None:
        """Press the emergency stop, latched until `reset`. From another thread, use another `Robot`."""
        self._line.ask("estop", why=why)

    def reset(self) -> None:
        """Let the emergency stop go."""
        self._line.ask("reset")

    def close(self) -> None:
        """Hang up. The arm stops by its watchdog if it was moving."""
        self._line.close()

    def _seen(self) -> dict[str, Any]:
        until = time.monotonic() + FIRST_FRAME_S
        while True:
            seen = self._line.ask("observe")["observation"]
            if seen is not None:
                return dict(seen)
            if time.monotonic() > until:
                raise GoneError(f"the cameras showed nothing for {FIRST_FRAME_S:g} s")
            time.sleep(0.02)  # only just after a start


def why_not(row: Sequence[float], status: dict[str, Any]) -> str:
    """Why a row (8,) may not be sent to an arm in this state; empty when it may."""
    if status["mode"] == "estop":
        return f"emergency stop: {status['why']}"
    if len(row) != len(JOINT_BOUNDS) + 1 or not all(map(math.isfinite, row)):
        return f"a row must be 8 finite numbers, got {list(row)}"
    if not OPENINGS[0] <= row[7] <= OPENINGS[1]:
        return f"a gripper's opening of {row[7]:.3f} m is outside {OPENINGS}"
    for number, (value, (low, high), here) in enumerate(zip(row, JOINT_BOUNDS, status["joints"], strict=False), 1):
        if not low <= value <= high:
            return f"joint {number} to {value:.3f} rad is outside {(low, high)}"
        if abs(value - here) > FURTHEST:
            return f"joint {number} to {value:.3f} rad is {abs(value - here):.3f} rad away from where it is"
    return ""


def main() -> None:
    """Press or reset the emergency stop of the simulator that listens on a port."""
    port, button = int(sys.argv[1]), sys.argv[2]
    robot = Robot(Line("127.0.0.1", port))
    {"estop": lambda: robot.estop("pressed by hand"), "reset": robot.reset}[button]()
    print(robot.status()["mode"])


if __name__ == "__main__":
    main()
