"""panda-tabletop: a Franka Panda with a two-finger gripper at a table; reach, push, lift, stack.

Lengths are metres, angles radians, quaternions (w, x, y, z). The world frame is the robot's base: x away from the
robot, y to its left, z up, the table's top at z = 0. One control step is 1/20 s: 25 physics steps of 2 ms.
"""

# ruff: noqa: PLC0415 - imports stand inside: the machine that deploys this file has neither mujoco nor numpy

from __future__ import annotations

import importlib.util
import math
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seq

if TYPE_CHECKING:
    import mujoco
    import numpy as np

os.environ.setdefault("MUJOCO_GL", "egl")  # mujoco reads it when it is imported, which happens below, in setup

CONTROL_HZ = 20
SUBSTEPS = 25
IMAGE_SIZE = 224  # what a policy sees
RECORD_SIZE = 448  # what a person watches
HOLD_STEPS = 10  # control steps in a row that a task's rule must hold
CUBE_HALF = 0.0225
FLOOR_Z = -0.75

JOINT_BOUNDS = [
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
]
GRIPPER_MAX = 0.085
ACTION_BOUNDS = [*JOINT_BOUNDS, (0.0, GRIPPER_MAX)]
PAD_THICKNESS = 0.008
HOME = (0.0, -0.30, 0.0, -2.35, 0.0, 2.05, 0.785)
# Opening between the pads against the actuator's own unit, measured on the model: the linkage is not linear.
GRIPPER_WIDTHS = (0.0, 0.0101, 0.0249, 0.0394, 0.0535, 0.0668, 0.0793, 0.085)
GRIPPER_CTRLS = (255, 220, 180, 140, 100, 60, 20, 0)

# Stiffness, damping, torque limit of each joint's position servo; the arm's weight is compensated, as on the real one.
SERVOS = [
    (4500, 250, 87),
    (4500, 250, 87),
    (3500, 200, 87),
    (3500, 200, 87),
    (2000, 60, 12),
    (2000, 60, 12),
    (2000, 60, 12),
]

SURFACES = {"standard": 1.0, "slippery": 0.05}  # sliding friction of table and cubes; the finger pads keep their own
INSTRUCTIONS = {
    "reach": "Reach the green ball with the gripper.",
    "push": "Push the red cube onto the green disc.",
    "lift": "Lift the red cube off the table and hold it.",
    "stack": "Stack the red cube on the blue cube and let go.",
}
CONDITIONS = seq.conditions(list(INSTRUCTIONS), range(20), variants={"surface": list(SURFACES)})
OUT_OF_SIGHT = (-1.5, 0.0, FLOOR_Z + CUBE_HALF)


# --- the scene -------------------------------------------------------------------------------------------------------


def _panda_file() -> str:
    """The Panda's model file. gym_hil is located, not imported: it is here for its files, without its dependencies."""
    found = importlib.util.find_spec("gym_hil")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("the Panda model comes from the package gym-hil: add it to the benchmark's image")
    return str(Path(found.submodule_search_locations[0], "assets", "panda.xml"))


def _look_at(position: tuple[float, ...], target: tuple[float, ...], up: tuple[float, ...]) -> np.ndarray:
    """Quaternion of a camera at `position` that looks at `target` (all in the parent's frame)."""
    import mujoco
    import numpy as np

    back = np.subtract(position, target)
    back /= np.linalg.norm(back)
    right = np.cross(up, back)
    right /= np.linalg.norm(right)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.column_stack([right, np.cross(back, right), back]).ravel())
    return quat


def _build_model() -> mujoco.MjModel:
    import mujoco

    spec = mujoco.MjSpec.from_file(_panda_file())
    spec.option.timestep = 1 / (CONTROL_HZ * SUBSTEPS)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10  # a grasp that does not creep, without noslip
    spec.option.noslip_iterations = 0
    _set_servos(spec)
    _set_look(spec)
    _add_furniture(spec)
    _add_objects(spec)
    _add_cameras(spec)
    return spec.compile()


def _set_servos(spec: mujoco.MjSpec) -> None:
    import mujoco

    for body in spec.bodies:
        if body.name != "world":
            body.gravcomp = 1
    for actuator, (stiffness, damping, torque) in zip(spec.actuators, SERVOS, strict=False):
        actuator.set_to_position(kp=stiffness, kv=damping)
        actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_FALSE
        actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        actuator.forcerange = [-torque, torque]


