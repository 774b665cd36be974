"""The platform in one process: `python -m runner.main --home DIR [--host H] [--port N]`. The only place that wires."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import ipaddress
import secrets
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
import uvicorn

from runner import declared, logs, record
from runner.clock import SystemClock
from runner.cluster.base import Cluster, ClusterLostError
from runner.cluster.ray import RayCluster
from runner.context import Context
from runner.errors import EXIT_CONFLICT, EXIT_USAGE, StartError
from runner.evals.reconcile import EvalController
from runner.evals.schedules import ScheduleController
from runner.fleet.reconcile import FleetController
from runner.gateway.app import create_app
from runner.scheduler.loop import Loop
from runner.settings import Settings
from runner.store.blobs import Blobs
from runner.store.db import Store
from runner.store.queries import accounts
from runner.vault import Vault
from seq import _pretend

log = structlog.get_logger()

DEFAULT_HOST = "127.0.0.1"
KEEP_ALIVE_S = 330  # longer than the clients' pools keep a connection, so that no request meets a closing one
DRAIN_LIMIT_S = 3
WIND_UP_LIMIT_S = 5.0


@dataclass(frozen=True)
class Tls:
    """PEM files of a certificate and its key."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class _Settings(Settings):
    """`inside` is the loopback port at which the platform's own processes reach the gateway, without TLS."""

    inside: int = 0

    @property
    def url(self) -> str:
        """Where the platform's own processes reach the gateway."""
        loopback = self.host if self.inside == self.port else DEFAULT_HOST
        return f"http://{f'[{loopback}]' if ':' in loopback else loopback}:{self.inside}"


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    args = _arguments(argv)
    try:
        with _only_one(args.home):
            return _run(args)
    except StartError as refused:
        print(f"error: {refused}", file=sys.stderr)  # noqa: T201  the command shows this line
        return refused.exit_code


def _run(args: argparse.Namespace) -> int:
    tls, pretend = _tls(args), declared.pretend_cards(args.pretend, args.home)
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(_listen(args))
        logs.as_json()
        host, port = listening.getsockname()[:2]
        inside = listening if tls is None else stack.enter_context(_bound("127.0.0.1", 0))
        settings = _Settings(
            home=args.home,
            host=host,
            port=port,
            pretend=pretend,
            gpus_per_account=declared.gpus_per_account(args.gpus_per_account, args.home),
            inside=inside.getsockname()[1],
        )
        cluster = RayCluster(settings)
        joined = _Joining(cluster)
        ctx = _context(settings, cluster)
        instance = ctx.new_id()
        app = create_app(ctx, instance=instance)
        joined.result()
        _refuse_real_beside_pretend(cluster, pretend)
        loop = Loop(ctx, [ScheduleController(ctx), FleetController(ctx), EvalController(ctx)])
        record.note_running(settings, instance, secure=tls is not None)
        loop.start()
        try:
            with _served_inside(app, None if tls is None else inside):
                _serve(app, listening, tls)
        finally:
            loop.stop()
            _wind_up(ctx)
            cluster.stop()
            record.note_stopped(settings)
            ctx.store.close()
    return 0


class _Joining:
    """The cluster coming up beside everything else that has to be loaded."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._ensure, name="join", daemon=True)
        self._thread.start()

    def result(self) -> None:
        """Wait until it is there; raises StartError when it does not come up."""
        self._thread.join()
        if self._failed is not None:
            raise StartError(f"the cluster cannot start: {self._failed}")

    def _ensure(self) -> None:
        try:
            self._cluster.ensure()
        except Exception as failed:  # noqa: BLE001  raised again by `result`
            self._failed = failed


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runner.main", description="Run the platform in the foreground.")
    parser.add_argument("--home", type=lambda text: Path(text).expanduser().absolute(), required=True)
    parser.add_argument("--host", help=f"address to listen at (default {DEFAULT_HOST}, or the one used before)")
    parser.add_argument("--port", type=int, help="port to listen at (default: the one used before, else a free one)")
    parser.add_argument("--tls-cert", type=Path, help="PEM certificate; required to listen beyond this machine")
    parser.add_argument("--tls-key", type=Path, help="PEM key of the certificate")
    parser.add_argument("--pretend", action="append", metavar="CARD:N", help="cards to pretend that this machine has")
    parser.add_argument("--gpus-per-account", type=int, help="how many cards an account may hold at once (default 8)")
    return parser.parse_args(argv)


def _refuse_real_beside_pretend(cluster: RayCluster, pretend: dict[str, int]) -> None:
    real = cluster.real_cards() if pretend else {}
    if real:
        cluster.stop()
        has = _pretend.written(real)
        raise StartError(
            f"this machine has cards of its own ({has}), and pretend ones do not mix with them", EXIT_CONFLICT
        )


def _tls(args: argparse.Namespace) -> Tls | None:
    """The TLS files, checked to be there; plain HTTP is for loopback alone."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise StartError("--tls-cert and --tls-key go together; give both or neither", EXIT_USAGE)
    host = _host(args)
    if args.tls_cert is None:
        if not _is_loopback(host):
            raise StartError(
                f"listening at {host} would send keys over the network in the clear; "
                "give --tls-cert and --tls-key, or listen at 127.0.0.1",
                EXIT_USAGE,
            )
        return None
    if host in ("0.0.0.0", "::"):  # noqa: S104  refused here
        raise StartError(f"{host} is no address that robots can be sent to; give the machine's own", EXIT_USAGE)
    for path in (args.tls_cert, args.tls_key):
        if not path.is_file():
            raise StartError(f"there is no file {path}", EXIT_USAGE)
    return Tls(args.tls_cert, args.tls_key)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Hold the home for as long as this process lives."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    with (home / "platform.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"a platform runs in {home} already; `seq status` shows it", EXIT_CONFLICT) from None
        yield


