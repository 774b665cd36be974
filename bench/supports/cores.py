"""This machine's cores, and keeping to some of them where the system can (Linux). It needs Python alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

CAN_HOLD = hasattr(os, "sched_setaffinity")
Cores = tuple[int, ...]


def here() -> Cores:
    """The logical processors that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0))) if CAN_HOLD else tuple(range(os.cpu_count() or 1))


def physical() -> Cores:
    """Of those, one of each core: two threads of one core are not twice as fast."""
    cores: dict[str, int] = {}
    for number in here():
        siblings = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.exists() else str(number), number)
    return tuple(cores.values())


@contextmanager
def held(cores: Iterable[int]) -> Iterator[None]:
    """The calling thread, and whatever it starts in the block, keep to these."""
    if not CAN_HOLD:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
