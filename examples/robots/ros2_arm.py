"""Drive a ROS 2 arm with a deployed policy: `python ros2_arm.py my-policy "pick up the cup"`.

Written for ROS 2 Jazzy: rclpy 7, sensor_msgs, std_msgs, trajectory_msgs and cv_bridge of that release, and a
`joint_trajectory_controller` of ros2_controllers 4 that commands positions. The names and limits below are a UR5e's:
put your arm's there. A row is one target a joint, in radians, in the order of `LIMITS`.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import rclpy
from builtin_interfaces.msg import Duration
from cv_bridge import CvBridge
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import sequence_ai

T = TypeVar("T")

LIMITS = {  # lowest and highest target of each joint, rad: what your cell allows, not what the arm can do
    "shoulder_pan_joint": (-1.6, 1.6),
    "shoulder_lift_joint": (-2.6, -0.4),
    "elbow_joint": (-2.6, 2.6),
    "wrist_1_joint": (-3.1, 0.5),
    "wrist_2_joint": (-2.4, 2.4),
    "wrist_3_joint": (-3.1, 3.1),
}
CAMERAS = {"front": "/front/color/image_raw", "wrist": "/wrist/color/image_raw"}
FURTHEST = 0.2  # rad from where a joint is to where one row may send it
CONTROL_HZ = 15.0
WATCHDOG_S = 0.4  # without a row for so long, the arm is held
STALE_S = 0.3  # what was heard longer ago is no observation
RAMP_S = 0.2  # to come to rest in


class StoppedError(Exception):
    """A row that was not sent; the message says why."""


class Ros2Arm:
    """The callables of a control loop, for a node that somebody else spins.

    After `hold` nothing is sent until `engage`; after an emergency stop (True on /emergency_stop) nothing ever again.
    """

    def __init__(self, node: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.why_unsafe = ""
        self._clock = clock
        self._bridge = CvBridge()
        self._lock = threading.Lock()
        self._joints: tuple[float, dict[str, float]] | None = None  # when, and where
        self._frames: dict[str, tuple[float, Any]] = {}
        self._stopped = "not engaged"  # why nothing may be sent; empty while it may
        self._estopped = False
        self._last_row: float | None = None
        self._targets = node.create_publisher(JointTrajectory, "/joint_trajectory_controller/joint_trajectory", 10)
        node.create_subscription(JointState, "/joint_states", self._on_joints, qos_profile_sensor_data)
        node.create_subscription(Bool, "/emergency_stop", self._on_emergency_stop, 10)
        for view, topic in CAMERAS.items():
            node.create_subscription(Image, topic, self._frame_keeper(view), qos_profile_sensor_data)
        node.create_timer(WATCHDOG_S / 10, self.check_watchdog)

    # --- the loop's callables

    def read_observation(self) -> sequence_ai.Observation:
        """What is so now. Raises StoppedError when a camera or the joints were not heard lately."""
        with self._lock:
            joints = self._fresh(self._joints)
            frames = {view: self._fresh(self._frames.get(view)) for view in CAMERAS}
        heard = {"/joint_states": joints, **{CAMERAS[view]: frame for view, frame in frames.items()}}
        late = [topic for topic, kept in heard.items() if kept is None]
        if joints is None or late:
            raise StoppedError(f"nothing new on {', '.join(late)} for {STALE_S:g} s")
        return sequence_ai.observation(
            images=frames,
            joints=list(joints.values()),
            instruction="(the loop puts its own here)",
        )

    def is_safe(self, row: Sequence[float]) -> bool:
        """Whether this row may be sent; `why_unsafe` says why not."""
        with self._lock:
            self.why_unsafe = self._stopped or _why_not(row, self._fresh(self._joints))
        return not self.why_unsafe

    def apply_action(self, row: Sequence[float]) -> None:
        """Send one row. Raises StoppedError when the arm was stopped since it was checked."""
        with self._lock:
            if self._stopped:
                raise StoppedError(self._stopped)
            self._send(row, 1 / CONTROL_HZ)
            self._last_row = self._clock()

    def hold(self) -> None:
        """Come to rest where the arm is; nothing is sent after this."""
        with self._lock:
            self._stop("held")

    # --- beside the loop

    def wait_until_heard(self, timeout_s: float = 10.0) -> None:
        """Return once the joints and every camera were heard. Raises StoppedError naming what did not come."""
        until = self._clock() + timeout_s
        while self._clock() < until:
            with contextlib.suppress(StoppedError):
                self.read_observation()
                return
            time.sleep(0.02)
        self.read_observation()

    def engage(self) -> None:
        """Let rows through from now on. Raises StoppedError after an emergency stop."""
        with self._lock:
            if self._estopped:
                raise StoppedError("emergency stop: look at the arm, then start this program again")
            self._stopped, self._last_row = "", None

    def check_watchdog(self) -> None:
        """Hold the arm when rows have ceased. Called by the node's timer; a new row moves the arm again."""
        with self._lock:
            if self._last_row is not None and self._clock() - self._last_row > WATCHDOG_S:
                self._rest()

    def _on_joints(self, message: Any) -> None:
        places = dict(zip(message.name, message.position, strict=False))
        if LIMITS.keys() <= places.keys():  # other publishers have other joints
            with self._lock:
                self._joints = (self._clock(), {name: float(places[name]) for name in LIMITS})

    def _frame_keeper(self, view: str) -> Callable[[Any], None]:
        def keep(message: Any) -> None:
            frame = self._bridge.imgmsg_to_cv2(message, desired_encoding="rgb8")
            with self._lock:
                self._frames[view] = (self._clock(), frame)

        return keep

    def _on_emergency_stop(self, message: Any) -> None:
        if message.data:
            with self._lock:
                self._estopped = True
                self._stop("emergency stop")

    def _stop(self, why: str) -> None:
        if not self._stopped:
            self._rest()
        self._stopped = "emergency stop" if self._estopped else why

    def _rest(self) -> None:
        """Come to rest where the arm is; where that is not known, it rests at its last target by itself."""
        self._last_row = None
        here = self._fresh(self._joints)
        if here is not None:
            self._send(list(here.values()), RAMP_S)

    def _fresh(self, kept: tuple[float, T] | None) -> T | None:
        """What was kept, unless it is too old to say anything of now."""
        return None if kept is None or self._clock() - kept[0] > STALE_S else kept[1]

    def _send(self, row: Sequence[float], seconds: float) -> None:
        """A trajectory of one point, which replaces what is under way and ends at rest."""
        whole = int(seconds)
        point = JointTrajectoryPoint()
        point.positions = [float(value) for value in row]
        point.time_from_start = Duration(sec=whole, nanosec=round((seconds - whole) * 1e9))
        message = JointTrajectory()
        message.joint_names = list(LIMITS)
        message.points = [point]
        self._targets.publish(message)


