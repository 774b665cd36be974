"""The platform of this machine: where it keeps its state, starting it, and ending it.

Everything lies under SEQ_HOME (default `~/.sequence-ai`, owner only): `platform.json` says where the platform listens
and which process it is, `api_key` holds its first account's key, `ray.json` names the head of its cluster.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from seq import _pretend, _processes
from sequence_ai import Conflict, InternalError, InvalidRequest, SequencesError, Unavailable
from sequence_ai._clock import Clock, SystemClock

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.1
_NEEDED = ("alembic", "fastapi", "ray", "sqlalchemy", "structlog", "uvicorn")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Platform:
    """A local platform: `pid` is its gateway's, None when it does not run; `home` is its SEQ_HOME.

    `pretend` are the cards that were declared for it and that the machine does not have.
    """

    home: Path
    url: str
    pid: int | None
    started: bool = False
    pretend: Mapping[str, int] = field(default_factory=dict)
    gpus_per_account: int | None = None


def home(environ: Mapping[str, str] | None = None) -> Path:
    """SEQ_HOME, absolute; nothing is made."""
    env = os.environ if environ is None else environ
    return Path(env.get("SEQ_HOME") or "~/.sequence-ai").expanduser().absolute()


def recorded(root: Path) -> Platform | None:
    """The platform that `platform.json` describes, running or not; None when there never was one.

    Raises SequencesError when the file is not what the platform writes.
    """
    found = _read_json(root / "platform.json")
    if found is None:
        return None
    url = found.get("url")
    if not isinstance(url, str) or not url:
        raise SequencesError(f"{root / 'platform.json'} names no url: remove it, then `seq up` writes it anew")
    return Platform(
        root,
        url,
        _living_pid(found),
        pretend=found.get("pretend") or {},
        gpus_per_account=found.get("gpus_per_account"),
    )


def is_running(root: Path | None = None) -> bool:
    """Whether the gateway's own process lives, by its pid and the time it started."""
    found = recorded(root or home())
    return found is not None and found.pid is not None


def key(root: Path) -> str | None:
    """The first account's key; None when the platform has not made one yet."""
    try:
        return (root / "api_key").read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def start(
    host: str | None = None,
    port: int | None = None,
    on_line: Say = lambda _: None,
    *,
    pretend: Mapping[str, int] | None = None,
    gpus_per_account: int | None = None,
    root: Path | None = None,
    clock: Clock | None = None,
) -> Platform:
    """The running platform of `root`, started if it does not run; `on_line` is told what was found and done.

    Raises Conflict when a platform runs otherwise than asked or its port is taken, InvalidRequest for cards that
    cannot be declared, InternalError when it ends while starting or a package it needs is missing, Unavailable when
    it does not answer in time.
    """
    at, clock = root or home(), clock or SystemClock()
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _only_one(at, on_line):
        before = recorded(at)
        if before is not None and before.pid is not None:
            _refuse_another_address(before, host, port)
            _refuse_other_cards(before, pretend, gpus_per_account)
            _await_health(before.url, before.pid, clock)
            return before
        if before is not None and _was_killed(at):
            on_line(f"the platform of {at} was killed or the machine restarted: starting it again")
        asked = {
            "--host": host,
            "--port": port,
            "--pretend": _pretend.written(pretend) if pretend else None,
            "--gpus-per-account": gpus_per_account,
        }
        return _spawn(at, [f"{flag}={value}" for flag, value in asked.items() if value is not None], clock)


def stop(on_line: Say = lambda _: None, *, root: Path | None = None, clock: Clock | None = None) -> list[str]:
    """End the platform of `root` and its cluster's head, and nothing else; what was ended, one phrase each."""
    at, clock = root or home(), clock or SystemClock()
    if not at.is_dir():
        return []
    with _only_one(at, on_line):
        ended = [*_stop_gateway(at, on_line, clock), *_stop_head(at)]
        _forget_pid(at)
        return ended


def _stop_gateway(root: Path, on_line: Say, clock: Clock) -> list[str]:
    found = _read_json(root / "platform.json") or {}
    pid = _living_pid(found)
    if pid is None:
        if _was_killed(root):
            on_line(f"the platform of {root} had already been killed")
        return []
    _processes.end_process(pid, signal.SIGTERM)
    if _gone(pid, found["pid_started"], STOP_TIMEOUT_S, clock):
        return [f"the platform (pid {pid})"]
    on_line(f"the platform (pid {pid}) did not end within {STOP_TIMEOUT_S:.0f} s: killing it")
    _processes.end_process(pid, signal.SIGKILL)
    _gone(pid, found["pid_started"], STOP_TIMEOUT_S, clock)
    return [f"the platform (pid {pid}, killed)"]


def _forget_pid(root: Path) -> None:
    """What a platform that ends properly does itself: its file keeps host and port, and no process."""
    found = _read_json(root / "platform.json")
    if found is None or found.get("pid") is None:
        return
    of_the_run = ("pid", "pid_started", "instance", "pretend")
    kept = {name: value for name, value in found.items() if name not in of_the_run}
    beside = root / "platform.json.new"
    beside.touch(mode=0o600)
    beside.write_text(json.dumps(kept), encoding="utf-8")
    beside.replace(root / "platform.json")


