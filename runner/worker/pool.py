"""The acts of a worker and its copies brought together: each act to one copy, its answer back to whoever asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runner.worker.assign import Assignment, Turn
from runner.worker.batching import Batching
from runner.worker.calls import Call, Done

ANEW = "the model copy that held this episode's state died; the episode began anew on another copy"


class Askable(Protocol):
    """A copy as the pool sees it. It does what it is asked in order, and answers through `Pool.answered`."""

    def ask(self, calls: tuple[Call, ...]) -> None:
        """Run the acts of one turn."""

    def end_episode(self, episode_id: str) -> None:
        """Tell the policy that an episode ended."""


class CopyDiedError(Exception):
    """The copy died while it ran this act; the message says how."""


@dataclass(frozen=True)
class Ran:
    """An act that was run, and when its copy began and was done (`time.perf_counter`)."""

    done: Done
    begun: float
    ended: float


@dataclass
class _Asked:
    call: Call
    began: Callable[[float], None]
    answer: asyncio.Future[Ran]
    begun: float = 0.0


class Pool:
    """For the event loop's thread alone."""

    def __init__(
        self, copies: Mapping[int, Askable], batching: Batching | None = None, *, sticky: bool = False
    ) -> None:
        self._copies = dict(copies)
        self._assignment: Assignment[_Asked] = Assignment(len(copies), batching=batching, sticky=sticky)
        self._timer: asyncio.TimerHandle | None = None
        self.restarts = 0

    @property
    def batches(self) -> bool:
        """Whether acts may go to a copy together."""
        return self._assignment.batches

    @property
    def serving(self) -> int:
        """Copies that take acts."""
        return self._assignment.serving

    @property
    def waiting(self) -> int:
        """Acts that wait for a copy."""
        return self._assignment.waiting

    async def run(self, call: Call, began: Callable[[float], None]) -> Ran:
        """The act's answer from a copy that was free; `began` hears when that one began. Raises CopyDiedError."""
        asked = _Asked(call, began, asyncio.get_running_loop().create_future())
        self._assignment.arrive(asked, call.act.episode_id, time.perf_counter())
        self._go()
        return await asked.answer

    def take_lost(self, episode_id: str | None) -> bool:
        """Whether the copy that held a streaming episode died since its last act; told once."""
        return self._assignment.take_lost(episode_id)

    def end_episode(self, episode_id: str) -> None:
        """Tell the copies that saw an episode that it ended; an unknown one is no error."""
        for copy in self._assignment.ended(episode_id):
            self._copies[copy].end_episode(episode_id)

    def overdue(self, limit_s: float) -> list[int]:
        """Copies that have worked on one turn for longer than that."""
        began_before = time.perf_counter() - limit_s
        return [copy for copy, asked in self._assignment.running() if asked[0].begun < began_before]

    def end_stale(self) -> None:
        """End the episodes that had no act for five minutes."""
        for episode_id in self._assignment.stale(time.perf_counter()):
            self.end_episode(episode_id)

    def end_all(self) -> None:
        """End every episode."""
        for episode_id in self._assignment.open():
            self.end_episode(episode_id)

    def answered(self, copy: int, answers: list[Done]) -> None:
        """A copy's answers to its turn."""
        now = time.perf_counter()
        for asked, done in zip(self._assignment.finished(copy, now), answers, strict=True):
            asked.answer.set_result(Ran(done, asked.begun, now))
        self._go()

    def down(self, copy: int) -> None:
        """A copy is going: it gets no more acts. What it ran is answered, or ended by `died`."""
        self._assignment.down(copy, time.perf_counter())

    def died(self, copy: int, how: str) -> None:
        """A copy is gone, with what it ran."""
        for asked in self._assignment.finished(copy, time.perf_counter()):
            asked.answer.set_exception(CopyDiedError(how))

    def back(self, copy: int, again: Askable) -> None:
        """A copy serves again."""
        self._copies[copy] = again
        self._assignment.up(copy)
        self.restarts += 1
        self._go()

    def _go(self) -> None:
        """Begin every turn that is due; come back when the next one is."""
        now = time.perf_counter()
        while (turn := self._assignment.next(now)) is not None:
            self._begin(turn)
            now = time.perf_counter()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._assignment.due()
        if due is not None and due > now:  # as of the same moment at which none was due yet, or it would be forgotten
            self._timer = asyncio.get_running_loop().call_later(due - now, self._go)

    def _begin(self, turn: Turn[_Asked]) -> None:
        now = time.perf_counter()
        for asked in turn.acts:
            asked.begun = now
            asked.began(now)
        self._copies[turn.copy].ask(tuple(self._noted(asked.call) for asked in turn.acts))

    def _noted(self, call: Call) -> Call:
        return call._replace(notes=(ANEW,)) if self._assignment.take_anew(call.act.episode_id) else call
