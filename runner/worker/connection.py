"""A copy's end of one connection to it: frames in and out, and never a wait for the other end."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from selectors import EVENT_READ, EVENT_WRITE
from typing import Generic, TypeVar

from runner.worker.acts import LENGTH, MOST_BYTES, MOST_ON_THEIR_WAY, MOST_SECRET_BYTES

T = TypeVar("T")

BUFFER_BYTES = 64 << 10
KEPT_BYTES = 16 << 20
HELLO_LIMIT_S = 10.0
ANSWER_LIMIT_S = 300.0  # its client may step a simulation for long before it reads


class ConnectionLostError(Exception):
    """The other end is gone, or is none to go on with."""


class Connection(Generic[T]):
    """`asked` is what came and is not answered yet, the oldest first; `known` whether the secret was shown."""

    def __init__(self, line: socket.socket, now: float) -> None:
        line.setblocking(False)
        self.line = line
        self.asked: deque[T] = deque()
        self.known = False
        self.closed = False
        self._since = now  # of the last progress, for whoever has a limit
        self._use(bytearray(BUFFER_BYTES))
        self._have = 0
        self._unsent: deque[memoryview] = deque()

    @property
    def events(self) -> int:
        """What to wait for: requests unless too many are under way, and room for answers that are not taken yet."""
        reads = EVENT_READ if len(self.asked) + len(self._unsent) < MOST_ON_THEIR_WAY else 0
        return reads | (EVENT_WRITE if self._unsent else 0)

    def overdue(self, now: float) -> bool:
        """Whether it did not say who it is, or did not take an answer, for too long."""
        limit_s = ANSWER_LIMIT_S if self.known else HELLO_LIMIT_S
        return (not self.known or bool(self._unsent)) and now - self._since > limit_s

    def frames(self) -> Iterator[memoryview]:
        """The frames that are whole by now, after one look at what arrived; each is good until the next is taken.

        Raises ConnectionLostError at end-of-file, and on a frame longer than may be.
        """
        self._take()
        at = 0
        while (end := self._end(at)) is not None and end <= self._have:
            yield self._view[at + LENGTH.size : end]
            at = end
        if at == self._have and len(self._buffer) > KEPT_BYTES:
            self._use(bytearray(BUFFER_BYTES))
        elif 0 < at < self._have:
            self._view[: self._have - at] = self._view[at : self._have]
        self._have -= at

    def send(self, kind: bytes, content: bytes, now: float) -> None:
        """Send a frame of the kind and the content, what cannot go now later; raises ConnectionLostError."""
        head = LENGTH.pack(len(kind) + len(content)) + kind
        sent = 0 if self._unsent else self._sent([head, content])
        if sent == len(head) + len(content):
            return
        if not self._unsent:
            self._since = now
        left = [memoryview(head)[sent:], memoryview(content)[max(0, sent - len(head)) :]]
        self._unsent += [part for part in left if part]

    def flush(self, now: float) -> None:
        """Send what was left, as far as there is room now; raises ConnectionLostError."""
        while self._unsent:
            sent = self._sent([self._unsent[0]])
            if sent:
                self._since = now
            if sent < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][sent:]
                return
            self._unsent.popleft()

    def close(self) -> None:
        """Close it; the buffers go at once."""
        self.closed = True
        self.line.close()
        self._unsent.clear()
        self._use(bytearray())

    def _use(self, buffer: bytearray) -> None:
        self._buffer, self._view = buffer, memoryview(buffer)

    def _end(self, at: int) -> int | None:
        """Where the frame that begins there ends; None while its length is not there."""
        if self._have - at < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(self._buffer, at)
        if size > (MOST_BYTES if self.known else MOST_SECRET_BYTES):
            raise ConnectionLostError(f"a frame of {size} bytes")
        return at + LENGTH.size + int(size)

    def _take(self) -> None:
        """Read what arrived: small frames together, a large one to its end, the memory for it growing as it comes."""
        most = max(self._end(0) or 0, BUFFER_BYTES)
        if self._have == len(self._buffer):
            larger = bytearray(min(most, 2 * self._have))
            larger[: self._have] = self._buffer
            self._use(larger)
        try:
            got = self.line.recv_into(self._view[self._have : most])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as gone:
            raise ConnectionLostError(str(gone)) from gone
        if got == 0:
            raise ConnectionLostError("end of file")
        self._have += got

    def _sent(self, parts: list[bytes] | list[memoryview]) -> int:
        try:
            return self.line.sendmsg(parts, [], socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as gone:
            raise ConnectionLostError(str(gone)) from gone
