"""panda-expert: solves panda-tabletop from the poses it is sent, by inverse kinematics.

It keeps nothing between calls: what to do next is read off the observation alone, so any copy may answer any act.
Lengths are metres, angles radians, quaternions (w, x, y, z), in the frame of the robot's base.
"""

# ruff: noqa: PLC0415 - imports stand inside: the machine that deploys this file has neither mujoco nor mink

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seq

if TYPE_CHECKING:
    import mink
    import mujoco
    import numpy as np

CONTROL_HZ = 20
ROWS = 16  # a chunk covers 0.8 s ...
HORIZON = 10  # ... of which 0.5 s is played before the scene is looked at again
CUBE_HALF = 0.0225
OPEN, CLOSED = 0.085, 0.0
HOVER = 0.12  # the hand's height over a thing it is about to take
FAST, SLOW = 0.35, 0.12  # of the hand, m/s
TURN = 1.5  # of the hand about the vertical, rad/s
DWELL = 9  # control steps that the fingers need
PUSHER = 0.03  # opening with which the two fingers push: two points of contact keep the cube from turning away
BEHIND = 0.062  # from the cube's centre to the hand before a push

JOINT_BOUNDS = [
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
]
JOINT_SPEEDS = (2.17, 2.17, 2.17, 2.17, 2.6, 2.6, 2.6)  # rad/s, the robot's data sheet
COMFORTABLE = (0.0, -0.30, 0.0, -2.35, 0.0, 2.05, 0.785)


# --- what to do: a pure function of the observation ------------------------------------------------------------------


@dataclass(frozen=True)
class Hand:
    """Pose of the point between the finger tips, fingers down: position, turn about the vertical, opening."""

    pos: tuple[float, float, float]
    yaw: float
    opening: float


@dataclass(frozen=True)
class Move:
    """Go straight to a pose at a speed with the fingers as given, then stay for some control steps."""

    to: Hand
    speed: float = FAST
    stay: int = 0


@dataclass(frozen=True)
class Scene:
    """What the plan needs to know: the hand, both cubes with their turn about the vertical, the goal."""

    hand: Hand
    cube: tuple[float, float, float]
    cube_yaw: float
    block: tuple[float, float, float]
    block_yaw: float
    goal: tuple[float, float, float]


def plan(task: str, scene: Scene) -> list[Move]:
    """The moves left to do; none for a task it does not know."""
    planner = {"reach": _reach, "push": _push, "lift": _lift, "stack": _stack}.get(task)
    return planner(scene) if planner is not None else []


def _reach(scene: Scene) -> list[Move]:
    return [Move(Hand(scene.goal, 0.0, OPEN))]


def _lift(scene: Scene) -> list[Move]:
    if not _holding(scene):
        return _grasp(scene)
    x, y, _ = scene.hand.pos
    return [Move(Hand((x, y, CUBE_HALF + 0.15), scene.hand.yaw, CLOSED), SLOW * 2)]


def _stack(scene: Scene) -> list[Move]:
    hand, place = scene.hand, _above(scene.block, 2 * CUBE_HALF)
    away = math.dist(scene.cube[:2], place[:2])
    if away < 0.012 and abs(scene.cube[2] - place[2]) < 0.003:
        rise = Hand(_above(scene.cube, HOVER), hand.yaw, OPEN)
        opened = hand.opening > 0.07
        return [Move(rise, SLOW)] if opened else [Move(Hand(hand.pos, hand.yaw, OPEN), stay=DWELL), Move(rise, SLOW)]
    if not _holding(scene):
        return _grasp(scene)
    grip = tuple(h - c for h, c in zip(hand.pos, scene.cube, strict=True))  # where in the hand the cube sits
    target = tuple(p + g for p, g in zip(place, grip, strict=True))
    yaw = _nearest_quarter(scene.block_yaw, hand.yaw)
    lower = Move(Hand((target[0], target[1], target[2] - 0.002), yaw, CLOSED), SLOW, stay=2)
    over = (target[0], target[1], target[2] + 0.05)
    if away < 0.008:
        return [lower]
    if hand.pos[2] > target[2] + 0.03:
        return [Move(Hand(over, yaw, CLOSED)), lower]
    return [Move(Hand((hand.pos[0], hand.pos[1], over[2]), hand.yaw, CLOSED)), Move(Hand(over, yaw, CLOSED)), lower]


