"""The LeRobot and the ROS 2 example, against small stand-ins of the interfaces they name; and their page."""

import importlib.util
import re
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import sequence_ai
from sequence_ai.testing import ACTION, FakePlatform, chunk

HERE = Path(__file__).parent
FRAME = np.zeros((48, 64, 3), dtype=np.uint8)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def stand_in(monkeypatch, **modules):
    for name, content in modules.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- LeRobot ---------------------------------------------------------------------------------------------------------


class FollowerStandIn:
    """What of an SO-101 follower the example uses; goals are where the motors are at once."""

    def __init__(self, config):
        self.config = config
        self.place = {
            "shoulder_pan": 0.0,
            "shoulder_lift": -10.0,
            "elbow_flex": 10.0,
            "wrist_flex": 0.0,
            "wrist_roll": 0.0,
            "gripper": 50.0,
        }
        self.sent = []
        self.connected = False
        self.bus = SimpleNamespace(sync_read=lambda register: dict(self.place))

    def connect(self, calibrate=True):
        self.connected = True

    def disconnect(self):
        self.connected = False

    def get_observation(self):
        return {**{f"{name}.pos": value for name, value in self.place.items()}, "front": FRAME, "wrist": FRAME}

    def send_action(self, action):
        self.sent.append(dict(action))
        self.place.update({name.removesuffix(".pos"): value for name, value in action.items()})
        return action


@pytest.fixture
def lerobot(monkeypatch):
    stand_in(
        monkeypatch,
        lerobot={},
        lerobot__cameras={},
        lerobot__cameras__opencv={},
        lerobot__cameras__opencv__configuration_opencv={
            "OpenCVCameraConfig": lambda index_or_path, *, fps, width, height: (index_or_path, fps, width, height)
        },
        lerobot__robots={},
        lerobot__robots__so_follower={
            "SO101Follower": FollowerStandIn,
            "SO101FollowerConfig": SimpleNamespace,
        },
    )
    return load("lerobot_arm")


# --- ROS 2 -----------------------------------------------------------------------------------------------------------


class Message:
    """A message: whatever fields it is given or set."""

    def __init__(self, **fields):
        vars(self).update(fields)


class NodeStandIn:
    """A node whose topics the test writes and reads."""

    def __init__(self):
        self.heard = {}
        self.sent = []
        self.timers = []

    def create_publisher(self, kind, topic, depth):
        assert topic == "/joint_trajectory_controller/joint_trajectory"
        return SimpleNamespace(publish=self.sent.append)

    def create_subscription(self, kind, topic, callback, qos):
        self.heard[topic] = callback

    def create_timer(self, period_s, callback):
        self.timers.append((period_s, callback))

    def destroy_node(self):
        pass

    def say(self, topic, **fields):
        self.heard[topic](Message(**fields))

    def see(self, joints):
        """The arm's joints in another order than the policy's, among others, and both cameras."""
        names = [*reversed(joints), "a_wheel"]
        self.say("/joint_states", name=names, position=[*reversed(joints.values()), 9.0])
        for topic in ("/front/color/image_raw", "/wrist/color/image_raw"):
            self.say(topic, pixels=FRAME)


@pytest.fixture
def ros2(monkeypatch):
    stand_in(
        monkeypatch,
        rclpy={},
        rclpy__executors={"SingleThreadedExecutor": None},
        rclpy__qos={"qos_profile_sensor_data": "sensor data"},
        rclpy__signals={"SignalHandlerOptions": SimpleNamespace(NO="no")},
        builtin_interfaces={},
        builtin_interfaces__msg={"Duration": Message},
        cv_bridge={
            "CvBridge": lambda: SimpleNamespace(
                imgmsg_to_cv2=lambda message, desired_encoding: {"rgb8": message.pixels}[desired_encoding]
            )
        },
        sensor_msgs={},
        sensor_msgs__msg={"Image": Message, "JointState": Message},
        std_msgs={},
        std_msgs__msg={"Bool": Message},
        trajectory_msgs={},
        trajectory_msgs__msg={"JointTrajectory": Message, "JointTrajectoryPoint": Message},
    )
    return load("ros2_arm")


# --- the same promises for both --------------------------------------------------------------------------------------


class Rig:
    """An arm of either kind: `sent` are the rows that reached it, `place` is where it says it is."""

    def __init__(self, arm, module, clock, home, sent, see):
        self.arm, self.module, self.clock, self.home, self.sent, self.see = arm, module, clock, home, sent, see

    def near(self, by=0.01):
        return [self.home[0] + by, *self.home[1:]]


