"""The two things that live in the cluster under a name. Each is one process that ends with its work, or with its head.

They run inside Ray's worker processes but import no Ray; `runner.cluster.ray` makes actors of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from typing import NoReturn

import psutil

from runner.cluster.base import Command, EngineRun

GRACE_S = 35.0
EXIT_POST_LIMIT_S = 3.0
PARENT_CHECK_S = 0.5
UNUSED_LIMIT_S = 20.0
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
ENGINE = "runner.engine.instance"


class TakenError(Exception):
    """The host runs something already."""


class _Host:
    """What both kinds do while there is no work for them yet: they end unless they get some, or are told to wait."""

    def __init__(self) -> None:
        self._unused = _leave_if_unused()
        _watch_parent()
        self._runs: str | None = None
        self._beginning = threading.Lock()

    def stand_by(self) -> None:
        """Wait for work for as long as that takes."""
        self._unused.cancel()

    def standing(self) -> tuple[str, str | None]:
        """Its kind, and the name of what it runs."""
        return type(self).__name__, self._runs

    def _begin(self, name: str) -> None:
        """Run this and nothing else from now on. Raises TakenError."""
        with self._beginning:
            if self._runs is not None:
                raise TakenError(f"it runs {self._runs}")
            self._runs = name
        self._unused.cancel()


class ProcessHost(_Host):
    """Starts a command in a session of its own and dies with it; its death closes the command's standard input."""

    def __init__(self) -> None:
        super().__init__()
        self._child: subprocess.Popen[bytes] | None = None
        self._told_to_end = False

    def start(self, command: Command) -> tuple[int, int]:
        """Start the command: this process's pid and the command's. Raises OSError when it cannot be started."""
        self._begin(command.name)
        Path(command.log_path).parent.mkdir(parents=True, exist_ok=True)
        with Path(command.log_path).open("ab") as log:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=command.cwd,
                env=command.env,
                start_new_session=True,
            )
        self._child = child
        _first_line(child, command.stdin)
        threading.Thread(target=self._attend, args=(child, command), daemon=True).start()
        return os.getpid(), child.pid

    def free_ports(self, address: str, count: int) -> list[int]:
        """Ports of this machine that nobody listens on now, all different."""
        with contextlib.ExitStack() as held:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            taken = [held.enter_context(socket.socket(family)) for _ in range(count)]
            for one in taken:
                one.bind((address, 0))
            return [int(one.getsockname()[1]) for one in taken]

    def placed(self) -> tuple[int, int | None]:
        """This process's pid and the command's."""
        return os.getpid(), self._child.pid if self._child else None

    def end(self, *, at_once: bool = False) -> None:
        """Ask the command to end and return; past GRACE_S, or `at_once`, it is killed. Asking again changes nothing."""
        told_before, self._told_to_end = self._told_to_end, True
        if self._child is None:
            _leave()
        if at_once:
            _signal_group(self._child.pid, signal.SIGKILL)
        if told_before or at_once:
            return
        _signal_group(self._child.pid, signal.SIGTERM)
        threading.Thread(target=self._insist, args=(self._child,), daemon=True).start()

    def _insist(self, child: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        _signal_group(child.pid, signal.SIGKILL)

    def _attend(self, child: subprocess.Popen[bytes], command: Command) -> None:
        returncode = child.wait()
        _signal_group(child.pid, signal.SIGKILL)
        if command.exit_url and not self._told_to_end:
            post_exit(command.exit_url, command.token or "", exit_sentence(returncode))
        _leave()


class InstanceHost(_Host):
    """Runs the engine's loop in a thread of this process and ends when it returns."""

    def stand_by(self) -> None:
        """Wait for work for as long as that takes, with the engine loaded."""
        super().stand_by()
        importlib.import_module(ENGINE)

    def start(self, run: EngineRun) -> tuple[int, None]:
        """Begin; returns at once with this process's pid."""
        self._begin(run.name)
        threading.Thread(target=_run_engine, args=(run,), name="engine", daemon=True).start()
        return os.getpid(), None

    def placed(self) -> tuple[int, None]:
        """This process's pid; an instance starts its environments itself."""
        return os.getpid(), None


def exit_sentence(returncode: int) -> str:
    """How a process ended, for a person."""
    if returncode >= 0:
        return f"the worker process ended with exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"the worker process was killed by signal {-returncode} ({signal.Signals(-returncode).name})"
    return f"the worker process was killed by signal {-returncode}"


def post_exit(url: str, token: str, sentence: str) -> bool:
    """Tell the gateway, once; whether it heard. When it does not, it finds the name no longer living."""
    body = json.dumps({"phase": "exited", "error": sentence}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310  the gateway's own
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=EXIT_POST_LIMIT_S):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _run_engine(run: EngineRun) -> None:
    try:
        importlib.import_module(ENGINE).run(run.start, run.log_path)
    except BaseException as failed:  # noqa: BLE001  written down, then the process ends
        _note(run.log_path, failed)
        os._exit(1)
    _leave()


def _note(log_path: str, failed: BaseException) -> None:
    with Path(log_path).open("a") as log:
        log.writelines(traceback.format_exception(failed))


def _first_line(child: subprocess.Popen[bytes], text: str) -> None:
    """Write the line; a command that ended before reading it is `_attend`'s to report."""
    if child.stdin is None:
        raise ValueError("the command was started without a pipe")
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(text.rstrip("\n").encode() + b"\n")
        child.stdin.flush()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _leave_if_unused() -> threading.Timer:
    """End this process unless it is given work: whoever made it died before it could say what to start."""
    timer = threading.Timer(UNUSED_LIMIT_S, _leave)
    timer.daemon = True
    timer.start()
    return timer


def _watch_parent() -> None:
    """End this process when its raylet is gone: nothing may outlive the head."""
    _adopt_orphans()
    threading.Thread(target=_outlive_nothing, args=(os.getppid(),), daemon=True).start()


def _outlive_nothing(parent: int) -> NoReturn:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    _end_children()
    os._exit(1)


def _leave() -> NoReturn:
    _end_children()
    os._exit(0)


def _adopt_orphans() -> None:
    """Become the parent of what a child's children leave behind, so that it can be found and ended (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