def _push(scene: Scene) -> list[Move]:
    hand, left = scene.hand, math.dist(scene.cube[:2], scene.goal[:2])
    if left < 0.008:
        return []
    along = tuple((g - c) / left for g, c in zip(scene.goal[:2], scene.cube[:2], strict=True))
    yaw = _nearest(math.atan2(along[1], along[0]), hand.yaw, math.pi)  # the fingers side by side across the way
    height = CUBE_HALF

    def behind(distance: float, z: float) -> Hand:
        return Hand((scene.cube[0] - along[0] * distance, scene.cube[1] - along[1] * distance, z), yaw, PUSHER)

    dx, dy = hand.pos[0] - scene.cube[0], hand.pos[1] - scene.cube[1]
    back, aside = -(dx * along[0] + dy * along[1]), abs(dx * along[1] - dy * along[0])
    shove = Move(behind(_touch(back) - left, height), SLOW)
    start = behind(BEHIND, height)
    if hand.pos[2] < 0.06 and 0.0 < back < 0.12 and aside < 0.012:
        return [shove]
    down = Move(start, SLOW * 2)
    if math.dist(hand.pos[:2], start.pos[:2]) < 0.01:
        return [down, shove]
    over = Move(behind(BEHIND, HOVER))
    if hand.pos[2] > 0.09:
        return [over, down, shove]
    return [Move(Hand((hand.pos[0], hand.pos[1], HOVER), hand.yaw, PUSHER)), over, down, shove]


def _touch(back: float) -> float:
    """How far behind the cube's centre the hand is when it touches: what is seen while it pushes, else a guess."""
    return min(max(back, 0.025), 0.04)


def _grasp(scene: Scene) -> list[Move]:
    hand, yaw = scene.hand, _nearest_quarter(scene.cube_yaw, scene.hand.yaw)
    at, over = Hand(scene.cube, yaw, OPEN), Hand(_above(scene.cube, HOVER), yaw, OPEN)
    shut = Move(Hand(scene.cube, yaw, CLOSED), SLOW, stay=DWELL)
    aside, turned = math.dist(hand.pos[:2], scene.cube[:2]), abs(hand.yaw - yaw)
    if math.dist(hand.pos, scene.cube) < 0.01 and turned < 0.15:
        return [shut]
    down = Move(at, SLOW * 1.5)
    if aside < 0.01 and turned < 0.1 and hand.opening > 0.07:
        return [down, shut]
    if hand.pos[2] > scene.cube[2] + 0.08:
        return [Move(over), down, shut]
    return [Move(Hand((hand.pos[0], hand.pos[1], scene.cube[2] + HOVER), hand.yaw, OPEN)), Move(over), down, shut]


def _holding(scene: Scene) -> bool:
    """Fingers stopped by the cube between them."""
    return math.dist(scene.hand.pos, scene.cube) < 0.02 and scene.hand.opening < 2 * CUBE_HALF + 0.002


def _above(pos: tuple[float, float, float], height: float) -> tuple[float, float, float]:
    return (pos[0], pos[1], pos[2] + height)


def _nearest(angle: float, reference: float, period: float) -> float:
    """Of all angles that look the same after `period`, the one nearest to `reference`."""
    return angle + period * round((reference - angle) / period)


def _nearest_quarter(angle: float, reference: float) -> float:
    return _nearest(angle, reference, math.pi / 2)


def glide(start: Hand, moves: list[Move]) -> Iterator[Hand]:
    """One pose per control step along `moves`, straight and no faster than each asks; then the last one for ever."""
    here = start
    for move in moves:
        far = math.dist(here.pos, move.to.pos) / move.speed
        turn = abs(move.to.yaw - here.yaw) / TURN
        steps = math.ceil(max(far, turn) * CONTROL_HZ)
        for step in range(1, steps + 1):
            yield _between(here, move.to, step / steps)
        here = move.to
        for _ in range(move.stay):
            yield here
    while True:
        yield here


def _between(a: Hand, b: Hand, share: float) -> Hand:
    x, y, z = (p + (q - p) * share for p, q in zip(a.pos, b.pos, strict=True))
    return Hand((x, y, z), a.yaw + (b.yaw - a.yaw) * share, b.opening)


# --- how to do it: inverse kinematics --------------------------------------------------------------------------------


class Arm:
    """The Panda's kinematics: where the hand is, and the joints that take it somewhere."""

    def __init__(self) -> None:
        import mink

        self._model = _arm_model()
        self._state = mink.Configuration(self._model)
        self._task = mink.FrameTask("pinch", "site", position_cost=1.0, orientation_cost=0.3)
        posture = mink.PostureTask(self._model, cost=1e-3)  # settles the seventh joint, which the hand leaves free
        posture.set_target(COMFORTABLE)
        self._tasks = [self._task, posture]
        speeds = {f"joint{number}": speed for number, speed in enumerate(JOINT_SPEEDS, 1)}
        self._limits = [mink.ConfigurationLimit(self._model), mink.VelocityLimit(self._model, speeds)]

    def hand(self, joints: list[float], opening: float) -> Hand:
        """Pose of the hand at these joint angles (7,)."""
        self._state.update(_within_bounds(joints))
        pose = self._state.get_transform_frame_to_world("pinch", "site")
        x, y, z = map(float, pose.translation())
        along = pose.rotation().as_matrix()[:2, 0]
        return Hand((x, y, z), math.atan2(along[1], along[0]), opening)

    def follow(self, joints: list[float], path: Iterator[Hand], rows: int) -> list[list[float]]:
        """`rows` actions (8,) that take the hand along `path` from these joint angles, within the joints' speeds."""
        import mink

        self._state.update(_within_bounds(joints))
        actions = []
        for pose in itertools.islice(path, rows):
            self._task.set_target(_transform(pose))
            for _ in range(2):  # two half steps: one is a few tenths of a millimetre off on a curved way
                dt = 0.5 / CONTROL_HZ
                velocity = mink.solve_ik(self._state, self._tasks, dt, "daqp", damping=1e-6, limits=self._limits)
                self._state.integrate_inplace(velocity, dt)
            actions.append([*map(float, self._state.q), pose.opening])
        return actions


