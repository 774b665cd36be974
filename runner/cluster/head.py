"""Ray's head as a group of processes in a session of its own: started, found again, ended. Imports no Ray.

`python -m runner.cluster.head HOME` ends the head that a killed platform left behind, and says which.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from runner.cluster.base import ClusterLostError
from runner.settings import Settings

LOOPBACK = "127.0.0.1"
START_LIMIT_S = 120.0
END_LIMIT_S = 10.0
OBJECT_STORE_BYTES = 100_000_000
_VITAL = ("gcs_server", "raylet")


@dataclass(frozen=True)
class Head:
    """A head that was started: the process that leads its session, where it listens ("" at first), its folder."""

    pid: int
    pid_started: float
    address: str
    temp_dir: str


def _ray_env(settings: Settings) -> dict[str, str]:
    """What a head and whoever joins it need before `ray` is imported."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(_token_file(settings)),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else 127.0.0.1 is taken for the machine's own address
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def start(settings: Settings) -> Head:
    """Start a head; returns once others can join it. Raises ClusterLostError when it does not come up."""
    temp_dir = Path(tempfile.mkdtemp(prefix="seq-", dir="/tmp")) / "ray"  # short: it holds sockets
    temp_dir.mkdir(mode=0o700)
    settings.logs.mkdir(parents=True, exist_ok=True)
    log = settings.logs / "ray.log"
    pid = _spawn(_argv(temp_dir), platform_env(settings), log)
    started = psutil.Process(pid).create_time()
    begun = Head(pid, started, "", str(temp_dir))
    _record(settings, begun)  # so that a platform killed while it waits leaves nothing unfindable
    head = replace(begun, address=_address(begun, log))
    _record(settings, head)
    return head


def recorded(settings: Settings) -> Head | None:
    """The head that `start` last noted in this home, whether it lives or not."""
    try:
        fields = json.loads(_record_file(settings).read_text())
        return Head(**{key: fields[key] for key in ("pid", "pid_started", "address", "temp_dir")})
    except (FileNotFoundError, ValueError, KeyError):
        return None


def alive(head: Head) -> bool:
    """The head's own process and the two that everything hangs on live."""
    if not _lives(head.pid, head.pid_started):
        return False
    found = [process.name() for process in _session(head) if _running(process)]
    return all(name in found for name in _VITAL)


def pids(head: Head) -> list[int]:
    """Every process of the head's session: its own, the pooled workers' and the hosts'."""
    return sorted(process.pid for process in _session(head) if _running(process))


def end(settings: Settings, head: Head) -> None:
    """Kill the head's session, wait until nothing started from it lives, and clear its folder.

    What hosts started has END_LIMIT_S to see its pipe close and end by itself before it is killed as well, and so is
    whatever else runs in the home's environments: a stopped process outlives the host that should have ended it.
    """
    started_from_it = _descendants(head)
    deadline = time.monotonic() + END_LIMIT_S
    while (members := _session(head)) and time.monotonic() < deadline:
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _reap(head.pid)
        psutil.wait_procs(members, timeout=0.1)
    _, left = psutil.wait_procs(started_from_it, timeout=END_LIMIT_S)
    left = [*left, *_in_environments(settings)]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=END_LIMIT_S)
    shutil.rmtree(Path(head.temp_dir).parent, ignore_errors=True)
    _record_file(settings).unlink(missing_ok=True)


def _in_environments(settings: Settings) -> list[psutil.Process]:
    """Every process whose Python is one of the home's environments, whoever its parent is by now."""
    folder = f"{settings.envs}{os.sep}"
    running = ((process, process.info["cmdline"]) for process in psutil.process_iter(["cmdline"]))
    return [process for process, argv in running if argv and argv[0].startswith(folder)]


def _argv(temp_dir: Path) -> list[str]:
    ports = (
        "port",
        "object-manager-port",
        "node-manager-port",
        "runtime-env-agent-port",
        "metrics-export-port",
        "dashboard-agent-listen-port",
        "dashboard-agent-grpc-port",
    )
    argv = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        *(f"--{port}=0" for port in ports),
        f"--node-ip-address={LOOPBACK}",
        f"--temp-dir={temp_dir}",
        f"--num-cpus={os.cpu_count() or 1}",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        *("--include-dashboard=false", "--include-log-monitor=false", "--no-monitor", "--disable-usage-stats"),
    ]
    if importlib.util.find_spec("grpc") is not None:
        # With grpc installed Ray starts a client server on one fixed port, which two heads could not share.
        argv.append(f"--ray-client-server-port={_free_port()}")
    return argv


def platform_env(settings: Settings) -> dict[str, str]:
    """The environment of a head and of its drivers: the platform's own, without its settings and keys."""
    ours = str(Path(__file__).parents[2])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SEQ_", "SEQUENCES_", "RAY_"))}
    path = os.pathsep.join(filter(None, [ours, kept.get("PYTHONPATH", "")]))
    extra = {
        "PYTHONPATH": path,
        "RAY_worker_niceness": "0",  # what runs in the hosts is the platform's main work
        "RAY_memory_monitor_refresh_ms": "0",  # the memory is in the hosts' children; killing hosts would free none
    }
    return kept | _ray_env(settings) | extra


def _spawn(argv: list[str], env: dict[str, str], log: Path) -> int:
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), writing, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True)


def _address(head: Head, log: Path) -> str:
    """Where the head listens, as it writes it into its folder when all of it is up."""
    deadline = time.monotonic() + START_LIMIT_S
    file = Path(head.temp_dir) / "ray_current_cluster"
    while time.monotonic() < deadline and _lives(head.pid, head.pid_started):
        address = file.read_text().strip() if file.exists() else ""
        if address:
            return address
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(head.pid, signal.SIGKILL)
    raise ClusterLostError(f"Ray's head did not come up; its output is in {log}")


def _token_file(settings: Settings) -> Path:
    """The owner-only file with the token that opens the head; made on first use."""
    path = settings.home / "ray.token"
    with contextlib.suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
    return path


def _record_file(settings: Settings) -> Path:
    return settings.home / "ray.json"


def _record(settings: Settings, head: Head) -> None:
    part = _record_file(settings).with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(head), file)
    part.replace(_record_file(settings))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])


def _lives(pid: int, started: float) -> bool:
    try:
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - started) < 1.0) and _running(process)
    except psutil.NoSuchProcess:
        return False


def _running(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _session(head: Head) -> list[psutil.Process]:
    """Who lives in the head's session. The kernel gives the number to no other session while one of them lives."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if abs(psutil.Process(head.pid).create_time() - head.pid_started) >= 1.0:
            return []
    return [process for process in psutil.process_iter() if _session_of(process.pid) == head.pid]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


def _descendants(head: Head) -> list[psutil.Process]:
    """What the session's processes started in sessions of their own, at any depth."""
    found: set[psutil.Process] = set()
    for member in (members := _session(head)):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.update(member.children(recursive=True))
    return list(found.difference(members))


def _reap(pid: int) -> None:
    """Take the exit status where the head is this process's own child, so that it does not stay as a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def main(home: Path) -> None:
    """End the head recorded in `home`, if any, and print what was ended."""
    settings = Settings(home=home)
    head = recorded(settings)
    if head is not None:
        end(settings, head)
        print(f"its cluster's head (pid {head.pid})")  # noqa: T201  `seq down` repeats it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
