"""A copy of the model in a thread of this process, for tests of what stands before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from runner.worker.calls import Call
from runner.worker.copy import Copy
from runner.worker.parse import Declared
from runner.worker.pool import Pool
from runner.worker.service import Service
from seq.contract.internal import WorkerStart

T = TypeVar("T")


class ThreadCopy:
    """Does what the pool asks in a thread of its own, as a process would. Raises whatever the user's file raises."""

    def __init__(self, start: WorkerStart) -> None:
        self.policy = Copy(start.code_dir, start.policy)
        self.pool: Pool | None = None
        self._thread = ThreadPoolExecutor(max_workers=1)
        self.declared: Declared = self._do(self.policy.create).declared
        self._do(lambda: self.policy.load(start.weights_dir))

    def ask(self, calls: tuple[Call, ...]) -> None:
        """Run the acts of one turn."""
        loop, pool = asyncio.get_running_loop(), self.pool
        if pool is None:
            raise RuntimeError("a copy without its pool")
        running = self._thread.submit(self.policy.run, calls)
        running.add_done_callback(lambda done: loop.call_soon_threadsafe(pool.answered, 0, done.result()))

    def end_episode(self, episode_id: str) -> None:
        """Tell the policy that an episode ended."""
        self._thread.submit(self.policy.on_episode, episode_id)

    def close(self) -> None:
        """End the thread, once it is done."""
        self._thread.shutdown()

    def _do(self, call: Callable[[], T]) -> T:
        return self._thread.submit(call).result()


def service_in_process(start: WorkerStart, limit_s: float | None = None) -> tuple[Service, ThreadCopy]:
    """A worker's service over one copy in this process."""
    copy = ThreadCopy(start)
    copy.pool = Pool({0: copy}, sticky=start.policy.streaming)
    return Service(start, copy.pool, copy.declared, limit_s), copy
