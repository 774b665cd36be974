"""The instance's end of an environment process: start it, talk to it with a limit, end it and all its children."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from runner.engine.env_process import EnvironmentStart
from runner.engine.link import Link, LinkClosedError, LinkTimeoutError
from seq.contract.internal import EpisodeOutcome

_STACK_WAIT_S = 1.0
_TAIL_BYTES = 4000


class EnvironmentDiedError(Exception):
    """The process ended by itself; the message names the signal or exit code. Its episodes may run again."""


class EnvironmentHungError(Exception):
    """The process did not answer in time and was ended; `stack` is where it stood."""

    def __init__(self, message: str, stack: str) -> None:
        super().__init__(message)
        self.stack = stack


class EnvironmentBrokenError(Exception):
    """The benchmark cannot be set up; `traceback` is the author's."""

    def __init__(self, message: str, traceback: str | None) -> None:
        super().__init__(message)
        self.traceback = traceback


@dataclass(frozen=True)
class Reply:
    """What slots ask, and which are over with what outcome."""

    asks: dict[int, dict[str, Any]]
    ended: dict[int, EpisodeOutcome]


class Environment:
    """One environment process. Not for two threads at once, but for `kill`."""

    def __init__(self, python: str, env: dict[str, str], log: Path) -> None:
        ours, theirs = socket.socketpair()
        leash_read, self._leash = os.pipe()
        self._log = log
        self._ending = threading.Lock()
        self._ended = False
        self._link = Link(ours)
        with log.open("ab") as output, theirs:
            self._process = subprocess.Popen(
                [python, "-m", "runner.engine.env_process", str(theirs.fileno()), str(leash_read)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(), leash_read),
                start_new_session=True,
            )
        os.close(leash_read)

    @property
    def pid(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def start(self, start: EnvironmentStart, limit_s: float) -> float:
        """Set the benchmark up; the seconds it took. Raises the three errors above."""
        answer = self._ask({"start": start.wire()}, "setup", limit_s)
        if "error" in answer:
            raise EnvironmentBrokenError(answer["error"], answer["traceback"])
        return float(answer["ready"])

    def call(self, what: str, slots: dict[int, Any], limit_s: float) -> Reply:
        """`reset`, `play` or `fail` the given slots; raises EnvironmentDiedError or EnvironmentHungError."""
        answer = self._ask({what: {str(slot): value for slot, value in slots.items()}}, what, limit_s)
        ended = {int(slot): EpisodeOutcome.model_validate(body) for slot, body in answer["ended"].items()}
        return Reply({int(slot): body for slot, body in answer["asks"].items()}, ended)

    def kill(self) -> None:
        """End the process and its children; safe to call again, and from any thread."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            children = _children(self._process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for child in children:  # those that took a session of their own
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            self._process.wait()
            self._link.close()
            os.close(self._leash)

    def _ask(self, message: dict[str, Any], what: str, limit_s: float) -> dict[str, Any]:
        try:
            self._link.send(message)
            return self._link.receive(limit_s)
        except LinkClosedError as gone:
            raise EnvironmentDiedError(self._death()) from gone
        except LinkTimeoutError as late:
            stack = self._stack()
            self.kill()
            raise EnvironmentHungError(
                f"the benchmark's {what} did not return within {limit_s:g} s and was ended", stack
            ) from late

    def _death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STACK_WAIT_S)
        self.kill()
        code = self._process.returncode
        how = f"was killed by signal {-code} ({_signal_name(-code)})" if code < 0 else f"ended with exit code {code}"
        tail = self._tail()
        return f"the environment's process {how}; {f'the end of its output: {tail}' if tail else 'it printed nothing'}"

    def _stack(self) -> str:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(_STACK_WAIT_S)
        return self._tail()

    def _tail(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace").strip()


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in signal.valid_signals() else "unknown"


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
