"""Resident memory of our client and of the worker over many acts of a small observation.

`growth_mb` is the median of the last tenth less the median of the second tenth: the first one fills caches and pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psutil

from bench.rows import Promise, Row
from bench.supports.rig import rig

PROMISES = (
    Promise("our client", "growth_mb", at_most=2.0),
    Promise("the worker", "growth_mb", at_most=2.0),
)


@dataclass(frozen=True)
class Size:
    """How many acts, and how many looks at the memory meanwhile."""

    acts: int = 100_000
    looks: int = 100


FULL, TINY = Size(), Size(acts=40, looks=20)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is by chance
    """One row a process."""
    with rig() as made:
        child = made.ours("bench-0")
        watched = {"our client": child.process.pid, "the worker": made.workers[0].process.pid}
        processes = {what: psutil.Process(pid) for what, pid in watched.items()}
        seen: dict[str, list[float]] = {what: [] for what in watched}
        each = size.acts // size.looks
        for _ in range(size.looks):
            child.ask("acts", model="bench-0", size="3 kB", calls=each)
            for what, process in processes.items():
                seen[what].append(process.memory_info().rss / 1e6)
    acts = [each * (look + 1) for look in range(size.looks)]
    return [_row(what, acts, rss) for what, rss in seen.items()]


def _row(what: str, acts: Sequence[int], rss: Sequence[float]) -> Row:
    tenth = max(len(rss) // 10, 1)
    growth = float(np.median(rss[-tenth:]) - np.median(rss[tenth : 2 * tenth]))
    return Row(what, {"growth_mb": growth, "last_mb": rss[-1], "acts": acts[-1]}, {"acts": acts, "rss_mb": rss})
