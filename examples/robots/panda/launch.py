"""Starting the simulated robot in a process of its own, and ending it with the one who started it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from robot import Robot
from wire import Line

SIMULATOR = Path(__file__).with_name("simulator.py")


class NotStartedError(RuntimeError):
    """There is no simulator; what it said itself stands on standard error."""


@dataclass(frozen=True)
class Started:
    """A simulator that listens, and the log it writes."""

    port: int
    log: Path
    process: subprocess.Popen[str]

    def robot(self) -> Robot:
        """A line of its own to the robot."""
        return Robot(Line("127.0.0.1", self.port))


@contextmanager
def simulator(log: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Started]:
    """A simulated robot until the block ends, with `simulator.py`'s options. Raises NotStartedError if it ends at once.

    It lives on a pipe to this process, so it ends with it, however that ends.
    """
    process = subprocess.Popen(
        [sys.executable, SIMULATOR, "--log", log, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ if env is None else env),
    )
    try:
        yield Started(_port(process), log, process)
    finally:
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        process.stdout.close()


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    said = process.stdout.readline()
    if not said:
        raise NotStartedError(
            f"the simulator ended with {process.wait()} before it listened: what it said stands above"
        )
    return int(json.loads(said)["port"])
