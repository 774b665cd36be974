"""From the call of `interrupt` to the last act that began after it (0: none did), and to `hold`.

Playing: at a random moment between two refills. Blocked: while the first chunk is being waited for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from bench.figures import spread
from bench.rows import Promise, Row
from bench.supports.children import Child
from bench.supports.rig import rig

STAGES: dict[str, tuple[float, tuple[float, float]]] = {
    # how long the policy thinks, and between which delays the interrupt comes, all in seconds
    "playing": (0.0, (0.05, 0.3)),
    "blocked": (0.4, (0.05, 0.3)),
}
PERIOD_MS = 20.0

PROMISES = tuple(Promise(f"ours, {stage}", "last_act_max_ms", at_most=PERIOD_MS) for stage in STAGES)


@dataclass(frozen=True)
class Size:
    """How many interrupts at each stage."""

    times: int = 30


FULL, TINY = Size(), Size(times=1)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:
    """One row for each client and stage."""
    chance = random.Random(seed)
    with rig() as made:
        clients = made.both("bench-0")
        told: dict[tuple[str, str], list[dict[str, float]]] = {
            (who, stage): [] for stage in STAGES for who in clients.drivers
        }
        for _ in range(size.times):
            for (who, stage), found in told.items():
                found.append(_one(clients.drivers[who], stage, chance))
    return [_row(f"{who}, {stage}", found) for (who, stage), found in told.items()] + clients.absent(*STAGES)


def _one(driver: Child, stage: str, chance: random.Random) -> Any:
    thinks_s, (soonest, latest) = STAGES[stage]
    delay_s = chance.uniform(soonest, latest)
    told = driver.ask(
        "interrupted", model="bench-0", size="15 kB", stage=stage, delay_s=delay_s, params={"wait_s": thinks_s}
    )
    # The worker's one copy still thinks about what was abandoned; the next run must not wait for it.
    driver.ask("acts", model="bench-0", size="15 kB", calls=1)
    return told


def _row(what: str, told: list[dict[str, float]]) -> Row:
    hold = spread([each["hold_ms"] for each in told], "ms")
    figures = {f"hold_{name}": value for name, value in hold.items()}
    return Row(what, {"last_act_max_ms": max(each["last_act_ms"] for each in told), **figures, "times": len(told)})