@pytest.fixture(params=["lerobot", "ros2"])
def rig(request):
    module, clock = request.getfixturevalue(request.param), Clock()
    if request.param == "lerobot":
        robot = FollowerStandIn(None)
        arm = module.LeRobotArm(robot, clock=clock)

        def sent():
            return [[row.get(f"{name}.pos") for name in module.LIMITS] for row in robot.sent]

        home = list(robot.place.values())
        return Rig(arm, module, clock, home, sent, lambda: None)
    node = NodeStandIn()
    arm = module.Ros2Arm(node, clock=clock)
    places = dict(zip(module.LIMITS, [0.0, -1.2, 1.0, -1.0, 0.0, 0.0], strict=True))
    rig = Rig(
        arm,
        module,
        clock,
        list(places.values()),
        lambda: [message.points[0].positions for message in node.sent],
        lambda: node.see(places),
    )
    rig.node = node
    rig.see()
    return rig


def test_a_policy_drives_the_arm_through_the_four_callables(rig):
    """Observations reach the policy in its order, its rows reach the arm, and the loop's end holds it."""
    seen = []

    def infer(body):
        seen.append(body["observation"])
        return {"action_chunk": chunk([rig.near(), rig.near(0.02)])}

    platform = FakePlatform(infer=infer, action={**ACTION, "action_dim": 6})
    with platform.in_place(), sequence_ai.connect("arm", base_url=platform.url, api_key=platform.key) as policy:
        rig.arm.read_observation()
        rig.arm.engage()
        outcome = policy.act(
            "pick up the cup",
            rig.arm.read_observation,
            rig.arm.apply_action,
            validate=rig.arm.is_safe,
            hold=rig.arm.hold,
            until=lambda: len(rig.sent()) >= 2,
            max_seconds=5,
            prefetch=False,
        )

    joints = len(seen[0]["proprioception"]["joint_positions"])
    assert seen[0]["proprioception"]["joint_positions"] == pytest.approx(rig.home[:joints])
    assert {image["view"] for image in seen[0]["images"]} == {"front", "wrist"}
    assert seen[0]["instruction"] == "pick up the cup"
    assert rig.sent()[:2] == [pytest.approx(rig.near()), pytest.approx(rig.near(0.02))]
    assert outcome.reason == "until"
    assert len(rig.sent()) == 3, "no hold at the end"


def test_nothing_is_sent_before_engage_or_after_hold(rig):
    """A row outside is refused by both callables, with the reason, and reaches nothing."""
    rig.arm.read_observation()
    for _ in range(2):
        before = len(rig.sent())
        assert not rig.arm.is_safe(rig.near())
        with pytest.raises(rig.module.StoppedError):
            rig.arm.apply_action(rig.near())
        assert len(rig.sent()) == before
        rig.arm.engage()
        rig.arm.apply_action(rig.near())
        rig.arm.hold()
    assert rig.arm.why_unsafe == "held"


def test_the_watchdog_holds_the_arm_once_when_rows_cease(rig):
    """Not before its time; then the arm is told to stay where it is, once; a new row moves it again."""
    rig.arm.read_observation()
    rig.arm.engage()
    rig.arm.apply_action(rig.near())
    rig.clock.now += rig.module.WATCHDOG_S * 0.9
    rig.see()
    rig.arm.check_watchdog()
    assert len(rig.sent()) == 1

    rig.clock.now += rig.module.WATCHDOG_S * 0.2
    rig.arm.check_watchdog()
    rig.arm.check_watchdog()
    assert len(rig.sent()) == 2

    assert rig.arm.is_safe(rig.near())
    rig.arm.apply_action(rig.near())
    assert len(rig.sent()) == 3


def test_a_row_that_the_arm_should_not_follow_is_not_safe(rig):
    """Outside a limit, a leap, a number that is none, one number too few: each is said."""
    rig.arm.read_observation()
    rig.arm.engage()
    far = next(iter(rig.module.LIMITS.values()))[1] * 2
    for row, says in [
        ([far, *rig.home[1:]], "is outside"),
        (rig.near(rig.module.FURTHEST * 1.5), "away from where it is"),
        ([float("nan"), *rig.home[1:]], "finite numbers"),
        (rig.home[:5], "finite numbers"),
    ]:
        assert not rig.arm.is_safe(row)
        assert says in rig.arm.why_unsafe
    assert rig.arm.is_safe(rig.near())
    assert rig.sent() == []


def test_an_emergency_stop_is_for_good(rig):
    """The arm is told to stay, no row goes out, and it cannot be engaged again."""
    rig.arm.read_observation()
    rig.arm.engage()
    rig.arm.apply_action(rig.near())
    if hasattr(rig, "node"):
        rig.node.say("/emergency_stop", data=False)
        assert rig.arm.is_safe(rig.near())
        rig.node.say("/emergency_stop", data=True)
    else:
        rig.arm.estop()
    assert len(rig.sent()) == 2

    assert not rig.arm.is_safe(rig.near())
    assert rig.arm.why_unsafe == "emergency stop"
    rig.arm.hold()
    with pytest.raises(rig.module.StoppedError, match="emergency stop"):
        rig.arm.engage()
    assert len(rig.sent()) == 2


