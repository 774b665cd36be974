"""The worker's socket: HTTP over TLS with the certificate that it was started with."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.applications import Starlette

from runner.worker import pem
from seq.contract.internal import WorkerStart

KEEP_ALIVE_S = 330  # longer than the clients' pools keep a connection
POLL_S = 0.01

_serving: set[asyncio.Task[None]] = set()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are the worker's own matter."""
        yield


async def serve(start: WorkerStart, app: Starlette) -> str:
    """Serve in a task; the worker's address once it answers."""
    family = socket.AF_INET6 if ":" in start.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it small answers wait 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind((start.host, 0))
    server = _Server(_config(start, app))
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[listening]))
    _serving.add(task)
    while not server.started:
        if task.done():
            task.result()
            raise RuntimeError("the server ended before it served")
        await asyncio.sleep(POLL_S)
    host, port = listening.getsockname()[:2]
    return f"https://[{host}]:{port}" if family == socket.AF_INET6 else f"https://{host}:{port}"


def _config(start: WorkerStart, app: Starlette) -> uvicorn.Config:
    with pem.files(start.tls_cert, start.tls_key) as (cert, key):
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
    return config
