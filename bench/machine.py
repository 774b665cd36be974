"""Where and with what something was measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

import sequence_ai

PARTS = ("httpx", "httpcore", "h11", "msgpack", "uvicorn", "uvloop", "httptools", "starlette", "mujoco", "numpy")


@dataclass(frozen=True)
class Machine:
    """What it is, and how busy it was (the load of the last minute) before anything was run."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    load_1m: float

    def __str__(self) -> str:
        busy = ": busy, so times say little, and ratios more" if self.load_1m > self.cores / 2 else ""
        return f"{self.cpu}, {self.cores} cores, load {self.load_1m:g} before the run{busy}"


def machine() -> Machine:
    """This one, now."""
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        system=platform.platform(),
        load_1m=round(os.getloadavg()[0], 2),
    )


def versions() -> dict[str, str]:
    """Python, this project and the parts an act passes through."""
    found = {"python": platform.python_version(), "sequence_ai": sequence_ai.__version__}
    for part in PARTS:
        try:
            found[part] = metadata.version(part)
        except metadata.PackageNotFoundError:
            found[part] = "not installed"
    return found


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    named = (line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name"))
    return next(named, platform.processor())
