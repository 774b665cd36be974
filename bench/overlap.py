"""Underruns, and the share of time the arm moves, as the round trip grows from 0.1 to 1.2 of a chunk.

Chunks of 16 rows at 50 Hz (0.32 s). The share is what the acts' own times say: the periods played over the time from
the first act to the last. Past 1.0 no client can keep an arm moving with one request at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.rows import Promise, Row
from bench.supports.children import Child
from bench.supports.policy.policy import HZ, ROWS
from bench.supports.rig import rig

CHUNK_S = ROWS / HZ
HELD = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
SHARES = (*HELD, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)

PROMISES = tuple(
    promise
    for share in HELD
    for promise in (
        Promise(f"ours, {share:g} of a chunk", "underruns", at_most=0),
        Promise(f"ours, {share:g} of a chunk", "moving", at_least=0.99),
    )
)


@dataclass(frozen=True)
class Size:
    """Which round trips, and how many chunks are played at each."""

    shares: tuple[float, ...] = SHARES
    chunks: int = 10


FULL, TINY = Size(), Size(shares=(0.1, 1.2), chunks=3)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is by chance
    """One row for each client and round trip, the clients in turn."""
    with rig() as made:
        clients = made.both("bench-0")
        rows = [
            _row(who, share, driver, size.chunks) for share in size.shares for who, driver in clients.drivers.items()
        ]
    return rows + clients.absent(*(f"{share:g} of a chunk" for share in size.shares))


def _row(who: str, share: float, driver: Child, chunks: int) -> Row:
    params = {"wait_s": round(share * CHUNK_S, 4)}
    told = driver.ask("run", model="bench-0", size="15 kB", max_actions=chunks * ROWS, params=params)
    at = told["act_s"]
    moving = (len(at) - 1) / HZ / (at[-1] - at[0])
    figures = {"moving": min(moving, 1.0), "underruns": told["underruns"], "underrun_s": told["underrun_s"]}
    return Row(f"{who}, {share:g} of a chunk", figures)