def _set_look(spec: mujoco.MjSpec) -> None:
    import mujoco

    spec.visual.headlight.ambient = [0.3, 0.3, 0.3]
    spec.visual.headlight.diffuse = [0.25, 0.25, 0.25]
    spec.visual.headlight.specular = [0.1, 0.1, 0.1]
    spec.visual.quality.shadowsize = 0  # the fast profile: shadow and antialiasing are most of a software-drawn frame
    spec.visual.quality.offsamples = 0
    spec.visual.global_.offwidth = spec.visual.global_.offheight = RECORD_SIZE
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.80, 0.86, 0.92],
        rgb2=[0.55, 0.62, 0.70],
        width=64,
        height=384,
    )
    world = spec.worldbody
    world.add_light(pos=[0.8, -0.8, 1.8], dir=[-0.3, 0.6, -1.6], diffuse=[0.5, 0.5, 0.5], specular=[0.2, 0.2, 0.2])
    world.add_light(pos=[0.8, 0.8, 1.8], dir=[-0.3, -0.6, -1.6], diffuse=[0.3, 0.3, 0.3], specular=[0.1, 0.1, 0.1])


def _add_furniture(spec: mujoco.MjSpec) -> None:
    import mujoco

    world, box = spec.worldbody, mujoco.mjtGeom.mjGEOM_BOX
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    world.add_geom(name="floor", type=plane, size=[4, 4, 0.1], pos=[0, 0, FLOOR_Z], rgba=[0.45, 0.47, 0.5, 1])
    world.add_geom(name="table", type=box, size=[0.55, 0.6, 0.02], pos=[0.35, 0, -0.02], rgba=[0.72, 0.60, 0.46, 1])
    leg_half = -(FLOOR_Z + 0.04) / 2
    for x in (-0.1, 0.8):
        for y in (-0.5, 0.5):
            place = [x, y, -0.04 - leg_half]
            world.add_geom(type=box, size=[0.03, 0.03, leg_half], pos=place, rgba=[0.35, 0.28, 0.22, 1])


def _add_objects(spec: mujoco.MjSpec) -> None:
    import mujoco

    world = spec.worldbody
    for name, colour in (("cube", [0.85, 0.15, 0.12, 1]), ("block", [0.13, 0.30, 0.80, 1])):
        body = world.add_body(name=name, pos=OUT_OF_SIGHT)
        body.add_freejoint(name=name)
        body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=[CUBE_HALF] * 3, mass=0.1, rgba=colour)
    for name, shape, size in (
        ("ball", mujoco.mjtGeom.mjGEOM_SPHERE, [0.022, 0, 0]),
        ("disc", mujoco.mjtGeom.mjGEOM_CYLINDER, [0.045, 0.001, 0]),
    ):
        marker = world.add_body(name=name, pos=OUT_OF_SIGHT, mocap=True)
        marker.add_geom(type=shape, size=size, contype=0, conaffinity=0, rgba=[0.15, 0.75, 0.25, 1])


def _add_cameras(spec: mujoco.MjSpec) -> None:
    eye, centre = (1.38, 0.70, 0.78), (0.32, 0.0, 0.24)
    spec.worldbody.add_camera(name="front", pos=eye, quat=_look_at(eye, centre, (0, 0, 1)), fovy=42)
    # In the gripper's frame z runs along the fingers, which open along y: from the side both and their gap are seen.
    eye, centre = (0.075, 0.0, 0.035), (0.0, 0.0, 0.165)
    spec.body("base").add_camera(name="wrist", pos=eye, quat=_look_at(eye, centre, (1, 0, 0)), fovy=75)


# --- where things start ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Start of one episode: (x, y, yaw) of each cube on the table, and the goal's position."""

    cubes: dict[str, tuple[float, float, float]]
    goal: tuple[float, float, float]


def _layout(task: str, seed: int) -> Layout:
    """The same for every variant, so that variants are compared on the same starts. Never a solved one."""
    import numpy as np

    rng = np.random.default_rng([list(INSTRUCTIONS).index(task), seed])
    if task == "reach":
        side = rng.choice([-1.0, 1.0])
        return Layout({}, (rng.uniform(0.35, 0.6), side * rng.uniform(0.12, 0.28), rng.uniform(0.12, 0.4)))
    x, y, yaw = rng.uniform(0.42, 0.58), rng.uniform(-0.18, 0.18), rng.uniform(-math.pi, math.pi)
    cubes = {"cube": (x, y, yaw)}
    if task == "lift":
        return Layout(cubes, (x, y, CUBE_HALF + 0.15))
    toward = math.atan2(-y, 0.5 - x) + rng.uniform(-0.9, 0.9)  # from the cube over the middle of the table
    away = rng.uniform(0.12, 0.18)
    x, y = x + away * math.cos(toward), y + away * math.sin(toward)
    if task == "push":
        return Layout(cubes, (x, y, CUBE_HALF))
    return Layout({**cubes, "block": (x, y, rng.uniform(-math.pi, math.pi))}, (x, y, 3 * CUBE_HALF))


