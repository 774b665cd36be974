"""32 robots at once on 32 slots, all on this one machine: a worker process for each, since a worker has one slot today.

Each robot is a process of its own that plays chunks of 16 rows at 50 Hz from a policy that thinks for 20 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.figures import spread
from bench.rows import Promise, Row
from bench.supports.policy.policy import HZ
from bench.supports.rig import rig

PROMISES: tuple[Promise, ...] = ()


@dataclass(frozen=True)
class Size:
    """How many robots, and for how long."""

    robots: int = 32
    seconds: float = 10.0


FULL, TINY = Size(), Size(robots=2, seconds=0.5)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is by chance
    """One row for all of them."""
    with rig(size.robots) as made:
        models = [worker.name for worker in made.workers]
        robots = {model: made.ours(model) for model in models}
        for model, robot in robots.items():
            robot.ask("acts", model=model, size="15 kB", calls=1)
        for model, robot in robots.items():
            count = round(size.seconds * HZ)
            robot.tell("run", model=model, size="15 kB", max_actions=count, params={"wait_s": 0.02})
        told = [robot.answer() for robot in robots.values()]
    errors = [(np.abs(np.diff(each["act_s"]) - 1 / HZ) * 1000).tolist() for each in told]
    moving = [(len(each["act_s"]) - 1) / HZ / (each["act_s"][-1] - each["act_s"][0]) for each in told]
    figures = {
        "moving_least": min(*moving, 1.0),
        "underruns": sum(each["underruns"] for each in told),
        **{f"period_{name}": value for name, value in spread(np.concatenate(errors).tolist(), "ms").items()},
        "acts": sum(len(each["act_s"]) for each in told),
    }
    each_p99 = sorted(float(np.percentile(found, 99)) for found in errors)
    series: dict[str, Sequence[float]] = {"robot": list(range(1, size.robots + 1)), "period_p99_ms": each_p99}
    return [Row(f"ours, {size.robots} robots at 50 Hz", figures, series)]
