"""Acts asked of a model copy on its own socket, by who runs on the same machine: the protocol, and a client of it.

```
client                                              copy
the worker's secret                             ->
an act's body (wire.md 3.2, 3.3), MessagePack   ->
                                                <-  0, then {outputs, perf, warnings?}, MessagePack
                                                <-  1, then an error body (wire.md 1.5), JSON
{"episode_end": id}, MessagePack                ->  (no answer)
```

Each of these is a frame: four bytes of length, big-endian, then so many bytes. Answers come in the order of the acts.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

import msgpack

from seq.contract import codec

LENGTH = struct.Struct(">I")
MOST_BYTES = 1 << 30
MOST_SECRET_BYTES = 4096
MOST_ON_THEIR_WAY = 256
"""Acts of one connection that may be under way, their answers included; more are read once some of these are."""
ANSWERED, REFUSED = b"\0", b"\1"
EPISODE_END = "episode_end"
SENT = "sent_s"
"""The member of an act that says when it was sent (`time.monotonic`), so that its wait for the copy is counted."""

_BUFFER_BYTES = 4096
_SEND_BUFFER_BYTES = 4 << 20  # as much as the system lets one have: an act with its frames is to cross at one go


class ActsError(Exception):
    """The base of the errors here: ActRefusedError, LineLostError."""


class ActRefusedError(ActsError):
    """The worker or the policy refused this act; the parts of the error body are its attributes. The line goes on."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("detail", "")))
        self.detail: str = str(body.get("detail", ""))
        self.code: str = str(body.get("code", ""))
        self.retryable: bool = body.get("retryable") is True
        self.retry_after_s: float | None = body.get("retry_after_s")
        self.request_id: str | None = body.get("request_id")
        self.hint: str | None = body.get("hint")
        self.details: dict[str, Any] = body.get("details") or {}


class LineLostError(ActsError):
    """No answer will come on this line: the copy is gone, or said nothing for too long, or nothing readable."""


class Acts:
    """One line to a copy, for one thread; several acts may be on their way, MOST_ON_THEIR_WAY at most."""

    def __init__(self, name: str | socket.socket, secret: str | None, limit_s: float | None = None) -> None:
        """Connect to the abstract Unix socket `name` (as a worker reports it, without the leading NUL).

        With `limit_s` the line is given up where nothing moves for so long that is waited for. Raises LineLostError.
        """
        self._line = _connected(name) if isinstance(name, str) else name
        self._line.settimeout(limit_s)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        if secret is not None:
            self._send(secret.encode())

    @classmethod
    def over(cls, line: socket.socket, secret: str | None = None, limit_s: float | None = None) -> Acts:
        """The same on a connected stream socket of any kind; without `secret` it was said there already."""
        return cls(line, secret, limit_s)

    def ask(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """One act and its answer: `{outputs, perf, warnings?}`, its arrays made arrays. As `send` and `receive`."""
        self.send(body)
        return self.receive()

    def send(self, body: Mapping[str, Any], *, plain: bool = False) -> None:
        """Send an act; `receive` has its answer.

        The `data` of frames may be bytes; whatever else is no plain data is written as a robot's client writes it.
        `plain` inputs were looked at already (`codec.dumps`).
        Raises LineLostError; TypeError or ValueError where the body cannot be written, and then nothing was sent.
        """
        self._send(packed({**body, SENT: time.monotonic()}, plain=plain))

    def receive(self) -> dict[str, Any]:
        """The answer to the oldest act that has none yet; raises ActRefusedError or LineLostError."""
        (size,) = LENGTH.unpack(self._read(LENGTH.size))
        if not 1 <= size <= MOST_BYTES:
            raise self._lost(f"it announced an answer of {size} bytes")
        frame = self._read(size)
        try:
            return _answer(frame)
        except (ValueError, RecursionError, MemoryError) as wrong:
            raise self._lost(f"its answer cannot be read: {wrong}") from wrong

    def end_episode(self, episode_id: str) -> None:
        """Have what the policy keeps for an episode freed, after the acts sent before. Raises LineLostError."""
        self._send(packed({EPISODE_END: episode_id}))

    def close(self) -> None:
        """Close the line. The policy keeps its episodes until they are ended, or idle for too long."""
        self._line.close()

    def _send(self, content: bytes) -> None:
        if len(content) > MOST_BYTES:
            raise ValueError(f"the body has {len(content)} bytes; a copy takes at most {MOST_BYTES}")
        head = LENGTH.pack(len(content))
        try:
            sent = self._line.sendmsg([head, content])  # together, and without a copy
            if sent < len(head) + len(content):
                self._line.sendall(head[sent:])
                self._line.sendall(memoryview(content)[max(0, sent - len(head)) :])
        except OSError as gone:
            raise self._lost(str(gone)) from gone

    def _read(self, size: int) -> bytearray:
        arrived = bytearray(size)
        into = memoryview(arrived)
        try:
            while into:
                got = self._line.recv_into(into, 0, socket.MSG_WAITALL)
                if got == 0:
                    raise self._lost("it closed the line")
                into = into[got:]
        except OSError as gone:
            raise self._lost(str(gone)) from gone
        return arrived

    def _lost(self, how: str) -> LineLostError:
        self._line.close()  # what comes later would be taken for the answer to another act
        return LineLostError(f"the line to the model copy is lost: {how}")


def _connected(name: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(f"\0{name}")
    except OSError as gone:
        line.close()
        raise LineLostError(f"no copy listens as {name}: {gone}") from gone
    return line


def packed(body: Mapping[str, Any], *, plain: bool = False) -> bytes:
    """A request's content. Raises TypeError or ValueError on what cannot be written."""
    if "inputs" in body:
        return codec.dumps(body, codec.MSGPACK, plain=plain)
    written: bytes = msgpack.packb(body, default=_listed, unicode_errors="surrogatepass", buf_size=_BUFFER_BYTES)
    return written


def _listed(value: Any) -> Any:
    """Vectors and numbers of numpy's; the copy itself checks what an observation holds."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"a {type(value).__name__} cannot cross the wire; send numbers, strings, lists or dicts")
    return value.tolist()


def _answer(frame: bytearray) -> dict[str, Any]:
    content = memoryview(frame)[1:]
    if frame.startswith(REFUSED):
        raise ActRefusedError(_map(json.loads(bytes(content))))
    if not frame.startswith(ANSWERED):
        raise ValueError(f"it begins with {frame[0]}")
    answer = _map(codec.unpack(content))
    return codec.decode(answer) if b"__nd__" in frame else answer


def _map(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ValueError(f"it is a {type(answer).__name__}")  # noqa: TRY004  as whatever else is wrong with it
    return answer