def _arm_model() -> mujoco.MjModel:
    """The benchmark's Panda without shapes and fingers: seven joints.

    gym_hil is located, not imported: it is here for its files, without its dependencies.
    """
    import mujoco

    found = importlib.util.find_spec("gym_hil")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("the Panda model comes from the package gym-hil: add it to the policy's image")
    spec = mujoco.MjSpec.from_file(str(Path(found.submodule_search_locations[0], "assets", "panda.xml")))
    for shape in [*spec.geoms, *spec.meshes]:
        spec.delete(shape)
    for finger in ("right_driver", "left_driver", "right_spring_link", "left_spring_link"):
        spec.delete(spec.body(finger))
    return spec.compile()


def _transform(hand: Hand) -> mink.SE3:
    import mink
    import numpy as np

    turn = mink.SO3.from_z_radians(hand.yaw) @ mink.SO3.from_x_radians(math.pi)  # fingers down
    return mink.SE3.from_rotation_and_translation(turn, np.array(hand.pos))


def _within_bounds(joints: list[float]) -> np.ndarray:
    import numpy as np

    return np.clip(joints, *np.transpose(JOINT_BOUNDS))


# --- the policy ------------------------------------------------------------------------------------------------------


@seq.policy(
    name="panda-expert",
    gpu="cpu",
    image=(
        seq.Image.debian_slim()
        .uv_pip_install("mujoco==3.15.0", "numpy==2.4.6", "mink==1.3.0", "daqp==0.11.0")
        .run_commands("uv pip install --no-deps gym-hil==0.1.14")
    ),
    action=seq.ActionContract(
        robot="franka_panda",
        action_space="joint_absolute",
        action_dim=8,
        control_frequency_hz=CONTROL_HZ,
        bounds=[*JOINT_BOUNDS, (CLOSED, OPEN)],
    ),
    observation=seq.ObservationContract(
        cameras={"front": seq.Camera(width=224, height=224), "wrist": seq.Camera(width=224, height=224)},
        proprio={"joint_positions": 7, "gripper": 1},
        state={"cube_pos": 3, "cube_quat": 4, "block_pos": 3, "block_quat": 4, "goal_pos": 3},
        instruction=True,
    ),
)
class PandaExpert:
    """Answers with 16 rows (8,): targets of joints 1 to 7 in radians, then the gripper's opening in metres."""

    @seq.load
    def load(self, weights_dir: str | None) -> None:  # noqa: ARG002 - it has no weights
        """Build the kinematics, once."""
        self.arm = Arm()

    @seq.infer
    def infer(self, obs: dict[str, Any], *, seed: int | None = None) -> dict[str, Any]:  # noqa: ARG002 - no chance in it
        """Rows from where the arm is; they keep it there when there is nothing to see or nothing left to do."""
        joints, opening = obs["proprioception"]["joint_positions"], obs["proprioception"]["gripper"][0]
        hand = self.arm.hand(joints, opening)
        moves = plan(_task_of(obs["instruction"]), _scene(hand, obs["state"])) if _sees(obs["state"]) else []
        stay = [[*map(float, _within_bounds(joints)), opening]] * ROWS
        rows = self.arm.follow(joints, glide(hand, moves), ROWS) if moves else stay
        return {"steps": rows, "open_loop_horizon": HORIZON}


def _task_of(instruction: str) -> str:
    words = instruction.lower().split()
    return words[0] if words else ""


def _sees(state: dict[str, list[float]]) -> bool:
    """A pose whose quaternion is all zeros is none: then there is nothing to plan from, and the arm stays."""
    return math.hypot(*state["cube_quat"]) > 0.5


def _scene(hand: Hand, state: dict[str, list[float]]) -> Scene:
    cube, block, goal = ((p[0], p[1], p[2]) for p in (state["cube_pos"], state["block_pos"], state["goal_pos"]))
    return Scene(hand, cube, _yaw(state["cube_quat"]), block, _yaw(state["block_quat"]), goal)


def _yaw(quat: list[float]) -> float:
    w, x, y, z = quat
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
