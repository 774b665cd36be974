"""How far the time between two acts is from the control period, at 50 and at 15 Hz, while chunks of 16 are prefetched.

The policy thinks for 20 ms. The bare loop only sleeps to the next tick: what the machine itself can do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.figures import spread
from bench.rows import Promise, Row
from bench.supports.rig import Clients, rig

RATES_HZ = (50, 15)
FAST, SLOW = "bench-0", "bench-slow"  # two names of one worker: a handle plays at one rate
MODELS = dict(zip(RATES_HZ, (FAST, SLOW), strict=True))
THINKS_S = 0.02
PROMISES = (Promise("ours, 50 Hz", "p99_ms", at_most=2.0),)


@dataclass(frozen=True)
class Size:
    """How many runs of each, taken in turn, and how long one is."""

    rounds: int = 3
    seconds: float = 4.0


FULL, TINY = Size(), Size(rounds=1, seconds=0.4)

Play = Callable[[int, int], list[float]]


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is by chance
    """One row for each client and rate."""
    with rig() as made:
        made.gateway.answers[SLOW] = made.gateway.answers[FAST]
        clients = {hz: made.both(model, control_hz=float(hz)) for hz, model in MODELS.items()}
        players = {who: _player(clients, who) for who in clients[RATES_HZ[0]].drivers} | {"bare sleep": _bare}
        errors: dict[tuple[str, int], list[float]] = {(who, hz): [] for hz in RATES_HZ for who in players}
        for _ in range(size.rounds):
            for who, hz in errors:
                errors[who, hz] += _errors_ms(players[who](hz, round(size.seconds * hz)), hz)
    rows = [
        Row(f"{who}, {hz} Hz", {**spread(found, "ms"), "max_ms": max(found), "periods": len(found)})
        for (who, hz), found in errors.items()
    ]
    return rows + clients[RATES_HZ[0]].absent(*(f"{hz} Hz" for hz in RATES_HZ))


def _player(clients: dict[int, Clients], who: str) -> Play:
    def play(hz: int, count: int) -> list[float]:
        driver, params = clients[hz].drivers[who], {"wait_s": THINKS_S}
        return list(driver.ask("run", model=MODELS[hz], size="15 kB", max_actions=count, params=params)["act_s"])

    return play


def _bare(hz: int, count: int) -> list[float]:
    begun = time.perf_counter()
    at = []
    for tick in range(count):
        time.sleep(max(begun + tick / hz - time.perf_counter(), 0.0))
        at.append(time.perf_counter())
    return at


def _errors_ms(at: list[float], hz: int) -> list[float]:
    errors: list[float] = (np.abs(np.diff(at) - 1 / hz) * 1000).tolist()
    return errors
