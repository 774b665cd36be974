"""Bad networks on purpose: a TCP proxy on this machine whose faults are switched while traffic runs.

```
with FaultProxy() as network:
    url = network.door("https://127.0.0.1:8443")  # bytes pass through untouched, so TLS and its pin stay real
    network.delay(0.15, jitter_s=0.03)
    ...
    network.stall()
    ...
    network.heal()
```
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PART_BYTES = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)  # closing sends a reset, and drops what was not sent
_SWITCH_LIMIT_S = 10.0


class FaultProxy:
    """Doors to servers, and one network behind all of them whose faults may be switched at any moment from any thread.

    A switch is in force when its call returns. `heal` ends them all but `delay`. Opening a connection costs no delay,
    only what is sent over it. `seed` decides the jitter. Use it as a context manager, or `close` it.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._lock = threading.Lock()
        self._closed = False
        self._tasks: set[asyncio.Future[None]] = set()
        self._doors: dict[str, _Door] = {}
        self._lines: set[_Line] = set()
        self._accepted = 0
        self._faults = self._do(_made(random.Random(seed)))  # noqa: S311  jitter is no secret

    def door(self, url: str) -> str:
        """The address of a door in front of the server at `url`; one server has one door for ever."""
        return self._do(self._open_door(url))

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._lines)

    @property
    def accepted(self) -> int:
        """How many were ever opened."""
        return self._accepted

    def delay(self, round_trip_s: float, *, jitter_s: float = 0.0) -> None:
        """Add `round_trip_s`, give or take up to `jitter_s`, half each way; bytes stay in order. 0 ends it."""
        self._switch(lambda: self._faults.slow_down(round_trip_s, jitter_s))

    def stall(self) -> None:
        """Deliver nothing either way; connections stay open, and what was sent arrives once it heals."""
        self._switch(self._faults.flowing.clear)

    def half_open(self) -> None:
        """Take everything that is sent and bring it to the server; nothing of the server's arrives any more."""
        self._switch(lambda: setattr(self._faults, "half_open", True))

    def forget(self) -> None:
        """Drop what is sent over the connections of now, both ways and without a word; new ones work.

        So does a router that lost its table.
        """
        self._switch(self._forget_all)

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._do(self._cut())

    def reset(self) -> None:
        """Reset every connection; new ones are welcome."""
        self._switch(self._reset_all)

    def hang_up(self) -> None:
        """Close every connection in good order, as a server does with idle ones."""
        self._switch(self._hang_up_all)

    def reset_request(self, *, after: int = 0) -> None:
        """Reset the connection that next sends `after` bytes and more to a server, which gets no byte beyond them."""
        self._switch(lambda: self._faults.break_next(answer=False, after=after))

    def reset_answer(self, *, after: int = 0) -> None:
        """Reset the connection that next gets `after` bytes and more from a server; the client gets none beyond them.

        Counted in bytes on the wire, from now on. With 0 the server got the whole request and the client no answer.
        """
        self._switch(lambda: self._faults.break_next(answer=True, after=after))

    def heal(self) -> None:
        """End every fault but the delay. Connections that lost bytes are reset, as their far end would do."""
        self._do(self._heal())

    def close(self) -> None:
        """Reset every connection and close the doors; closing again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_SWITCH_LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> FaultProxy:  # noqa: PYI034  typing.Self is not on 3.9, and nothing derives from this
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._closed:
                work.close()
                raise ConnectionError("this proxy is closed")
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SWITCH_LIMIT_S)

    def _switch(self, change: Callable[[], object]) -> None:
        async def changed() -> None:
            change()

        self._do(changed())

    async def _open_door(self, url: str) -> str:
        if url not in self._doors:
            door = _Door(url)
            self._doors[url] = door
            if not self._faults.cut:
                await door.open(self._accept)
        return self._doors[url].url

    def _accept(self, door: _Door, here: _Stream) -> None:
        if self._faults.cut:  # it was in the queue of the port when that was shut
            _reset(here[1])
            return
        task = asyncio.ensure_future(self._carry(door, here))
        self._tasks.add(task)

        def carried(task: asyncio.Future[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():  # the server may not have been reached yet, so no line closes this end
                _reset(here[1])

        task.add_done_callback(carried)

    async def _carry(self, door: _Door, here: _Stream) -> None:
        self._accepted += 1
        try:
            there = await asyncio.open_connection(*door.target)
        except OSError:
            _reset(here[1])
            return
        line = _Line(self._faults, here, there)
        self._lines.add(line)
        try:
            await line.carry()
        finally:
            self._lines.discard(line)

    def _reset_all(self) -> None:
        for line in self._lines:
            line.reset()

    def _hang_up_all(self) -> None:
        for line in self._lines:
            line.hang_up()

    def _forget_all(self) -> None:
        for line in self._lines:
            line.forgotten = True

    async def _cut(self) -> None:
        self._faults.cut = True
        for door in self._doors.values():
            await door.shut()
        self._reset_all()

    async def _heal(self) -> None:
        was_cut = self._faults.cut
        self._faults.heal()
        for line in self._lines:
            if line.lost or line.forgotten:
                line.reset()
        for door in self._doors.values():
            if was_cut:
                await door.open(self._accept)

    async def _end(self) -> None:
        await self._cut()
        for door in self._doors.values():
            door.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close their sockets in the loop's next round


@dataclass
class _Faults:
    """The state of the network, read and changed in the loop's thread alone."""

    chance: random.Random
    flowing: asyncio.Event
    delay_s: float = 0.0
    jitter_s: float = 0.0
    half_open: bool = False
    cut: bool = False
    breaks: dict[bool, _Break] = field(default_factory=dict)

    def slow_down(self, delay_s: float, jitter_s: float) -> None:
        self.delay_s, self.jitter_s = delay_s, jitter_s

    def one_way_s(self) -> float:
        return max(0.0, self.delay_s + self.chance.uniform(-self.jitter_s, self.jitter_s)) / 2

    def break_next(self, *, answer: bool, after: int) -> None:
        self.breaks[answer] = _Break(after)

    def heal(self) -> None:
        self.flowing.set()
        self.half_open = self.cut = False
        self.breaks.clear()