def test_a_ros_arm_that_is_not_heard_is_neither_observed_nor_moved(ros2):
    """Old frames and joints are no observation, an unknown place makes every row unsafe, and no old place is held."""
    clock, node = Clock(), NodeStandIn()
    arm = ros2.Ros2Arm(node, clock=clock)
    with pytest.raises(ros2.StoppedError, match="/joint_states, /front/color/image_raw"):
        arm.read_observation()
    places = dict.fromkeys(ros2.LIMITS, -0.5)
    node.see(places)
    arm.engage()
    assert arm.is_safe(list(places.values()))

    clock.now += ros2.STALE_S * 2
    assert not arm.is_safe(list(places.values()))
    with pytest.raises(ros2.StoppedError):
        arm.read_observation()
    arm.hold()
    assert node.sent == []


def test_a_ros_row_ends_at_rest_one_period_later(ros2):
    """A trajectory of one point, with every joint named and the time to be there."""
    node = NodeStandIn()
    arm = ros2.Ros2Arm(node, clock=Clock())
    node.see(dict.fromkeys(ros2.LIMITS, -0.5))
    arm.engage()
    arm.apply_action([-0.5] * 6)

    (message,) = node.sent
    assert message.joint_names == list(ros2.LIMITS)
    (point,) = message.points
    assert (point.time_from_start.sec, point.time_from_start.nanosec) == (0, round(1e9 / ros2.CONTROL_HZ))
    assert node.timers[0][0] < ros2.WATCHDOG_S


def test_a_lerobot_hold_keeps_the_grip_and_reads_no_camera(lerobot):
    """The gripper's goal is left as it is, and a camera that died does not keep the arm from being held."""
    robot = FollowerStandIn(None)
    arm = lerobot.LeRobotArm(robot, clock=Clock())
    arm.engage()
    robot.get_observation = None
    arm.hold()

    assert robot.sent == [{f"{name}.pos": robot.place[name] for name in lerobot.LIMITS if name != "gripper"}]


def test_the_lerobot_program_leaves_the_arm_held_with_its_torque_on(lerobot, monkeypatch):
    """From connect to disconnect, against a policy: the arm is held, its port is closed, its torque stays."""
    made = []
    real = lerobot.make_robot
    monkeypatch.setattr(lerobot, "make_robot", lambda port: made.append(real(port)) or made[0])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    action = {**ACTION, "action_dim": 6}
    home = list(FollowerStandIn(None).place.values())
    platform = FakePlatform(infer=lambda _: {"action_chunk": chunk([home])}, action=action)
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    with platform.in_place():
        lerobot.main("arm", "pick up the cup", "/dev/null", max_seconds=1.0)

    (robot,) = made
    assert not robot.connected
    assert robot.config.disable_torque_on_disconnect is False
    assert "gripper.pos" not in robot.sent[-1], "the last thing sent is not a hold"


def test_the_ros_program_leaves_the_arm_held(ros2, monkeypatch):
    """From init to shutdown, against a policy: rows went out, the last thing sent holds the arm where it is."""
    node = NodeStandIn()
    places = dict.fromkeys(ros2.LIMITS, -0.5)
    over = threading.Event()

    class ExecutorStandIn:
        def add_node(self, one):
            assert one is node

        def spin(self):
            while not over.wait(0.01):
                node.see(places)

        def shutdown(self):
            over.set()

    calls = []
    monkeypatch.setattr(ros2, "SingleThreadedExecutor", ExecutorStandIn)
    monkeypatch.setattr(ros2.rclpy, "init", lambda **options: calls.append(options), raising=False)
    monkeypatch.setattr(ros2.rclpy, "create_node", lambda name: node, raising=False)
    monkeypatch.setattr(ros2.rclpy, "shutdown", lambda: calls.append("shutdown"), raising=False)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    action = {**ACTION, "action_dim": 6}
    platform = FakePlatform(infer=lambda _: {"action_chunk": chunk([[-0.45] * 6])}, action=action)
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    with platform.in_place():
        ros2.main("arm", "pick up the cup", max_seconds=1.0)

    assert calls == [{"signal_handler_options": "no"}, "shutdown"]
    assert [message.points[0].positions for message in node.sent[:1]] == [[-0.45] * 6]
    assert node.sent[-1].points[0].positions == [-0.5] * 6


def test_the_page_on_robots_shows_the_files_as_they_are():
    """docs/robots.md holds both files, word for word."""
    page = (HERE.parents[1] / "docs/robots.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)

    for name in ("lerobot_arm.py", "ros2_arm.py"):
        assert (HERE / name).read_text(encoding="utf-8") in shown, f"docs/robots.md does not hold {name} as it is"
