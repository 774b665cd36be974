"""From one robot's `close` to the next robot's first answer, with all the others in line: one worker, one slot."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.figures import spread
from bench.rows import Promise, Row
from bench.supports.platform import Platform, running

WHAT = "close to the next robot's first answer"
PROMISES = (Promise(WHAT, "p50_ms", at_most=100),)

POLICY = """
import seq


@seq.policy(name="one-slot", gpu="cpu", max_gpus=1, min_workers=1, queue_timeout_s=600)
class OneSlot(seq.Policy):
    \"\"\"Says what it is told.\"\"\"

    @seq.infer
    def infer(self, inputs):
        \"\"\"The same again.\"\"\"
        return inputs
"""


@dataclass(frozen=True)
class Size:
    """Robots in line, and how long each drives, in s."""

    robots: int = 40
    drive_s: float = 0.5


FULL, TINY = Size(), Size(robots=3, drive_s=0.1)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is drawn by chance
    """One row."""
    with running() as platform:
        platform.deploy(POLICY)
        begun, closed = _turns(platform, size)
    gaps = [(later - earlier) * 1000 for earlier, later in zip(sorted(closed), sorted(begun)[1:], strict=False)]
    return [Row(WHAT, {**spread(gaps, "ms"), "handovers": len(gaps)})]


def _turns(platform: Platform, size: Size) -> tuple[list[float], list[float]]:
    """When each robot was answered first, and when it closed."""
    begun: list[float] = []
    closed: list[float] = []
    everybody = threading.Barrier(size.robots)

    def drive(_number: int) -> None:
        everybody.wait()
        with platform.connect("one-slot") as policy:
            policy.predict({"x": 1})
            begun.append(time.monotonic())
            time.sleep(size.drive_s)
            closed.append(time.monotonic())

    with ThreadPoolExecutor(size.robots) as robots:
        list(robots.map(drive, range(size.robots)))
    return begun, closed
