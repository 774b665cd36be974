"""What a worker tells the gateway: each phase once, in order, again and again until it is heard."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import httpx

from seq.contract.internal import WorkerReport

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
CALL_LIMIT_S = 10.0


class Reporter:
    """Sends in a thread of its own, so that a gateway that is down holds nothing up."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"}, timeout=CALL_LIMIT_S, trust_env=False, transport=transport
        )
        self._sleep = sleep
        self._waiting: queue.Queue[WorkerReport] = queue.Queue()
        threading.Thread(target=self._run, name="report", daemon=True).start()

    def tell(self, report: WorkerReport) -> None:
        """Queue a report; returns at once."""
        self._waiting.put(report)

    def flush(self, limit_s: float) -> bool:
        """Wait until everything told was heard, at most `limit_s`; whether it was."""
        with self._waiting.all_tasks_done:
            return self._waiting.all_tasks_done.wait_for(lambda: not self._waiting.unfinished_tasks, limit_s)

    def _run(self) -> None:
        while True:
            report = self._waiting.get()
            self._deliver(report)
            self._waiting.task_done()

    def _deliver(self, report: WorkerReport) -> None:
        pause = FIRST_PAUSE_S
        while not self._heard(report):
            self._sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _heard(self, report: WorkerReport) -> bool:
        """Whether the gateway needs no further try: it took the report, or does not want it."""
        try:
            return self._client.post(self._url, json=report.wire()).status_code < 500
        except httpx.TransportError:
            return False