def _why_not(row: Sequence[float], here: dict[str, float] | None) -> str:
    """Why a row may not be sent; empty when it may."""
    if len(row) != len(LIMITS) or not all(map(math.isfinite, row)):
        return f"a row must be {len(LIMITS)} finite numbers, got {list(row)}"
    if here is None:
        return "nobody knows where the arm is: nothing new came on /joint_states"
    for (name, (low, high)), value in zip(LIMITS.items(), row, strict=True):
        if not low <= value <= high:
            return f"{name} to {value:.3f} rad is outside {(low, high)}"
        if abs(value - here[name]) > FURTHEST:
            return f"{name} to {value:.3f} rad is {abs(value - here[name]):.3f} rad away from where it is"
    return ""


def main(model: str, instruction: str, max_seconds: float = 30.0) -> None:
    """Drive until the time is over, something is unsafe, or Ctrl-C."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # Ctrl-C is to hold the arm, not to end its node
    node = rclpy.create_node("sequence_arm")
    arm = Ros2Arm(node)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    spinning = threading.Thread(target=executor.spin, daemon=True)
    spinning.start()
    expected = {"action_space": "joint_absolute", "action_dim": len(LIMITS)}
    try:
        with sequence_ai.connect(model, expect=expected, timeout_s=5.0) as policy:
            signal.signal(signal.SIGINT, lambda *_: policy.interrupt())
            policy.wait_until_ready()
            arm.wait_until_heard()
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
        arm.hold()
        executor.shutdown()
        spinning.join()
        node.destroy_node()
        rclpy.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