def _host(args: argparse.Namespace) -> str:
    return str(args.host or record.previous(args.home).get("host") or DEFAULT_HOST)


def _listen(args: argparse.Namespace) -> socket.socket:
    """A listening socket: at the port asked for, else the one used before, else a free one."""
    host = _host(args)
    port = args.port if args.port is not None else int(record.previous(args.home).get("port") or 0)
    return _bound(host, port)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it small answers wait 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except (OSError, OverflowError) as failed:
        listening.close()
        reason = getattr(failed, "strerror", None) or failed
        raise StartError(
            f"cannot listen at {host}:{port}: {reason}; end what uses it, or choose another with --port", EXIT_CONFLICT
        ) from None
    return listening


def _context(settings: Settings, cluster: Cluster) -> Context:
    for folder in (settings.logs, settings.envs, settings.sdk, settings.code, settings.outbox):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = Store(settings.database)
    store.migrate()
    ctx = Context(
        settings=settings,
        store=store,
        blobs=Blobs(settings.blobs),
        cluster=cluster,
        clock=SystemClock(),
        vault=Vault.at(settings.home / "secret.key"),
        new_id=lambda: uuid.uuid4().hex,
        new_secret=lambda: secrets.token_urlsafe(32),
    )
    _first_account(ctx)
    return ctx


def _first_account(ctx: Context) -> None:
    """The key file is the truth: whatever it holds opens the first account."""
    path = ctx.settings.home / "api_key"
    if not path.exists():
        record.write_private(path, accounts.KEY_PREFIX + ctx.new_secret() + "\n")
    with ctx.store.write() as session:
        key = path.read_text(encoding="utf-8").strip()
        accounts.ensure_first(session, key, account_id=ctx.new_id(), key_id=ctx.new_id(), now=ctx.clock.now())


def _serve(app: Any, listening: socket.socket, tls: Tls | None) -> None:
    """Answer requests until a signal to end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)  # uvicorn raises the signal again when it has ended
    uvicorn.Server(_server_config(app, tls)).run(sockets=[listening])


@contextmanager
def _served_inside(app: Any, listening: socket.socket | None) -> Iterator[None]:
    """The same application, for the platform's own processes, at a loopback socket where there is one."""
    if listening is None:
        yield
        return
    server = uvicorn.Server(_server_config(app, None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="inside", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(DRAIN_LIMIT_S + 2)


def _server_config(app: Any, tls: Tls | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_LIMIT_S,
        access_log=False,
        log_config=None,
        server_header=False,
        ssl_certfile=str(tls.cert) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
    )


def _wind_up(ctx: Context) -> None:
    """Ask every command to end, so that policies shut down in order; what takes over WIND_UP_LIMIT_S is killed."""
    deadline = ctx.clock.monotonic() + WIND_UP_LIMIT_S
    try:
        while commands := [name for name, placed in ctx.cluster.living().items() if placed.pid is not None]:
            for name in commands:
                ctx.cluster.kill(name)
            if ctx.clock.monotonic() > deadline:
                log.warning("ended before it had shut down", names=commands)
                return
            ctx.clock.sleep(0.1)
    except ClusterLostError as lost:
        log.warning("the cluster went away before it was stopped", reason=str(lost))


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Nothing: the signal has done its work."""


if __name__ == "__main__":
    sys.exit(main())
