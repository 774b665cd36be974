"""The line between two machines of a group: TLS with the worker's own certificate, framed messages, beats both ways."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass

from runner.worker import pem
from runner.worker.calls import LENGTH, framed
from seq.contract.internal import GROUP_PORT, WorkerStart

BEAT_S = 1.0
SILENT_BEATS = 10
BEAT = framed(b"")
BUFFER_BYTES = 4 << 20
CLOSE_LIMIT_S = 5.0


@dataclass(frozen=True)
class Seat:
    """Which of how many machines this is, and where machine 0 waits for the others."""

    rank: int
    size: int
    address: str
    port: int


def seat_of(environ: MutableMapping[str, str]) -> Seat:
    """This machine's, as it was started; the port is taken out, since it is not the policy's matter."""
    rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    return Seat(rank, size, environ["MASTER_ADDR"], int(environ.pop(GROUP_PORT)))


class Pulse:
    """Whether the other end lives, counted in one's own beats: who was stopped himself finds nobody silent. Pure."""

    def __init__(self) -> None:
        self._missed = 0

    def heard(self) -> None:
        """Something came."""
        self._missed = 0

    def beat(self) -> bool:
        """One more beat; whether nothing came for too many of them."""
        self._missed += 1
        return self._missed > SILENT_BEATS


class ChannelLostError(Exception):
    """The other end is gone; the message says how that was found, as the end of a sentence."""


class Channel:
    """One end. Messages arrive whole and in order; `heard_at` is when the last one came, a beat too (loop's time)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pulse = Pulse()
        self._silent = False
        self.heard_at = asyncio.get_running_loop().time()

    def send(self, message: bytes) -> None:
        """Send a framed message; once the other end is gone it is dropped."""
        if not self._writer.is_closing():
            self._writer.write(message)

    async def first(self, limit_s: float, most_bytes: int) -> bytes:
        """The first message of somebody unknown. Raises ChannelLostError where there is none so soon and so short."""
        try:
            return await asyncio.wait_for(self._receive(most_bytes), limit_s)
        except (TimeoutError, asyncio.TimeoutError) as late:
            raise ChannelLostError(f"it said nothing for {limit_s:g} s") from late

    async def messages(self) -> AsyncIterator[bytes]:
        """What the other end says, beats left out; raises ChannelLostError when it is gone or silent."""
        beating = asyncio.get_running_loop().create_task(self._beat())
        try:
            while True:
                message = await self._receive()
                if message:
                    yield message
        finally:
            beating.cancel()

    async def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), CLOSE_LIMIT_S)

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()

    async def _receive(self, most_bytes: int | None = None) -> bytes:
        try:
            (size,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if most_bytes is not None and size > most_bytes:
                raise ChannelLostError(f"it sent {size} bytes before it said who it is")
            message = await self._reader.readexactly(size)
        except (OSError, EOFError) as gone:
            silent = f"it did not answer for {SILENT_BEATS * BEAT_S:g} s"
            raise ChannelLostError(silent if self._silent else "its line was closed") from gone
        self._pulse.heard()
        self.heard_at = asyncio.get_running_loop().time()
        return message

    async def _beat(self) -> None:
        while not self._silent:
            self.send(BEAT)
            await asyncio.sleep(BEAT_S)
            self._silent = self._pulse.beat()
        self.abort()


def serving(start: WorkerStart) -> ssl.SSLContext:
    """What machine 0 shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with pem.files(start.tls_cert, start.tls_key) as (cert, key):
        context.load_cert_chain(cert, key)
    return context


def pinned(start: WorkerStart) -> ssl.SSLContext:
    """Trusts machine 0's certificate alone, at whatever address it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=start.tls_cert)
    return context
