"""A whole platform in a home of its own, driven through the `seq` command, gone when the block ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

import sequence_ai
from bench.supports.cores import CAN_HOLD, Cores

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S, TAIL = 600, 4000


@dataclass(frozen=True)
class Platform:
    """Where it is and with which key."""

    home: Path
    url: str
    key: str

    def seq(self, *arguments: str) -> str:
        """Run one command of it to its end; what it printed. Raises RuntimeError with what it said where it failed."""
        return _seq(self.home, *arguments)

    def hold(self, cores: Cores) -> None:
        """All that runs of it, and what that will start, keeps to these cores from now on, where the system can."""
        if not CAN_HOLD:
            return
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if _belongs(process, str(self.home)):
                    for thread in process.threads():
                        with suppress(ProcessLookupError):
                            os.sched_setaffinity(thread.id, cores)

    def deploy(self, source: str) -> None:
        """Deploy the policy in this file's text."""
        with tempfile.TemporaryDirectory(prefix="seq-") as folder:
            file = Path(folder) / "policy.py"
            file.write_text(source, encoding="utf-8")
            self.seq("deploy", str(file))

    def connect(self, model: str) -> sequence_ai.Policy:
        """A robot's handle that waits without a word, for ten minutes at most."""
        return sequence_ai.connect(
            model,
            base_url=self.url,
            api_key=self.key,
            startup_timeout_s=LIMIT_S,
            on_queue=_quiet,
            on_warming=_quiet,
        )

    def get(self, path: str) -> httpx.Response:
        """One question to the gateway."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.get(self.url + path, headers=headers, timeout=60, trust_env=False)


@contextmanager
def running() -> Iterator[Platform]:
    """A fresh one."""
    home = Path(tempfile.mkdtemp(prefix="seq-bench-"))
    try:
        _seq(home, "up")
        url = json.loads((home / "platform.json").read_text(encoding="utf-8"))["url"]
        yield Platform(home, url, (home / "api_key").read_text(encoding="utf-8").strip())
    finally:
        _seq(home, "down")
        shutil.rmtree(home, ignore_errors=True)


def _seq(home: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SEQ_", "SEQUENCES_"))}
    done = subprocess.run(
        [sys.executable, "-m", "seq", *arguments],
        env={**environment, "SEQ_HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"`seq {' '.join(arguments)}` exited {done.returncode}:\n{done.stderr[-TAIL:]}")
    return done.stdout


def _belongs(process: psutil.Process, home: str) -> bool:
    return any(home in text for text in (*process.cmdline(), *process.environ().values()))


def _quiet(*_facts: object) -> None:
    """Nobody has to be told."""
