"""Messages between the robot's driver and the simulated robot: a length, then JSON, over a socket of this machine."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_HEAD = struct.Struct("!I")
LONGEST = 4 * 1024 * 1024


class GoneError(Exception):
    """The other end is not there any more, or does not answer."""


class WrongRequestError(Exception):
    """The robot cannot do what was asked; the message says why. Nothing was changed."""


def pack(message: dict[str, Any]) -> bytes:
    """One message as it is sent."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return _HEAD.pack(len(body)) + body


class Inbox:
    """Puts messages together from what arrives in pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """The messages that `piece` completes, oldest first; raises ValueError for what can be none."""
        self._bytes += piece
        whole = []
        while len(self._bytes) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._bytes)
            if length > LONGEST:
                raise ValueError(f"a message of {length} bytes is longer than any there is")
            end = _HEAD.size + length
            if len(self._bytes) < end:
                break
            whole.append(json.loads(self._bytes[_HEAD.size : end]))
            del self._bytes[:end]
        return whole


def done(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that was done; raises WrongRequestError with what the robot says otherwise."""
    if "wrong" in answer:
        raise WrongRequestError(answer["wrong"])
    return answer


class Line:
    """The driver's end: ask, and get the answer."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 2.0) -> None:
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except (OSError, OverflowError) as none:
            raise GoneError(f"no robot listens on port {port}: {none}") from none
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._inbox = Inbox()

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send one request and return its answer; raises GoneError when none comes, WrongRequestError when refused."""
        try:
            self._socket.sendall(pack({"do": do, **fields}))
            return done(self._answer())
        except OSError as lost:
            raise GoneError(f"the robot does not answer: {lost}") from lost

    def _answer(self) -> dict[str, Any]:
        while True:
            piece = self._socket.recv(65536)
            if not piece:
                raise GoneError("the robot closed the connection")
            messages = self._inbox.feed(piece)
            if messages:
                return messages[0]

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
