"""Processes of a build end with their step, and with the platform."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from runner.images import BuildError
from runner.images.commands import run

pytestmark = pytest.mark.e2e

HANGS = ["/bin/sh", "-c", "sleep 600 & echo $!; wait"]


def test_a_command_past_its_limit_is_ended_with_its_children(tmp_path):
    """A step that hangs is killed as a group and named."""
    lines = []
    with pytest.raises(BuildError, match=r"took longer than 0\.5 s"):
        run(
            HANGS,
            label="x",
            env={},
            cwd=tmp_path,
            log=lines.append,
            limit_s=0.5,
        )
    assert not _lives(int(lines[1]))


def test_a_build_ends_with_the_platform_that_started_it(tmp_path):
    """A platform killed by signal 9 leaves no process of its build behind."""
    code = (
        "from pathlib import Path; from runner.images.commands import run;"
        "run(['/bin/sh', '-c', 'sleep 600 & echo $!; wait'], label='x', env={}, cwd=Path('.'),"
        " log=lambda line: print(line, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as platform:
        assert platform.stdout.readline() == "$ x\n"
        child = int(platform.stdout.readline())
        platform.kill()
    deadline = time.monotonic() + 10
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _lives(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
