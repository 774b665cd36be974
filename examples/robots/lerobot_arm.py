"""Drive a LeRobot arm with a deployed policy: `python lerobot_arm.py my-policy "pick up the cup" /dev/ttyACM0`.

Written for LeRobot 0.5 (`Robot.connect`, `get_observation`, `send_action`, `disconnect`); the arm is an SO-101 follower
with two USB cameras. Any other `Robot` with a motor bus and actions that end in `.pos` fits: change `make_robot` and
`LIMITS`. A row is one goal a motor, in LeRobot's units (degrees; the gripper in percent), in the order of `LIMITS`.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from lerobot.cameras.opencv.configuration_opencv import OpenCVCameraConfig
from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig

import sequence_ai

LIMITS = {  # lowest and highest goal of each motor: what your table allows, not what the arm can do
    "shoulder_pan": (-90.0, 90.0),
    "shoulder_lift": (-95.0, 90.0),
    "elbow_flex": (-90.0, 95.0),
    "wrist_flex": (-95.0, 95.0),
    "wrist_roll": (-150.0, 150.0),
    "gripper": (0.0, 100.0),
}
CAMERAS = {"front": 0, "wrist": 2}  # the numbers of their video devices
FURTHEST = 20.0  # from where a motor is to where one row may send it; the gripper closes faster
WATCHDOG_S = 0.4  # without a row for so long, the arm is held


class StoppedError(Exception):
    """A row that was not sent; the message says why."""


class LeRobotArm:
    """The callables of a control loop, for a connected LeRobot `Robot`.

    After `hold` nothing is sent until `engage`; after `estop` nothing ever again. The motor bus is one wire, so all of
    it goes through one lock: the watchdog is a thread of its own.
    """

    def __init__(self, robot: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.why_unsafe = ""
        self._robot = robot
        self._clock = clock
        self._lock = threading.RLock()
        self._here: dict[str, float] = {}
        self._stopped = "not engaged"  # why nothing may be sent; empty while it may
        self._estopped = False
        self._last_row: float | None = None
        self._closing = threading.Event()

    # --- the loop's callables

    def read_observation(self) -> sequence_ai.Observation:
        """What is so now: both cameras' newest frames, five joints and the gripper."""
        with self._lock:
            seen = self._robot.get_observation()
            self._here = {name: float(seen[f"{name}.pos"]) for name in LIMITS}
            *joints, gripper = self._here.values()
        return sequence_ai.observation(
            images={view: seen[view] for view in CAMERAS},
            joints=joints,
            gripper=[gripper],
            instruction="(the loop puts its own here)",
        )

    def is_safe(self, row: Sequence[float]) -> bool:
        """Whether this row may be sent; `why_unsafe` says why not."""
        with self._lock:
            self.why_unsafe = self._stopped or _why_not(row, self._here)
        return not self.why_unsafe

    def apply_action(self, row: Sequence[float]) -> None:
        """Send one row. Raises StoppedError when the arm was stopped since it was checked."""
        with self._lock:
            if self._stopped:
                raise StoppedError(self._stopped)
            goals = {f"{name}.pos": float(value) for name, value in zip(LIMITS, row, strict=True)}
            sent = self._robot.send_action(goals)
            self._here = {name: float(sent[f"{name}.pos"]) for name in LIMITS}
            self._last_row = self._clock()

    def hold(self) -> None:
        """Stay where the arm is, with its torque on; nothing is sent after this."""
        self._stop("held")

    # --- beside the loop

    def engage(self) -> None:
        """Let rows through from now on. Raises StoppedError after an emergency stop."""
        with self._lock:
            if self._estopped:
                raise StoppedError("emergency stop: look at the arm, then start this program again")
            self._stopped, self._last_row = "", None

    def estop(self) -> None:
        """Hold for good. From any thread. It is no substitute for the switch of the arm's power supply."""
        with self._lock:
            self._estopped = True
            self._stop("emergency stop")

    def check_watchdog(self) -> None:
        """Hold the arm when rows have ceased; a new row moves it again."""
        with self._lock:
            if self._last_row is not None and self._clock() - self._last_row > WATCHDOG_S:
                self._rest()

    def watch(self) -> None:
        """Check until `close`: run this in a thread."""
        while not self._closing.wait(WATCHDOG_S / 10):
            self.check_watchdog()

    def close(self) -> None:
        """Hold, and let the watchdog's thread end."""
        self._closing.set()
        self.hold()

    def _stop(self, why: str) -> None:
        with self._lock:
            if not self._stopped:
                self._stopped = why  # first: should the bus fail now, nothing is sent all the same
                self._rest()
            self._stopped = "emergency stop" if self._estopped else why

    def _rest(self) -> None:
        """Make the place where each motor is its goal; the gripper's stays, or it would drop what it holds.

        The motors are read by themselves: holding must not depend on a camera.
        """
        self._last_row = None
        here = self._robot.bus.sync_read("Present_Position")
        self._robot.send_action({f"{name}.pos": here[name] for name in LIMITS if name != "gripper"})


def _why_not(row: Sequence[float], here: dict[str, float]) -> str:
    """Why a row may not be sent; empty when it may."""
    if len(row) != len(LIMITS) or not all(map(math.isfinite, row)):
        return f"a row must be {len(LIMITS)} finite numbers, got {list(row)}"
    if not here:
        return "nobody knows where the arm is: it was not read yet"
    for (name, (low, high)), value in zip(LIMITS.items(), row, strict=True):
        if not low <= value <= high:
            return f"{name} to {value:.1f} is outside {(low, high)}"
        if name != "gripper" and abs(value - here[name]) > FURTHEST:
            return f"{name} to {value:.1f} is {abs(value - here[name]):.1f} away from where it is"
    return ""


def make_robot(port: str) -> Any:
    """The arm on this serial port, with its cameras."""
    cameras = {view: OpenCVCameraConfig(device, fps=30, width=640, height=480) for view, device in CAMERAS.items()}
    config = SO101FollowerConfig(
        port=port,
        id="follower",  # under this name `lerobot-calibrate` kept its calibration
        cameras=cameras,
        max_relative_target=FURTHEST,  # a second net, next to the motors
        disable_torque_on_disconnect=False,  # an arm without torque falls
    )
    return SO101Follower(config)


def main(model: str, instruction: str, port: str, max_seconds: float = 30.0) -> None:
    """Drive until the time is over, something is unsafe, Ctrl-C (stop) or Ctrl-backslash (emergency stop)."""
    robot = make_robot(port)
    robot.connect()
    arm = LeRobotArm(robot)
    watchdog = threading.Thread(target=arm.watch, daemon=True)
    watchdog.start()
    expected = {"action_space": "joint_absolute", "action_dim": len(LIMITS)}
    try:
        with sequence_ai.connect(model, expect=expected, timeout_s=5.0) as policy:
            signal.signal(signal.SIGINT, lambda *_: policy.interrupt())
            # In a thread: the signal may come while this one is talking to the motors.
            signal.signal(signal.SIGQUIT, lambda *_: threading.Thread(target=arm.estop).start())
            policy.wait_until_ready()
            arm.engage()
            outcome = policy.act(
                instruction,
                observe=arm.read_observation,
                act=arm.apply_action,
                validate=arm.is_safe,
                hold=arm.hold,
                max_seconds=max_seconds,
            )
        print(outcome, arm.why_unsafe)
    finally:
        arm.close()
        watchdog.join()
        robot.disconnect()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
