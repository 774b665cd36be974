"""Environments of other clients' own, made once with uv under build/bench and used again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build" / "bench"
MAKE_LIMIT_S = 300


class NotMadeError(Exception):
    """An environment that cannot be had here; the message is the reason, fit for a table."""


@dataclass(frozen=True)
class Pins:
    """What is installed: `alone` without what it asks for, `packages` with it."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


def published() -> Pins:
    """The published client, on the very HTTP parts that ours runs on."""
    shared = tuple(f"{part}=={metadata.version(part)}" for part in ("httpx", "httpcore", "h11", "anyio"))
    return Pins(("sequence-ai==0.33.69", "sequence-base==0.4.11", "pillow", *shared))


OPENPI = Pins(("dm-tree", "msgpack", "websockets", "pillow", "typing_extensions", "numpy"), ("openpi-client==0.1.2",))


def python_of(name: str, pins: Pins) -> str:
    """The Python of the environment `name`, of the version that runs this. Raises NotMadeError."""
    folder = BUILD / name
    python, mark = folder / "bin" / "python", folder / "made"
    wanted = f"{sys.version}\n{pins}"
    if not (mark.exists() and mark.read_text() == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _uv("venv", "--python", sys.executable, str(folder))
        for flags, packages in (((), pins.packages), (("--no-deps",), pins.alone)):
            if packages:
                _uv("pip", "install", "--python", str(python), *flags, *packages)
        mark.write_text(wanted)
    return str(python)


def _uv(*arguments: str) -> None:
    command = [str(Path(sys.executable).parent / "uv"), "--quiet", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise NotMadeError(f"its environment could not be made: {failed}") from failed
    if done.returncode:
        told = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise NotMadeError(f"its environment could not be made: {told[0] if told else f'uv exited {done.returncode}'}")