# --- one episode -----------------------------------------------------------------------------------------------------


@dataclass
class Episode:
    """What `reset` returns: one running episode, with a physics state of its own.

    The model is the benchmark's and carries this episode's variant, so only the newest episode may be stepped.
    """

    task: str
    model: mujoco.MjModel
    data: mujoco.MjData
    draw: Callable[[mujoco.MjData, str, int], np.ndarray]
    start_goal: np.ndarray
    cubes: tuple[str, ...]  # those that are in this task's scene
    held: int = 0
    joint_travel: float = 0.0

    def observe(self) -> dict[str, Any]:
        """Both cameras' frames (224, 224, 3) uint8 RGB, joint angles (7,), opening (1,), poses of the things in play.

        A thing that is not in this task's scene stands out of sight and reports that place.
        """
        cube, block = self.data.body("cube"), self.data.body("block")
        return {
            "front_image": self.draw(self.data, "front", IMAGE_SIZE),
            "wrist_image": self.draw(self.data, "wrist", IMAGE_SIZE),
            "joint_positions": self.data.qpos[:7].copy(),
            "gripper": self.opening.reshape(1),
            "cube_pos": cube.xpos.copy(),
            "cube_quat": cube.xquat.copy(),
            "block_pos": block.xpos.copy(),
            "block_quat": block.xquat.copy(),
            "goal_pos": self.goal.copy(),
            "instruction": INSTRUCTIONS[self.task],
        }

    def step(self, action: Sequence[float]) -> None:
        """One control step with `action` (8,): seven joint targets, then the gripper's opening; held to the bounds."""
        import mujoco

        values = [min(max(float(value), low), high) for value, (low, high) in zip(action, ACTION_BOUNDS, strict=True)]
        if not all(map(math.isfinite, values)):
            raise ValueError(f"an action must be 8 finite numbers, got {list(action)}")
        before = self.data.qpos[:7].copy()
        self.data.ctrl[:7] = values[:7]
        self.data.ctrl[7] = _gripper_ctrl(values[7])
        mujoco.mj_step(self.model, self.data, nstep=SUBSTEPS)
        _refresh_poses(self.model, self.data)
        self.joint_travel += float(abs(self.data.qpos[:7] - before).sum())
        self.held = self.held + 1 if RULES[self.task](self) else 0

    def render(self, camera: str) -> np.ndarray:
        """A frame for a recording, (448, 448, 3) uint8 RGB."""
        return self.draw(self.data, camera, RECORD_SIZE)

    @property
    def pinch(self) -> np.ndarray:
        """The point between the finger tips."""
        return self.data.site("pinch").xpos

    @property
    def opening(self) -> np.ndarray:
        """Gap between the finger pads, as a scalar array."""
        left, right = self.data.geom("left_pad1"), self.data.geom("right_pad1")
        return (((left.xpos - right.xpos) ** 2).sum() ** 0.5 - PAD_THICKNESS).clip(0.0, GRIPPER_MAX)

    @property
    def goal(self) -> np.ndarray:
        """Where the gripper (reach) or the red cube's centre (else) has to be; for stack it goes with the blue cube."""
        if self.task != "stack":
            return self.start_goal
        top = self.data.body("block").xpos.copy()
        top[2] += 2 * CUBE_HALF
        return top

    @property
    def goal_distance(self) -> float:
        """Metres from the gripper (reach) or the red cube's centre (else) to the goal."""
        return math.dist(self.pinch if self.task == "reach" else self.data.body("cube").xpos, self.goal)

    @property
    def lost(self) -> bool:
        """A cube of this task has fallen off the table."""
        return any(self.data.body(name).xpos[2] < -0.05 for name in self.cubes)

    def at_rest(self, name: str) -> bool:
        """Whether the cube of this name moves slower than 2 cm/s."""
        return math.hypot(*self.data.joint(name).qvel[:3]) < 0.02


def _reached(episode: Episode) -> bool:
    return episode.goal_distance < 0.025


def _pushed(episode: Episode) -> bool:
    return episode.goal_distance < 0.03 and episode.at_rest("cube")


