"""Framed messages over a local socket: four bytes of length, then JSON that carries arrays (`seq.contract.codec`)."""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

from seq.contract import codec

_LENGTH = struct.Struct(">I")
_MAX_FRAME = 1 << 30


class LinkClosedError(Exception):
    """The other side is gone."""


class LinkTimeoutError(Exception):
    """The other side did not answer in time."""


class Link:
    """One end of a conversation; each `send` is answered by one `receive` on the other side."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; raises LinkClosedError when the other side is gone, TypeError on what JSON cannot carry."""
        body = codec.dumps(message)
        if len(body) > _MAX_FRAME:
            raise TypeError(f"a message of {len(body)} bytes is over the limit of {_MAX_FRAME} bytes")
        try:
            self._socket.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as gone:
            raise LinkClosedError(str(gone)) from gone

    def receive(self, limit_s: float | None = None) -> dict[str, Any]:
        """The next message; raises LinkTimeoutError after `limit_s` seconds, LinkClosedError at end-of-file."""
        self._socket.settimeout(limit_s)
        try:
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
            message: dict[str, Any] = codec.loads(self._read(length))
        except TimeoutError as late:
            raise LinkTimeoutError(f"no answer within {limit_s:g} s") from late
        except OSError as gone:
            raise LinkClosedError(str(gone)) from gone
        return message

    def has_message(self) -> bool:
        """Whether a message, or the end, has begun to arrive."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def wait_closed(self) -> None:
        """Return once the other side is gone; whatever it still says is left aside."""
        try:
            while True:
                self.receive()
        except LinkClosedError:
            return

    def close(self) -> None:
        """Close this end; the other side reads end-of-file."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise LinkClosedError("the other side ended")
            parts += part
        return bytes(parts)
