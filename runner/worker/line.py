"""A copy's end of the socket to its door: framed messages, one after the other, for one thread."""

from __future__ import annotations

import socket

from runner.worker.calls import LENGTH


class LineClosedError(Exception):
    """The door is gone."""


class Line:
    """Blocks while it waits; raises LineClosedError when the door is gone."""

    def __init__(self, door: socket.socket) -> None:
        self._socket = door
        self._reader = door.makefile("rb")

    def receive(self) -> bytes:
        """The door's next message."""
        (size,) = LENGTH.unpack(self._read(LENGTH.size))
        return self._read(size)

    def send(self, framed: bytes) -> None:
        """Send one framed message."""
        try:
            self._socket.sendall(framed)
        except OSError as gone:
            raise LineClosedError(str(gone)) from gone

    def _read(self, size: int) -> bytes:
        try:
            message = self._reader.read(size)
        except OSError as gone:
            raise LineClosedError(str(gone)) from gone
        if len(message) < size:
            raise LineClosedError("end of file")
        return message