def _lifted(episode: Episode) -> bool:
    """Over 5 cm up and between the fingers: a cube knocked into the air is not lifted."""
    cube = episode.data.body("cube").xpos
    return cube[2] > CUBE_HALF + 0.05 and math.dist(cube, episode.pinch) < 0.03


def _stacked(episode: Episode) -> bool:
    """Red rests on blue, blue still on the table, and the hand has let go and gone."""
    cube, block = episode.data.body("cube").xpos, episode.data.body("block").xpos
    on_top = abs(cube[2] - block[2] - 2 * CUBE_HALF) < 0.005 and math.dist(cube[:2], block[:2]) < CUBE_HALF
    hand_gone = episode.opening > 0.06 and math.dist(cube, episode.pinch) > 0.05
    return on_top and hand_gone and abs(block[2] - CUBE_HALF) < 0.005 and episode.at_rest("cube")


RULES: dict[str, Callable[[Episode], bool]] = {"reach": _reached, "push": _pushed, "lift": _lifted, "stack": _stacked}


def _gripper_ctrl(opening: float) -> float:
    import numpy as np

    return float(np.interp(opening, GRIPPER_WIDTHS, GRIPPER_CTRLS))


def _refresh_poses(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Poses of the state just reached: mj_step leaves those of the state before its last substep."""
    import mujoco

    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)


# --- the benchmark ---------------------------------------------------------------------------------------------------


@seq.benchmark(
    name="panda-tabletop",
    gpu="cpu",
    cpu=2,
    image=(
        seq.Image.debian_slim()
        .uv_pip_install("mujoco==3.15.0", "numpy==2.4.6")
        .run_commands("uv pip install --no-deps gym-hil==0.1.14")
    ),
    conditions=CONDITIONS,
    max_steps=250,
    render=seq.Record("front", fps=CONTROL_HZ),
    action_contract=seq.ActionContract(
        robot="franka_panda",
        action_space="joint_absolute",
        action_dim=8,
        control_frequency_hz=CONTROL_HZ,
        bounds=ACTION_BOUNDS,
    ),
)
class PandaTabletop:
    """Four tasks, twenty starts each, on a standard and a slippery surface; success is read from the physics state.

    Action (8,): targets of joints 1 to 7 in radians, then the gripper's opening in metres (0 closed, 0.085 open).
    """

    @seq.setup
    def setup(self) -> None:
        """Compile the model, once; every episode uses it."""
        self.model = _build_model()
        self._renderers: dict[int, mujoco.Renderer] = {}

    @seq.reset
    def reset(self, seed: int, variant: seq.Condition) -> Episode:
        """A new episode; equal to the last bit for an equal condition, whatever ran before."""
        import mujoco
        import numpy as np

        self._set_friction(SURFACES[variant.variation_dict.get("surface", "standard")])
        start, data = _layout(variant.task, seed), mujoco.MjData(self.model)
        data.qpos[:7] = data.ctrl[:7] = HOME
        for name, (x, y, yaw) in start.cubes.items():
            data.joint(name).qpos = [x, y, CUBE_HALF, math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
        marker = {"reach": ("ball", start.goal), "push": ("disc", (*start.goal[:2], 0.001))}.get(variant.task)
        if marker is not None:
            data.mocap_pos[self.model.body(marker[0]).mocapid[0]] = marker[1]
        mujoco.mj_forward(self.model, data)
        return Episode(variant.task, self.model, data, self._draw, np.array(start.goal), tuple(start.cubes))

    @seq.check
    def check(self, env: Episode) -> seq.Step:
        """Success once the task's rule has held for half a second; the end, too, when a cube is lost."""
        success = env.held >= HOLD_STEPS
        metrics = {
            "success": float(success),
            "goal_distance_m": env.goal_distance,
            "joint_travel_rad": env.joint_travel,
        }
        return seq.Step(done=success or env.lost, terminated=success or env.lost, metrics=metrics)

    def _set_friction(self, sliding: float) -> None:
        for name in ("table", "cube", "block"):
            self.model.geom(name).friction[0] = sliding

    def _draw(self, data: mujoco.MjData, camera: str, size: int) -> np.ndarray:
        renderer = self._renderers.get(size) or self._make_renderer(size)
        renderer.update_scene(data, camera=camera)
        return renderer.render()

    def _make_renderer(self, size: int) -> mujoco.Renderer:
        """Made on the first frame, not in setup: whoever draws owns the GL context, and a run may draw nothing."""
        import mujoco

        renderer = self._renderers[size] = mujoco.Renderer(self.model, size, size)
        weakref.finalize(self, renderer.close)  # at the latest before the interpreter takes GL apart
        return renderer
