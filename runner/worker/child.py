"""The door's end of one copy's process: started, asked, heard, ended with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from runner.worker.calls import LENGTH, Call, CopyStart, Done, Order, order_to_copy, read_told, start_to_copy
from runner.worker.memory import Reason

MODULE = "runner.worker.copy_process"
LAST_WORDS_S = 0.2
SEND_BUFFER_BYTES = 4 << 20  # as much as the system lets one have: an act with its frames is to cross at one go


class CopyFailedError(Exception):
    """A copy did not come up: a sentence, the policy's own traceback, and the cause where it is a known one."""

    def __init__(self, sentence: str, traceback: str | None = None, reason: Reason | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.traceback = traceback
        self.reason = reason


class Listener(Protocol):
    """Who owns a copy hears of it, in the loop's thread."""

    def warming_up(self) -> None:
        """The copy is loaded and runs the warmup hook."""

    def answered(self, copy: int, answers: list[Done]) -> None:
        """The copy is done with its turn."""

    def lost(self, copy: int) -> None:
        """A copy that was up is ending; `ended` will say how. Told once."""


class Child(asyncio.Protocol):
    """`up` is what the copy said of itself once it serves, or a CopyFailedError; `ended` how its process ended.

    `up_at` is when it came up (monotonic), `going` whether it is ending since.
    """

    def __init__(self, number: int, listener: Listener) -> None:
        self.number = number
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self.up: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.down: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self.up_at: float | None = None
        self._arrived = bytearray()
        self._phase = "load"
        self.going = False
        self._killed = False
        self._because: str | None = None
        self._closed = False
        self._code: int | None = None

    async def begin(self, start: CopyStart, env: Mapping[str, str]) -> None:
        """Start the process and tell it what to load; `up` says so where it cannot be started."""
        try:
            ours = self._spawn(env, () if start.desk is None else (start.desk.tally,))
        except OSError as failed:
            self.going = True
            self.ended.set_result(f"could not be started: {failed}")
            self.up.set_exception(self._failure(self.ended.result()))
            return
        threading.Thread(target=self._watch, name=f"copy {self.number}", daemon=True).start()
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=ours)
        self._transport.write(start_to_copy(start))

    @property
    def reason(self) -> Reason:
        """Why it ended: by itself, or because it had to go."""
        return "crashed" if self._because is None else "stuck"

    @property
    def pid(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def ask(self, calls: tuple[Call, ...]) -> None:
        """Run the acts of one turn; the listener hears the answers."""
        self.pass_on(order_to_copy(Order("run", calls)))

    def end_episode(self, episode_id: str) -> None:
        """Tell the policy, after what was asked before, that an episode ended."""
        self.pass_on(order_to_copy(Order("end_episode", episode_id=episode_id)))

    def drain(self) -> None:
        """Have it take no more acts on its own socket, where it has one."""
        self.pass_on(order_to_copy(Order("drain")))

    def shut_down(self) -> None:
        """Have the policy shut down after what was asked before; `down` is done once it has, or the copy ended."""
        self.pass_on(order_to_copy(Order("shutdown")))

    def pass_on(self, order: bytes) -> None:
        """Have it do what a framed order says, after what was asked before."""
        self._transport.write(order)

    def kill(self, because: str | None = None) -> None:
        """End the process at once, and what it started; `because` tells why a copy that is stuck had to go."""
        self._killed = True
        self._because = self._because or because
        if not self.ended.done():
            self._kill_group()

    def data_received(self, data: bytes) -> None:
        """What the copy said."""
        self._arrived += data
        while len(self._arrived) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._arrived)
            end = LENGTH.size + size
            if len(self._arrived) < end:
                return
            message = bytes(memoryview(self._arrived)[LENGTH.size : end])
            del self._arrived[:end]
            self._hear(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the protocol's signature
        """The copy ended, or closed its line, which ends it."""
        self._closed = True
        self._ending()
        if self._code is None:
            self._kill_group()
        else:
            self._settle()

    def _spawn(self, env: Mapping[str, str], shared: tuple[int, ...]) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        held_by, self._leash = os.pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(held_by)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), held_by, *shared),
                env=dict(env),
                start_new_session=True,
            )
        os.close(held_by)
        return ours

    def _hear(self, message: bytes) -> None:
        facts, answers = read_told(message)
        told = facts["told"]
        if told == "answers":
            self._listener.answered(self.number, answers)
        elif told == "warmup":
            self._phase = told
            self._listener.warming_up()
        elif told == "up":
            self.up_at = time.monotonic()
            self.up.set_result(facts)
        elif told == "failed":
            self.up.set_exception(CopyFailedError(facts["error"], facts["traceback"], facts["reason"]))
        elif not self.down.done():
            self.down.set_result(None)

    def _watch(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the worker with it
            self._loop.call_soon_threadsafe(self._exited, code)

    def _exited(self, code: int) -> None:
        self._code = code
        self._ending()
        self._kill_group()  # what the policy started, and may hold the line open
        if self._closed:
            self._settle()
        else:
            self._loop.call_later(LAST_WORDS_S, self._settle)

    def _ending(self) -> None:
        if not self.going:
            self.going = True
            if self.up_at is not None:
                self._listener.lost(self.number)

    def _settle(self) -> None:
        """Say how it ended, once: whatever it said before has been heard."""
        if self.ended.done() or self._code is None:
            return
        os.close(self._leash)
        self._transport.abort()
        how = self._because or how_ended(self._code)
        if not self.up.done():
            self.up.set_exception(self._failure(how))
        if not self.down.done():
            self.down.set_result(None)
        self.ended.set_result(how)

    def _failure(self, how: str) -> CopyFailedError:
        if self._code == -signal.SIGKILL and not self._killed:
            return CopyFailedError(
                f"{self._phase} failed: model copy {self.number} {how}, as a machine out of memory does",
                reason="host_out_of_memory",
            )
        return CopyFailedError(f"{self._phase} failed: model copy {self.number} {how}", reason="crashed")

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def how_ended(code: int) -> str:
    """How a process ended, as the end of a sentence."""
    if code >= 0:
        return f"ended with exit code {code}"
    known = {int(number): number.name for number in signal.Signals}
    return f"was killed by signal {-code} ({known.get(-code, 'unknown')})"