def _stop_head(root: Path) -> list[str]:
    """The head of a platform that was killed; one that ended properly has ended its head itself."""
    if not (root / "ray.json").exists():
        return []
    command = [sys.executable, "-m", "runner.cluster.head", str(root)]
    done = subprocess.run(command, env=_child_env(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InternalError(f"the cluster's head was not ended: {done.stderr.strip() or 'no reason was given'}")
    return [line for line in done.stdout.splitlines() if line]


def _gone(pid: int, started: float, within_s: float, clock: Clock) -> bool:
    deadline = clock.monotonic() + within_s
    while _processes.lives(pid, started):
        if clock.monotonic() >= deadline:
            return False
        clock.sleep(_POLL_S)
    return True


def _spawn(root: Path, flags: list[str], clock: Clock) -> Platform:
    _refuse_without_extra()
    log = root / "logs" / "gateway.log"
    log.parent.mkdir(mode=0o700, exist_ok=True)
    command = [sys.executable, "-m", "runner.main", "--home", str(root), *flags]
    with log.open("ab") as output:
        begin = output.tell()
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=root,
            env=_child_env(),
        )
    try:
        running = _await_first_answer(root, child, log, begin, clock)
    except BaseException:  # also Ctrl-C: nothing half-started stays behind
        _processes.end_process(child.pid, signal.SIGTERM)
        raise
    child.returncode = 0  # it is meant to outlive us: silences the "still running" warning of Popen
    return replace(running, started=True)


def _await_first_answer(root: Path, child: subprocess.Popen[bytes], log: Path, begin: int, clock: Clock) -> Platform:
    deadline = clock.monotonic() + START_TIMEOUT_S
    while clock.monotonic() < deadline:
        ended = child.poll()
        if ended is not None:
            raise _start_failed(ended, log, begin)
        found = recorded(root)
        if found is not None and found.pid == child.pid and _healthy(found.url, child.pid):
            return found
        clock.sleep(_POLL_S)
    raise Unavailable(
        f"the platform did not answer within {START_TIMEOUT_S:.0f} s of its start; its log is {log}", code="timeout"
    )


def _start_failed(exit_code: int, log: Path, begin: int) -> SequencesError:
    with log.open("rb") as written:
        written.seek(begin)
        lines = [line.strip() for line in written.read().decode(errors="replace").splitlines() if line.strip()]
    reason = _sentence(lines[-1]) if lines else "it printed nothing"
    message = f"the platform ended while starting (exit {exit_code}): {reason}"
    if exit_code == 5:
        return Conflict(message, code="conflict")
    if exit_code == 2:
        return InvalidRequest(message, code="invalid_request")
    return InternalError(message, code="internal", hint=f"its log is {log}")


def _sentence(line: str) -> str:
    """A log line as a person reads it: the event of a JSON line, else the line without a leading `error:`."""
    try:
        event = json.loads(line)
    except ValueError:
        return line.removeprefix("error:").strip()
    return str(event.get("event", line)) if isinstance(event, dict) else line


def _await_health(url: str, pid: int, clock: Clock) -> None:
    deadline = clock.monotonic() + STOP_TIMEOUT_S
    while not _healthy(url, pid):
        if clock.monotonic() >= deadline:
            raise Unavailable(
                f"the platform (pid {pid}) runs but does not answer at {url}",
                code="unavailable",
                hint="`seq down` ends it, `seq up` starts it again",
            )
        clock.sleep(_POLL_S)


def _healthy(url: str, pid: int) -> bool:
    try:
        answer = httpx.get(f"{url}/healthz", timeout=5.0, trust_env=False)
        return answer.status_code == 200 and answer.json().get("pid") == pid
    except (httpx.HTTPError, ValueError):
        return False


def _refuse_another_address(running: Platform, host: str | None, port: int | None) -> None:
    at = httpx.URL(running.url)
    if (host is not None and host != at.host) or (port not in (None, 0) and port != at.port):
        raise Conflict(
            f"the platform of {running.home} already runs at {running.url}",
            code="conflict",
            hint="`seq down` first to move it, or set SEQ_HOME to another folder for a second platform",
        )


def _refuse_other_cards(running: Platform, pretend: Mapping[str, int] | None, gpus_per_account: int | None) -> None:
    if pretend is not None and pretend != running.pretend:
        has = f"with {_pretend.told(running.pretend)}"
    elif gpus_per_account not in (None, running.gpus_per_account):
        has = f"with {running.gpus_per_account} GPUs per account"
    else:
        return
    raise Conflict(
        f"the platform of {running.home} already runs {has}, and this is declared at its start",
        code="conflict",
        hint="`seq down` first to change it, or set SEQ_HOME to another folder for a second platform",
    )


def _refuse_without_extra() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InternalError(
            f"a platform on this machine needs packages that are not installed ({', '.join(missing)}): "
            'pip install "sequence-ai[platform]"',
            code="dependency_missing",
        )


def _child_env() -> dict[str, str]:
    env = dict(os.environ)
    source = Path(__file__).resolve().parents[1]
    if (source / "pyproject.toml").is_file():  # a checkout that is not installed: the child starts in another folder
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), env.get("PYTHONPATH")]))
    return env


def _was_killed(root: Path) -> bool:
    # A platform that was ended properly takes its pid out of the file and keeps host and port.
    return (_read_json(root / "platform.json") or {}).get("pid") is not None


def _living_pid(found: Mapping[str, Any]) -> int | None:
    pid, started = found.get("pid"), found.get("pid_started")
    if isinstance(pid, int) and isinstance(started, (int, float)) and _processes.lives(pid, started):
        return pid
    return None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as wrong:
        raise SequencesError(f"{path} cannot be read ({wrong}): remove it, then `seq up` writes it anew") from wrong
    if not isinstance(found, dict):
        raise SequencesError(f"{path} does not hold an object: remove it, then `seq up` writes it anew")
    return found


@contextmanager
def _only_one(root: Path, on_line: Say) -> Iterator[None]:
    """Hold `up.lock`: two commands never start or end one platform at once."""
    with (root / "up.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_line("another `seq` is starting or ending this platform: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
