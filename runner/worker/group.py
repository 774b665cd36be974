"""A model on several machines, as machine 0 holds it: its own copy and those of the other machines, asked as one."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from runner.worker.calls import Call, Done, Order, order_to_copy, read_told
from runner.worker.channel import BUFFER_BYTES, Channel, ChannelLostError, Seat, serving
from runner.worker.child import Child, CopyFailedError
from runner.worker.copies import Copies
from runner.worker.pool import Askable
from seq.contract.internal import GroupMember, WorkerStart

JOIN_LIMIT_S = 120.0
HELLO_LIMIT_S = 10.0
HELLO_BYTES = 4096


@dataclass
class _Member:
    """Another machine; `up` once its copy serves, `down` once that has ended."""

    rank: int
    up: asyncio.Future[dict[str, Any]]
    down: asyncio.Future[None]
    channel: Channel | None = None

    def send(self, message: bytes) -> None:
        """Send a framed message, where it has joined."""
        if self.channel is not None:
            self.channel.send(message)


class Group(Copies):
    """Everything asked goes to every machine in one order; a turn is over when all are done with it.

    Machine 0's answers are the turn's. A machine that is lost ends the worker (`gives_up`).
    """

    def __init__(self, start: WorkerStart, seat: Seat) -> None:
        super().__init__(start)
        loop = asyncio.get_running_loop()
        self._seat = seat
        self._members = {
            rank: _Member(rank, loop.create_future(), loop.create_future()) for rank in range(1, seat.size)
        }
        self._working: set[int] = set()
        self._answers: list[Done] = []

    async def begin(self) -> None:
        """Wait for the other machines from now on, and start this one's copy."""
        at = (self._seat.address, self._seat.port)
        self._server = await asyncio.start_server(self._joined, *at, ssl=serving(self._start), limit=BUFFER_BYTES)
        asyncio.get_running_loop().call_later(JOIN_LIMIT_S, self._check_joined)
        await super().begin()

    def ask(self, calls: tuple[Call, ...]) -> None:
        """Run the acts of one turn on every machine."""
        self._working = {0, *self._members}
        self._send(Order("run", calls))

    def end_episode(self, episode_id: str) -> None:
        """Tell the policy on every machine that an episode ended."""
        self._send(Order("end_episode", episode_id=episode_id))

    def answered(self, copy: int, answers: list[Done]) -> None:  # noqa: ARG002  there is one
        """This machine's copy is done with its turn."""
        self._answers = answers
        self._done(0)

    def kill(self) -> None:
        """End every copy at once; the other machines end when their line does."""
        super().kill()
        for member in self._members.values():
            if member.channel is not None:
                member.channel.abort()

    def machines(self) -> list[GroupMember]:
        """Every machine, this one first."""
        now = asyncio.get_running_loop().time()
        others = [
            GroupMember(
                rank=member.rank,
                state="ready" if member.up.done() else "starting",
                beat_age_s=None if member.channel is None else round(now - member.channel.heard_at, 3),
            )
            for member in self._members.values()
        ]
        return [GroupMember(rank=0, state="ready", beat_age_s=0.0), *others]

    def _askable(self) -> Mapping[int, Askable]:
        return {0: self}

    def _ups(self) -> list[asyncio.Future[dict[str, Any]]]:
        return [*super()._ups(), *(member.up for member in self._members.values())]

    async def _counted(self, failed: CopyFailedError, coming: Collection[asyncio.Future[Any]]) -> CopyFailedError:  # noqa: ARG002
        return failed  # the others may wait for the one that failed, and no number of copies would fit

    def _died(self, gone: Child, how: str) -> CopyFailedError:
        return _lost(0, super()._died(gone, how).sentence)

    async def _shut_down(self, limit_s: float) -> None:
        order = order_to_copy(Order("shutdown"))
        for member in self._members.values():
            member.send(order)
        others = asyncio.wait([member.down for member in self._members.values()], timeout=limit_s)
        await asyncio.gather(super()._shut_down(limit_s), others)

    def _send(self, order: Order) -> None:
        message = order_to_copy(order)
        for member in self._members.values():
            member.send(message)
        self._children[0].pass_on(message)

    def _done(self, rank: int) -> None:
        self._working.discard(rank)
        if not self._working:
            super().answered(0, self._answers)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        try:
            member = self._admitted(await channel.first(HELLO_LIMIT_S, HELLO_BYTES))
        except ChannelLostError:
            member = None
        if member is None:
            channel.abort()
            return
        member.channel = channel
        try:
            async for message in channel.messages():
                self._hear(member, read_told(message)[0])
        except ChannelLostError as gone:
            self._gone(member, str(gone))

    def _admitted(self, hello: bytes) -> _Member | None:
        """The machine that says so, where it knows the worker's secret and is not here already."""
        try:
            told = json.loads(hello)
            rank, secret = int(told["rank"]), str(told["secret"])
        except (ValueError, KeyError, TypeError):
            return None
        member = self._members.get(rank)
        known = hmac.compare_digest(secret.encode(), self._start.secret.encode())
        return member if known and member is not None and member.channel is None else None

    def _hear(self, member: _Member, facts: dict[str, Any]) -> None:
        told = facts["told"]
        if told == "answered":
            self._done(member.rank)
        elif told == "up":
            member.up.set_result(facts)
        elif told == "failed":
            sentence = f"machine {member.rank} of the group: {facts['error']}"
            member.up.set_exception(CopyFailedError(sentence, facts["traceback"], facts["reason"]))
        else:
            self._gone(member, facts["how"])

    def _gone(self, member: _Member, how: str) -> None:
        """A machine is not there any more; told of once, and of one that failed to come up not again."""
        if member.down.done():
            return
        member.down.set_result(None)
        if self._ending:
            return
        if not member.up.done():
            member.up.set_exception(_lost(member.rank, how))
        elif member.up.exception() is None:
            self.gives_up(_lost(member.rank, how))

    def _check_joined(self) -> None:
        for member in self._members.values():
            if member.channel is None:
                self._gone(member, f"it did not join within {JOIN_LIMIT_S:g} s")


def _lost(rank: int, how: str) -> CopyFailedError:
    return CopyFailedError(f"machine {rank} of the group was lost: {how}", reason="group_member_lost")
