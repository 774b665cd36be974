"""The instance's end of an environment process: start it, talk to it, watch it, end it and all its children."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from runner.engine.env_process import EnvironmentStart
from runner.engine.link import Link, LinkClosedError
from runner.engine.progress import Progress, Standing
from seq.contract.internal import OUTPUT_FOLLOWS, LeasedEpisode

_STACK_WAIT_S = 1.0
_TAIL_BYTES = 4000
LOG_BYTES = 32 << 20


class EnvironmentDiedError(Exception):
    """The process ended by itself; the message names the signal or exit code. Its episodes may run again."""


class EnvironmentBrokenError(Exception):
    """The benchmark cannot be set up; `traceback` is the author's."""

    def __init__(self, message: str, traceback: str | None) -> None:
        super().__init__(message)
        self.traceback = traceback


class Environment:
    """One environment process. Not for two threads at once, but for `kill`."""

    def __init__(self, python: str, env: dict[str, str], log: Path, slots: int) -> None:
        link, theirs = socket.socketpair()
        self._hand, taken = socket.socketpair()
        leash_read, self._leash = os.pipe()
        self._progress = Progress.create(slots)
        self._log = log
        self._ending = threading.Lock()
        self._ended = False
        self._socket = link
        self._link = Link(link)
        self.begun = time.monotonic()
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.unlink()  # a benchmark that prints without end must not fill the disk, process after process
        descriptors = (theirs.fileno(), taken.fileno(), self._progress.descriptor, leash_read)
        with log.open("ab") as output, theirs, taken:
            self._process = subprocess.Popen(
                [python, "-m", "runner.engine.env_process", *map(str, descriptors)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=descriptors,
                start_new_session=True,
            )
        os.close(leash_read)

    @property
    def pid(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def start(self, start: EnvironmentStart) -> None:
        """Tell it what to set up; it answers `ready`, or `error`. Raises EnvironmentDiedError."""
        self._send({"start": start.wire()})

    def play(self, episodes: list[LeasedEpisode]) -> None:
        """Give it episodes to play next. Raises EnvironmentDiedError."""
        self._send({"episodes": [episode.wire() for episode in episodes]})

    def over(self) -> None:
        """No episode is left for it. Raises EnvironmentDiedError."""
        self._send({"over": True})

    def hand(self, lines: list[socket.socket]) -> None:
        """Give it the lines it asked for; ours are closed. Raises EnvironmentDiedError."""
        try:
            self._send({"lines": len(lines)})
            socket.send_fds(self._hand, [b"\0"], [line.fileno() for line in lines])
        except OSError as gone:
            raise EnvironmentDiedError(self._death()) from gone
        finally:
            for line in lines:
                line.close()

    def refuse(self, why: str) -> None:
        """There is no line to be had. Raises EnvironmentDiedError."""
        self._send({"no_line": why})

    def hear(self, limit_s: float) -> dict[str, Any] | None:
        """What it says next, None where it says nothing for so long. Raises EnvironmentDiedError."""
        try:
            if not select.select([self._socket], [], [], limit_s)[0]:
                return None
            return self._link.receive()
        except (LinkClosedError, OSError, ValueError) as gone:
            raise EnvironmentDiedError(self._death()) from gone

    def standing(self) -> Standing:
        """Where it stands now."""
        return self._progress.read()

    def stack(self) -> str:
        """Where each of its threads is, as the end of its output has it a moment later."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(_STACK_WAIT_S)
        return self._tail()

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
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # whoever waits to hear it, hears that
            self._link.close()
            self._hand.close()
            self._progress.close()
            os.close(self._leash)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._link.send(message)
        except LinkClosedError as gone:
            raise EnvironmentDiedError(self._death()) from gone

    def _death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STACK_WAIT_S)
        tail = self._tail()
        self.kill()
        code = self._process.returncode
        how = f"was killed by signal {-code} ({_signal_name(-code)})" if code < 0 else f"ended with exit code {code}"
        return f"the environment's process {how}{OUTPUT_FOLLOWS + tail if tail else '; it printed nothing'}"

    def _tail(self) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in signal.valid_signals() else "unknown"


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
