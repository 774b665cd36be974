"""`python -m runner.worker`: reads a WorkerStart line from standard input, serves until told to end or let go."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from runner import leash
from runner.worker import allocation, output
from runner.worker.channel import seat_of
from runner.worker.child import CopyFailedError
from runner.worker.copies import Copies
from runner.worker.group import Group
from seq.contract.internal import WorkerReport, WorkerStart

if TYPE_CHECKING:
    from runner.worker.pool import Pool
    from runner.worker.report import Reporter

DRAIN_LIMIT_S = 30.0
REPORT_LIMIT_S = 30.0
LAST_REPORT_LIMIT_S = 5.0  # robots wait meanwhile, and find another worker once this one is gone
POLL_S = 0.05
TEND_S = 5.0


def main() -> NoReturn:
    """Serve one policy version; never returns."""
    start = WorkerStart.model_validate_json(sys.stdin.buffer.readline())
    leash.hold(0)
    leash.go_first()
    output.forgive()
    allocation.keep_freed()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # before it serves there is nothing to finish
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _new_loop().run_until_complete(_work(start))
    os._exit(0)  # at once, whatever else still runs; the copies end with the pipes that hold them


async def _work(start: WorkerStart) -> None:
    copies = Copies(start) if start.group is None else Group(start, seat_of(os.environ))
    await copies.begin()
    # The copies are on their way: what the door needs is imported beside what they import.
    from runner.worker.app import create_app  # noqa: PLC0415
    from runner.worker.report import Reporter  # noqa: PLC0415
    from runner.worker.server import serve  # noqa: PLC0415
    from runner.worker.service import Service  # noqa: PLC0415

    reporter = Reporter(f"{start.gateway_url}/internal/workers/{start.worker_id}/report", start.token)
    reporter.tell(WorkerReport(phase="start", pid=os.getpid()))
    reporter.tell(WorkerReport(phase="load", pid=os.getpid()))
    copies.warms_up = lambda: reporter.tell(WorkerReport(phase="warmup", pid=os.getpid()))
    copies.gives_up = lambda failed: _fail(failed, reporter, LAST_REPORT_LIMIT_S)
    try:
        declared, pool = await copies.bring_up()
    except CopyFailedError as failed:
        copies.kill()
        _fail(failed, reporter, REPORT_LIMIT_S)
    service = Service(start, pool, declared)
    service.machines = copies.machines
    service.beside = copies.beside
    told_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_end.set)
    url = await serve(start, create_app(service))
    reporter.tell(WorkerReport(phase="ready", pid=os.getpid(), url=url, sockets=copies.sockets, facts=copies.facts))
    ending = asyncio.ensure_future(told_to_end.wait())
    while not ending.done():
        await asyncio.wait({ending}, timeout=TEND_S)
        pool.end_stale()
        copies.end_hung()
    service.draining = True
    await _wind_up(copies, pool)


async def _wind_up(copies: Copies, pool: Pool) -> None:
    """Finish the acts that are here, then let the policy shut down, copy by copy."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DRAIN_LIMIT_S
    copies.drain()
    while (pool.waiting or copies.beside().busy) and loop.time() < deadline:  # noqa: ASYNC110  a few looks in its life
        await asyncio.sleep(POLL_S)
    pool.end_all()
    await copies.shutdown(max(deadline - loop.time(), 0.0))
    await asyncio.sleep(POLL_S)  # the last answers are on their way out


def _fail(failed: CopyFailedError, reporter: Reporter, limit_s: float) -> NoReturn:
    print(failed.sentence, file=sys.stderr, flush=True)  # noqa: T201  the log file
    reporter.tell(
        WorkerReport(
            phase="failed", pid=os.getpid(), error=failed.sentence, traceback=failed.traceback, reason=failed.reason
        )
    )
    reporter.flush(limit_s)
    os._exit(1)


def _new_loop() -> asyncio.AbstractEventLoop:
    """The faster loop where it is installed, as the HTTP server would choose."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


if __name__ == "__main__":
    main()
