"""All the copies of a worker: brought up, started again when one dies, shut down together."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from runner.worker.batching import Batching, for_evals, for_robots
from runner.worker.calls import CopyStart, DeskStart, Done
from runner.worker.cards import seen_by
from runner.worker.child import Child, CopyFailedError
from runner.worker.crashes import MOST, Crashes, pause_s
from runner.worker.memory import fitting
from runner.worker.parse import Declared
from runner.worker.pool import Askable, Pool
from runner.worker.tally import Counted, Tally, total
from seq.contract.internal import GroupMember, WorkerStart

VISIBLE = "CUDA_VISIBLE_DEVICES"
SETTLE_S = 600.0
HUNG = 3
"""An inference that takes this many times `timeouts.request`, of which its robot was told after one, never ends."""
MEMORY = ("gpu_out_of_memory", "host_out_of_memory")


class Copies:
    """`pool` is there once they are up, and `facts`, what they run on.

    `sockets` are the names at which each takes acts beside the door, if they do.
    `warms_up` hears, once, that the first of them warms up; `gives_up` why the worker cannot go on serving.
    """

    def __init__(self, start: WorkerStart) -> None:
        self._start = start
        self.warms_up: Callable[[], None] = lambda: None
        self.gives_up: Callable[[CopyFailedError], None] = _raise
        self._count = start.concurrency.copies(start.cards)
        self._children: dict[int, Child] = {}
        self._crashes = Crashes()
        self._tasks: set[asyncio.Task[None]] = set()
        self._warming = False
        self._draining = False
        self._ending = False
        self.sockets = socket_names(start, self._count)
        self._tallies = [Tally() for _ in self.sockets]
        self.facts: dict[str, str] = {}
        self.pool: Pool | None = None

    async def begin(self) -> None:
        """Start the first copies: one, where they come up one by one; returns before any is up."""
        at_once = 1 if self._start.concurrency.replica_start == "one_by_one" else self._count
        for number in range(at_once):
            await self._begin(number)

    async def bring_up(self) -> tuple[Declared, Pool]:
        """Wait until every copy serves; raises CopyFailedError where one does not."""
        if self._count == 0:
            raise CopyFailedError(
                f"a copy wants {self._start.concurrency.gpus_per_replica} cards (gpus_per_replica) "
                f"and the worker holds {self._start.cards}; deploy it with more cards, or fewer for a copy"
            )
        for number in range(self._count):
            if number not in self._children:
                await self._all_up()
                await self._begin(number)
        await self._all_up()
        said = self._children[0].up.result()
        self.facts = said["facts"]
        policy = self._start.policy
        declared = Declared(policy, tuple(said["platform_keywords"]), said["preset"])
        self.pool = Pool(self._askable(), batching=self._batching(said["batching"]), sticky=policy.streaming)
        return declared, self.pool

    def beside(self) -> Counted:
        """What the copies did that was not asked at the door."""
        return total(self._tallies)

    def drain(self) -> None:
        """Have them take no more acts beside the door."""
        self._draining = True
        for child in self._living() if self.sockets else ():
            child.drain()

    async def shutdown(self, limit_s: float) -> None:
        """The shutdown hook of every copy, each after what it still runs; then, or past the limit, they end."""
        self._ending = True
        await self._shut_down(limit_s)
        self.kill()

    async def _shut_down(self, limit_s: float) -> None:
        living = self._living()
        for child in living:
            child.shut_down()
        if living:
            await asyncio.wait([child.down for child in living], timeout=limit_s)

    def _living(self) -> list[Child]:
        return [child for child in self._children.values() if not child.ended.done() and child.up_at is not None]

    def kill(self) -> None:
        """End every copy at once."""
        self._ending = True
        for child in self._children.values():
            child.kill()

    def end_hung(self) -> None:
        """End copies whose inference never ends: nothing else would free them for the robots that drive."""
        limit_s = HUNG * self._start.timeouts.request
        asked_here = self.pool.overdue(limit_s) if self.pool is not None else ()
        asked_there = [number for number, tally in enumerate(self._tallies) if tally.overdue(limit_s)]
        for number in {*asked_here, *asked_there}:
            self._children[number].kill(f"ran one inference for over {limit_s} s ({HUNG} x timeouts.request)")

    def warming_up(self) -> None:
        """A copy runs the warmup hook."""
        if not self._warming:
            self._warming = True
            self.warms_up()

    def answered(self, copy: int, answers: list[Done]) -> None:
        """A copy is done with its turn."""
        if self.pool is not None:
            self.pool.answered(copy, answers)

    def lost(self, copy: int) -> None:
        """A copy is ending."""
        if self.pool is not None:
            self.pool.down(copy)
            task = asyncio.get_running_loop().create_task(self._replace(copy))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def machines(self) -> list[GroupMember] | None:
        """The machines that one copy runs on; None where that is this one alone."""
        return None

    def _askable(self) -> Mapping[int, Askable]:
        """The copies as the pool asks them."""
        return self._children

    def _ups(self) -> list[asyncio.Future[dict[str, Any]]]:
        """What is to come up, of that which was begun."""
        return [child.up for child in self._children.values()]

    async def _begin(self, number: int) -> None:
        start = self._start
        env = dict(os.environ)
        seen = seen_by(number, env.get(VISIBLE), start.cards, start.concurrency)
        if seen is not None:
            env[VISIBLE] = seen
        self._children[number] = child = Child(number, self)
        grouped = start.group is not None
        desk = self._desk(number) if self.sockets else None
        told = CopyStart(start.code_dir, start.policy, start.weights_dir, grouped, desk, tells=number == 0)
        await child.begin(told, env)

    def _desk(self, number: int) -> DeskStart:
        """The same for a copy that is started again: who asked it finds it where it was."""
        start, tally = self._start, self._tallies[number]
        return DeskStart(self.sockets[number], start.secret, start.params, start.timeouts.request, tally.descriptor)

    async def _all_up(self) -> None:
        """Wait for the copies that were begun."""
        done, coming = await asyncio.wait(self._ups(), return_when=asyncio.FIRST_EXCEPTION)
        failed = next((error for up in done if isinstance(error := up.exception(), CopyFailedError)), None)
        if failed is None:
            gone = next((child for child in self._children.values() if child.going), None)
            if gone is None:
                return
            failed = CopyFailedError(f"model copy {gone.number} {await gone.ended}", reason="crashed")
        raise await self._counted(failed, coming)

    async def _counted(self, failed: CopyFailedError, coming: Collection[asyncio.Future[Any]]) -> CopyFailedError:
        """The failure; of memory, once the others are up or not, with how many copies have it."""
        if failed.reason is None or failed.reason not in MEMORY:
            return failed
        if coming:
            await asyncio.wait(coming, timeout=SETTLE_S)
        up = sum(child.up_at is not None for child in self._children.values())
        told = fitting(up, self._count, self._start.cards, self._start.concurrency, failed.reason)
        return CopyFailedError(f"{failed.sentence}; {told}", failed.traceback, failed.reason)

    async def _replace(self, number: int) -> None:
        """Start a copy that died again, while the others serve; too often, or as the only one, it ends the worker."""
        gone = self._children[number]
        how = await gone.ended
        if self._tallies:
            self._tallies[number].quiet()
        failed = self._died(gone, how)
        up_s: float | None = time.monotonic() - (gone.up_at or 0.0)
        while not self._ending:
            crashes = self._crashes.note(number, up_s)
            if self.pool is None or self._count == 1 or (crashes >= MOST and not self.pool.serving):
                self.gives_up(failed)
                return
            self.pool.died(number, how)
            print(f"{failed.sentence}; it is started again", file=sys.stderr, flush=True)  # noqa: T201  the log file
            try:
                await self._again(number, pause_s(crashes))
            except CopyFailedError as error:
                failed, up_s = await self._counted(error, ()), None
            else:
                return

    def _died(self, gone: Child, how: str) -> CopyFailedError:
        return CopyFailedError(f"model copy {gone.number} {how}", reason=gone.reason)

    async def _again(self, number: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if self._ending:
            return
        await self._begin(number)
        child = self._children[number]
        await child.up
        if self._draining and self.sockets:
            child.drain()
        if self.pool is not None and not child.going:
            self.pool.back(number, child)

    def _batching(self, declared: dict[str, int | None] | None) -> Batching:
        if declared is None:
            return Batching()
        most = declared["max_batch_size"] or 1
        if self._start.for_eval:
            return for_evals(most, declared["eval_wait_ms"])
        crowded = self._start.concurrency.most(self._start.cards) > self._count
        return for_robots(most, declared["serve_wait_ms"], crowded=crowded)


def socket_names(start: WorkerStart, copies: int, system: str = sys.platform) -> list[str]:
    """A name for each copy that takes acts beside the door: an eval's, where the system has abstract Unix sockets."""
    if not start.for_eval or start.group is not None or system != "linux":
        return []
    return [f"seq-{secrets.token_hex(16)}" for _ in range(copies)]


def _raise(failed: CopyFailedError) -> None:
    raise failed
