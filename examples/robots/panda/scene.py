"""The world of the simulated Panda: the scene, tasks and rules of a benchmark's file, stepped at 1 kHz."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from cameras import Shot
from controller import Vector

if TYPE_CHECKING:
    import mujoco

TIMESTEP_S = 0.001
BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks/panda-tabletop/benchmark.py"


def load_benchmark(path: Path) -> ModuleType:
    """The benchmark's file as a module."""
    if not path.is_file():
        raise FileNotFoundError(f"no benchmark at {path}: `seq init panda-tabletop` writes one, --benchmark names it")
    spec = importlib.util.spec_from_file_location("panda_tabletop", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tasks(path: Path) -> list[str]:
    """The tasks of a benchmark's file."""
    return list(load_benchmark(path).INSTRUCTIONS)


class Scene:
    """One episode of the benchmark. What counts as success is the benchmark's rule on the physics state."""

    def __init__(self, path: Path = BENCHMARK) -> None:
        self._rules = load_benchmark(path)
        self._benchmark = self._rules.PandaTabletop()
        self._benchmark.setup()
        self.model: mujoco.MjModel = self._benchmark.model
        self.model.opt.timestep = TIMESTEP_S
        self.bounds: list[tuple[float, float]] = self._rules.ACTION_BOUNDS
        self.period_s = 1 / self._rules.CONTROL_HZ
        self._check_every = round(self.period_s / TIMESTEP_S)
        self.tasks: list[str] = list(self._rules.INSTRUCTIONS)

    def begin(self, task: str, seed: int) -> None:
        """Put everything where this task starts from this seed."""
        found = [one for one in self._rules.CONDITIONS if (one.task, one.seed) == (task, seed)]
        if not found:
            raise ValueError(f"no task {task!r} with seed {seed}: there are {', '.join(self.tasks)}, seeds 0 to 19")
        self._episode = self._benchmark.reset(seed, found[0])
        self._episode.draw = self._shown
        self._frames: dict[str, str] = {}
        self.steps = 0
        self.success = False

    @property
    def data(self) -> mujoco.MjData:
        """The physics state."""
        return self._episode.data

    @property
    def instruction(self) -> str:
        """The task in a sentence."""
        return str(self._rules.INSTRUCTIONS[self._episode.task])

    @property
    def opening(self) -> float:
        """Gap between the finger pads, in metres."""
        return float(self._episode.opening)

    @property
    def lost(self) -> bool:
        """A cube has fallen off the table: the task cannot be done any more."""
        return bool(self._episode.lost)

    def step(self, setpoint: Vector) -> None:
        """One millisecond with the motors told to be at `setpoint` (8,). A success, once reached, stays one."""
        import mujoco  # noqa: PLC0415 - the driver reads this file's constants without a simulator

        self.data.ctrl[:7] = setpoint[:7]
        self.data.ctrl[7] = np.interp(setpoint[7], self._rules.GRIPPER_WIDTHS, self._rules.GRIPPER_CTRLS)
        mujoco.mj_step(self.model, self.data)
        self.steps += 1
        if self.steps % self._check_every == 0:
            mujoco.mj_kinematics(self.model, self.data)
            self._episode.held = self._episode.held + 1 if self._rules.RULES[self._episode.task](self._episode) else 0
            self.success |= self._episode.held >= self._rules.HOLD_STEPS

    def observe(self, shot: Shot) -> dict[str, Any]:
        """What the benchmark shows a policy, ready to be sent; frames are those of `shot`."""
        import mujoco  # noqa: PLC0415 - as above

        mujoco.mj_kinematics(self.model, self.data)
        self._frames = shot.frames
        seen = self._episode.observe()
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in seen.items()}

    def _shown(self, _data: mujoco.MjData, camera: str, _size: int) -> str:
        return self._frames[camera]
