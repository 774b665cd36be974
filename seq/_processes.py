"""Processes by pid, told apart from a later process that got the same number by the time they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

# The boot time that a start is counted from is rounded, and differs a little between two readings.
_SAME_START_S = 2.0


def lives(pid: int, started: float) -> bool:
    """Whether the process `pid` that started at `started` (epoch seconds) still runs; a zombie does not."""
    at = start_time(pid)
    return at is not None and abs(at - started) <= _SAME_START_S


def start_time(pid: int) -> float | None:
    """When `pid` started, in epoch seconds; None when there is no such process or it has ended."""
    return _linux_start(pid) if sys.platform == "linux" else _other_start(pid)


def _linux_start(pid: int) -> float | None:
    fields = _linux_stat(pid)
    return None if fields is None else _boot_time() + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _linux_stat(pid: int) -> list[str] | None:
    """What follows the name in /proc/PID/stat, the state first; None when it has ended."""
    # The name, in parentheses, may hold anything: what counts comes after the last one.
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields if fields and fields[0] not in ("Z", "X") else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _boot_time() -> float:
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise OSError("/proc/stat has no btime line")


def _other_start(pid: int) -> float | None:
    shown = _ps("-o", "stat=,lstart=", "-p", str(pid)).strip()
    state, _, started = shown.partition(" ")
    if not started or state.startswith("Z"):
        return None
    return datetime.strptime(started.strip(), "%a %b %d %H:%M:%S %Y").astimezone().timestamp()


def end_process(pid: int, signum: signal.Signals) -> None:
    """Signal one process; that it has ended meanwhile is fine."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def _ps(*arguments: str) -> str:
    # LC_ALL: the month and day names are parsed.
    return subprocess.run(
        ["ps", *arguments], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    ).stdout