@dataclass
class _Break:
    """A reset to come, and how many bytes each line may still carry before it."""

    after: int
    left: dict[_Line, int] = field(default_factory=dict)


async def _made(chance: random.Random) -> _Faults:
    flowing = asyncio.Event()
    flowing.set()
    return _Faults(chance, flowing)


class _Door:
    """A listening port; while it is shut the port stays ours, bound and refusing."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        if host is None or port is None:
            raise ValueError(f"{url!r} is no address: give one like https://127.0.0.1:8443")
        self.target = (host, port)
        self._bound = _bound(0)
        self._server: asyncio.AbstractServer | None = None
        self._port: int = self._bound.getsockname()[1]
        self.url = f"{parts.scheme}://127.0.0.1:{self._port}{parts.path}"

    async def open(self, accept: Callable[[_Door, _Stream], None]) -> None:
        self._server = await asyncio.start_server(lambda *here: accept(self, here), sock=self._bound)

    async def shut(self) -> None:
        if self._server is not None:
            # a connection that was just taken is never closed by asyncio if the server ends before its task begins
            asyncio.get_running_loop().remove_reader(self._bound)
            await asyncio.sleep(0)
            self._server.close()
            self._server = None
            self._bound = _bound(self._port)

    def close(self) -> None:
        self._bound.close()


def _bound(port: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only where the protocol is named; without it small parts wait 40 ms
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


class _Line:
    """One client's connection and the one to its server, carried until either end closes or a fault ends it."""

    def __init__(self, faults: _Faults, here: _Stream, there: _Stream) -> None:
        self._faults = faults
        self._here, self._there = here, there
        self._over = asyncio.Event()
        self.lost = False  # bytes were taken and never delivered
        self.forgotten = False  # bytes are taken and delivered no more

    async def carry(self) -> None:
        """Both ways at once; returns when the line is over."""
        ways = [
            asyncio.ensure_future(self._way(self._here[0], self._there[1], answer=False)),
            asyncio.ensure_future(self._way(self._there[0], self._here[1], answer=True)),
        ]
        both, over = asyncio.ensure_future(_all(ways)), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({both, over}, return_when=asyncio.FIRST_COMPLETED)
            if both.done() and both.exception() is not None:  # one end was reset, so is the other
                self.reset()
        finally:
            for task in (both, over, *ways):
                task.cancel()
            await asyncio.gather(both, over, *ways, return_exceptions=True)
            self.hang_up()

    def reset(self) -> None:
        """Reset both connections, now."""
        _reset(self._here[1])
        _reset(self._there[1])
        self._over.set()

    def hang_up(self) -> None:
        """Close both connections in good order."""
        self._here[1].close()
        self._there[1].close()
        self._over.set()

    async def _way(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answer: bool) -> None:
        """One direction: what is read is delivered when it is due, in order."""
        sent: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read(source, sent))
        try:
            while True:
                due, part = await sent.get()
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                await self._faults.flowing.wait()
                if sink.is_closing():
                    return
                if not part:
                    sink.write_eof()
                    return
                await self._deliver(part, sink, answer=answer)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, source: asyncio.StreamReader, sent: asyncio.Queue[tuple[float, bytes]]) -> None:
        loop, due, part = asyncio.get_running_loop(), 0.0, b"first"
        while part:
            try:
                part = await source.read(_PART_BYTES)
            except OSError:
                self.reset()
                return
            due = max(due, loop.time() + self._faults.one_way_s())
            sent.put_nowait((due, part))

    async def _deliver(self, part: bytes, sink: asyncio.StreamWriter, *, answer: bool) -> None:
        if self.forgotten or (answer and self._faults.half_open):
            self.lost = True
            return
        coming = self._faults.breaks.get(answer)
        left = len(part) + 1 if coming is None else coming.left.setdefault(self, coming.after)
        sink.write(part[:left])
        if len(part) >= left:
            del self._faults.breaks[answer]
            self.reset()
        elif coming is not None:
            coming.left[self] = left - len(part)
        await sink.drain()


async def _all(ways: Sequence[asyncio.Future[None]]) -> None:
    await asyncio.gather(*ways)


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() != -1:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
