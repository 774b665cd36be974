"""Whole platforms with real processes, each with a home of its own, driven through the `seq` command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
CONTENT = {
    "panda-tabletop": ROOT / "benchmarks/panda-tabletop/benchmark.py",
    "panda-expert": ROOT / "examples/policies/panda-expert/policy.py",
    "panda-still": ROOT / "examples/policies/panda-still/policy.py",
    "panda-random": ROOT / "examples/policies/panda-random/policy.py",
    "panda-joints": ROOT / "adapters/panda-joints/adapter.py",
    "toy-policy": ROOT / "examples/policies/toy-policy/policy.py",
    "toy-benchmark": ROOT / "benchmarks/toy-benchmark/benchmark.py",
    "toy-adapter": ROOT / "adapters/toy-adapter/adapter.py",
}


@dataclass(frozen=True)
class Platform:
    """A running platform and the command line of its owner."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        """A user's environment: nothing configured but the home."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SEQ_", "SEQUENCES_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
        return {**clean, "SEQ_HOME": str(self.home), "PATH": path}

    def run(self, *args: str | Path, cwd: Path | None = None, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run `seq` and return what happened."""
        command = [sys.executable, "-m", "seq", *map(str, args)]
        return subprocess.run(
            command, env=self.env, cwd=cwd or self.home, capture_output=True, text=True, timeout=timeout, check=False
        )

    def seq(self, *args: str | Path, exits: int = 0, cwd: Path | None = None, timeout: float = 600) -> str:
        """Run `seq`, hold it to its exit code, and return its standard output."""
        done = self.run(*args, cwd=cwd, timeout=timeout)
        assert done.returncode == exits, f"{args} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback (most recent call last)" not in done.stderr, done.stderr
        return done.stdout

    def json(self, *args: str | Path) -> Any:
        """Run `seq --json` and parse it."""
        return json.loads(self.seq("--json", *args))

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Run `seq` in the background."""
        command = [sys.executable, "-m", "seq", *args]
        return subprocess.Popen(
            command, env=self.env, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def deploy(self, *names: str) -> None:
        """Deploy shipped content by name."""
        for name in names:
            self.seq("deploy", CONTENT[name], timeout=900)

    @property
    def address(self) -> dict[str, Any]:
        """What the platform wrote of itself."""
        return json.loads((self.home / "platform.json").read_text())

    @property
    def key(self) -> str:
        """The first account's key."""
        return (self.home / "api_key").read_text().strip()

    def api(self, method: str, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        """One call to the gateway, with the owner's key or another."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.request(
            method, f"{self.address['url']}{path}", headers=headers, timeout=60, trust_env=False, **options
        )

    def status(self) -> dict[str, Any]:
        """What runs."""
        return self.api("GET", "/v1/status").json()

    def processes(self) -> list[psutil.Process]:
        """Every process on this machine that belongs to this home: it names the home in its command or environment."""
        return [process for process in psutil.process_iter() if _belongs(process, str(self.home))]


def _belongs(process: psutil.Process, home: str) -> bool:
    try:
        mine = home in " ".join(process.cmdline()) or any(home in value for value in process.environ().values())
        return mine and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def lives(pid: int) -> bool:
    """Whether a process runs; one that ended but was not reaped by its parent does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(what: Callable[[], Any], limit_s: float = 120, every_s: float = 0.2) -> Any:
    """The first truthy value of `what`, within a deadline that only a broken platform reaches."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = what()
        if value:
            return value
        time.sleep(every_s)
    raise AssertionError(f"waited {limit_s} s in vain")


def eval_id_of(output: str) -> str:
    """The id that `seq eval run` printed."""
    found = re.search(r"\b[0-9a-f]{32}\b", output)
    assert found, output
    return found.group()
