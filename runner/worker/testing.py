"""A copy of the model in a thread of this process, for tests of what stands before it or asks it."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from runner.worker.batching import Batching
from runner.worker.calls import Call, DeskStart, Order, order_to_copy, read_order
from runner.worker.copy import Copy
from runner.worker.desk import Desk
from runner.worker.line import Line
from runner.worker.parse import Declared
from runner.worker.pool import Pool
from runner.worker.service import Service
from runner.worker.tally import Tally
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


class ThreadDesk:
    """A copy that takes acts on a socket of its own, called `name`, in a thread; `order` is what its door would say."""

    def __init__(
        self,
        copy: Copy,
        declared: Declared,
        secret: str,
        *,
        batching: Batching | None = None,
        params: dict[str, Any] | None = None,
        limit_s: float = 300.0,
    ) -> None:
        self.name = f"seq-{secrets.token_hex(16)}"
        self.tally = Tally()
        self._door, theirs = socket.socketpair()
        self._theirs = Line(theirs)
        start = DeskStart(self.name, secret, params or {}, limit_s, self.tally.descriptor)
        self.desk = Desk(start, self._theirs, copy, declared, batching or Batching(), copy.on_episode)
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self._thread.start()

    def order(self, order: Order) -> None:
        """Have it do so after the turn that it has."""
        self._door.sendall(order_to_copy(order))

    def shut_down(self) -> None:
        """Have it end every episode and attend no more; returns once it has."""
        self.order(Order("shutdown"))
        self._thread.join()

    def close(self) -> None:
        """Shut down, and close its connections."""
        if self._thread.is_alive():
            self.shut_down()
        self.desk.close()
        self._door.close()
        self._theirs.close()

    def _attend(self) -> None:
        while True:
            self.desk.attend()
            order = read_order(self._theirs.receive())
            if order.what == "shutdown":
                self.desk.end_all()
                return
            if order.what == "drain":
                self.desk.drain()
            elif order.what == "run":
                self.desk.run(order.calls)
