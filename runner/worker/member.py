"""`python -m runner.worker.member`: another machine of a group. It does what machine 0 does, and ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import NoReturn

from runner import leash
from runner.worker import output
from runner.worker.calls import CopyStart, Done, framed, to_door
from runner.worker.channel import BUFFER_BYTES, Channel, ChannelLostError, Seat, pinned, seat_of
from runner.worker.child import Child, CopyFailedError
from runner.worker.group import JOIN_LIMIT_S
from seq.contract.internal import WorkerStart

PAUSE_S = 0.1


class Member:
    """This machine's copy, and the line to machine 0 on which it is asked and heard."""

    def __init__(self, channel: Channel, rank: int) -> None:
        self._channel = channel
        self._child = Child(rank, self)

    async def run(self, start: WorkerStart) -> None:
        """Bring the copy up and serve machine 0; returns when either has ended."""
        await self._child.begin(CopyStart(start.code_dir, start.policy, start.weights_dir, group=True), os.environ)
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(self._tell()), loop.create_task(self._follow())}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._child.kill()
        await self._channel.close()
        for task in done:
            task.result()

    def warming_up(self) -> None:
        """Machine 0 tells of its own."""

    def answered(self, copy: int, answers: list[Done]) -> None:  # noqa: ARG002  there is one
        """The copy is done with its turn: what it answered is machine 0's to say."""
        for done in answers:
            if done.refused is not None:
                _say(done.refused)
        self._channel.send(to_door("answered"))

    def lost(self, copy: int) -> None:
        """`_tell` says how, once that is known."""

    async def _tell(self) -> None:
        """What becomes of the copy."""
        try:
            await self._child.up
        except CopyFailedError as failed:
            told = {"error": failed.sentence, "traceback": failed.traceback, "reason": failed.reason}
            self._channel.send(to_door("failed", **told))
            return
        self._channel.send(to_door("up"))
        self._channel.send(to_door("lost", how=f"its model copy {await self._child.ended}"))

    async def _follow(self) -> None:
        try:
            async for order in self._channel.messages():
                self._child.pass_on(framed(order))
        except ChannelLostError as gone:
            _say(f"machine 0 of the group is gone: {gone}")


def main() -> NoReturn:
    """Serve machine 0; never returns."""
    start = WorkerStart.model_validate_json(sys.stdin.buffer.readline())
    leash.hold(0)
    leash.go_first()
    output.forgive()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_work(start, seat_of(os.environ)))
    os._exit(0)  # at once; the copy ends with the pipe that holds it


async def _work(start: WorkerStart, seat: Seat) -> None:
    try:
        channel = await _join(start, seat)
    except ChannelLostError as alone:
        _say(str(alone))
        os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: None)  # machine 0 is asked, too, and says when
    await Member(channel, seat.rank).run(start)


async def _join(start: WorkerStart, seat: Seat) -> Channel:
    """The line to machine 0, which may not be up yet."""
    loop = asyncio.get_running_loop()
    deadline, trusted = loop.time() + JOIN_LIMIT_S, pinned(start)
    while True:
        try:
            ends = await asyncio.open_connection(seat.address, seat.port, ssl=trusted, limit=BUFFER_BYTES)
            break
        except OSError as refused:
            if loop.time() > deadline:
                raise ChannelLostError(f"machine 0 was not there within {JOIN_LIMIT_S:g} s: {refused}") from refused
            await asyncio.sleep(PAUSE_S)
    channel = Channel(*ends)
    channel.send(to_door("hello", rank=seat.rank, secret=start.secret))
    return channel


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  the log file


if __name__ == "__main__":
    main()
