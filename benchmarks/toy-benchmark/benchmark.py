"""toy-benchmark: a point on a line is to be moved to a goal. The smallest benchmark that scores something."""

from __future__ import annotations

import random
from collections.abc import Sequence

import seq

MAX_STEP = 0.05  # of the point in one control step, metres
TASKS = {"left": (-0.45, -0.15), "right": (0.15, 0.45), "far": (0.7, 0.95)}  # where the goal may lie, metres


class Line:
    """One episode: the point starts near 0, the goal lies where the task says."""

    def __init__(self, task: str, seed: int) -> None:
        chance = random.Random(f"{task} {seed}")  # noqa: S311 - starts, not secrets
        self.position = chance.uniform(-0.05, 0.05)
        self.goal = chance.uniform(*TASKS[task])
        self.travelled = 0.0

    def observe(self) -> dict[str, list[float]]:
        """Positions in metres, one number each."""
        return {"arm_x": [self.position], "goal_x": [self.goal]}

    def step(self, action: Sequence[float]) -> None:
        """Move by `action` (1,), in metres; the line's motor does at most 0.05 m in a step."""
        move = min(max(float(action[0]), -MAX_STEP), MAX_STEP)
        self.position += move
        self.travelled += abs(move)


@seq.benchmark(
    name="toy-benchmark",
    gpu="cpu",
    cpu=4,
    conditions=seq.conditions(list(TASKS), range(8)),
    max_steps=40,
    action_contract=seq.ActionContract(
        robot="toy_line",
        action_space="ee_delta",
        action_dim=1,
        control_frequency_hz=10,
        bounds=[(-MAX_STEP, MAX_STEP)],
    ),
)
class ToyBenchmark(seq.Benchmark):
    """Three tasks, eight starts each; success is read from the point's position, never from the policy."""

    @seq.setup
    def setup(self, *, tolerance: float = 0.02) -> None:
        """`tolerance`: how near to the goal is there, in metres."""
        self.tolerance = tolerance

    @seq.reset
    def reset(self, seed: int, variant: seq.Condition) -> Line:
        """A fresh line; the same task and seed always start alike."""
        return Line(variant.task, seed)

    @seq.check
    def check(self, env: Line) -> seq.Step:
        """Over once the point is at the goal."""
        distance = abs(env.goal - env.position)
        success = distance <= self.tolerance
        metrics = {"success": success, "distance_m": distance, "travelled_m": env.travelled}
        return seq.Step(done=success, terminated=success, metrics=metrics)
