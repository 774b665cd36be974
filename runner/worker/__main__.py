"""`python -m runner.worker`: reads a WorkerStart line from standard input, serves until told to end or let go."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn

import uvicorn
from starlette.applications import Starlette

from runner import leash
from runner.worker.app import create_app
from runner.worker.copy import Copy
from runner.worker.parse import Declared
from runner.worker.report import Reporter
from runner.worker.service import Service
from runner.worker.trace import frames, sentence
from seq.contract.internal import WorkerReport, WorkerStart

KEEP_ALIVE_S = 330  # longer than the clients' pools keep a connection
DRAIN_LIMIT_S = 30.0
REPORT_LIMIT_S = 30.0
POLL_S = 0.05


def main() -> NoReturn:
    """Serve one policy version; never returns."""
    start = WorkerStart.model_validate_json(sys.stdin.buffer.readline())
    leash.hold(0)
    leash.go_first()
    told_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: _end_now(told_to_end))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reporter = Reporter(f"{start.gateway_url}/internal/workers/{start.worker_id}/report", start.token)
    reporter.tell(WorkerReport(phase="start", pid=os.getpid()))
    copy = Copy(start.code_dir, start.policy)
    declared = _bring_up(start, copy, reporter)
    service = Service(start, copy, declared)
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())
    url = _serve(start, create_app(service))
    reporter.tell(WorkerReport(phase="ready", pid=os.getpid(), url=url))
    told_to_end.wait()
    _wind_up(service, copy)
    _leave(0)


def _bring_up(start: WorkerStart, copy: Copy, reporter: Reporter) -> Declared:
    """Import, load, warm up, each phase reported; what fails is reported and ends the process."""
    phase = "load"
    try:
        reporter.tell(WorkerReport(phase="load", pid=os.getpid()))
        declared = copy.create()
        copy.load(start.weights_dir)
        if copy.warms_up:
            phase = "warmup"
            reporter.tell(WorkerReport(phase="warmup", pid=os.getpid()))
            copy.warmup()
    except BaseException as failed:  # noqa: BLE001  a user's sys.exit() in load is a failure like any other
        told = f"{phase} failed: {sentence(failed)}"
        print(told, frames(failed, start.code_dir), sep="\n", file=sys.stderr, flush=True)  # noqa: T201  the log file
        reporter.tell(
            WorkerReport(phase="failed", pid=os.getpid(), error=told, traceback=frames(failed, start.code_dir))
        )
        reporter.flush(REPORT_LIMIT_S)
        _leave(1)
    return declared


def _serve(start: WorkerStart, app: Starlette) -> str:
    """Serve in a thread; the worker's address once it answers."""
    family = socket.AF_INET6 if ":" in start.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it small answers wait 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind((start.host, 0))
    with tempfile.TemporaryDirectory(prefix="seq-") as folder:
        cert, key = _private(folder, "cert.pem", start.tls_cert), _private(folder, "key.pem", start.tls_key)
        config = uvicorn.Config(
            app,
            ssl_certfile=cert,
            ssl_keyfile=key,
            timeout_keep_alive=KEEP_ALIVE_S,
            access_log=False,
            log_level="error",  # what is no HTTP is answered 400; a line for each would be a flood
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
        )
        config.load()
    if config.ssl is None:
        raise RuntimeError("a worker without TLS")
    config.ssl.num_tickets = 0  # nobody resumes a session, and a ticket would lie unread on an idle connection
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="server", daemon=True).start()
    while not server.started:
        time.sleep(POLL_S)
    host, port = listening.getsockname()[:2]
    return f"https://[{host}]:{port}" if family == socket.AF_INET6 else f"https://{host}:{port}"


def _wind_up(service: Service, copy: Copy) -> None:
    """Finish the acts in flight, refuse new ones, then let the policy shut down."""
    service.draining = True
    deadline = time.monotonic() + DRAIN_LIMIT_S
    while service.busy and time.monotonic() < deadline:
        time.sleep(POLL_S)
    try:
        copy.shutdown(max(deadline - time.monotonic(), 0.0))
    except BaseException as failed:  # noqa: BLE001  the process ends in any case; its log says why
        print(f"shutdown failed: {sentence(failed)}", file=sys.stderr, flush=True)  # noqa: T201  the log file


def _private(folder: str, name: str, text: str) -> str:
    path = Path(folder) / name
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return str(path)


def _end_now(told_to_end: threading.Event) -> None:
    """Told to end before serving: there is nothing to finish."""
    told_to_end.set()
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End at once, whatever the policy's own threads still do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
