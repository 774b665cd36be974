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
        self._arrived = bytearray(1 << 20)  # used again and again: fresh memory costs more than the copy into it

    def fileno(self) -> int:
        """For whoever waits for several: it is readable once the door says something."""
        return self._socket.fileno()

    def receive(self) -> memoryview:
        """The door's next message, good until the next one is received."""
        (size,) = LENGTH.unpack(self._read(LENGTH.size))
        if size > len(self._arrived):
            self._arrived = bytearray(size)
        return self._read(size)

    def send(self, framed: bytes) -> None:
        """Send one framed message."""
        try:
            self._socket.sendall(framed)
        except OSError as gone:
            raise LineClosedError(str(gone)) from gone

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _read(self, size: int) -> memoryview:
        message = memoryview(self._arrived)[:size]
        got = 0
        while got < size:
            try:
                part = self._socket.recv_into(message[got:], size - got, socket.MSG_WAITALL)
            except OSError as gone:
                raise LineClosedError(str(gone)) from gone
            if part == 0:
                raise LineClosedError("end of file")
            got += part
        return message
