"""Who may ask a copy on its own socket: let in at its name, waited for together with its door, closed for silence."""

from __future__ import annotations

import selectors
import socket
from selectors import EVENT_READ
from typing import Generic, NamedTuple, TypeVar

from runner.worker.connection import Connection
from runner.worker.line import Line

T = TypeVar("T")

BACKLOG = 128
MOST_STRANGERS = 64


class Heard(NamedTuple, Generic[T]):
    """Whether the door has something to say, and the connections that are ready, each with what for."""

    door: bool
    ready: list[tuple[Connection[T], int]]


class Connections(Generic[T]):
    """Listens from the begin; raises OSError where the name is taken.

    Of those that have not shown the secret yet only the latest 64 are kept: they would use up the policy's descriptors.
    """

    def __init__(self, name: str, door: Line) -> None:
        self._watched_for: dict[Connection[T], int] = {}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(f"\0{name}")
        self._listening.listen(BACKLOG)
        self._listening.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(door, EVENT_READ, self)
        self._selector.register(self._listening, EVENT_READ)
        self._accepts = True

    def __len__(self) -> int:
        return len(self._watched_for)

    def wait(self, limit_s: float, now: float) -> Heard[T]:
        """What is ready, or has become so within the limit; who connects is let in."""
        door, ready = False, []
        for key, events in self._selector.select(limit_s):
            if isinstance(key.data, Connection):
                ready.append((key.data, events))
            elif key.data is self:
                door = True
            else:
                self._accept(now)
        return Heard(door, ready)

    def watch(self, line: Connection[T]) -> None:
        """Wait from now on for what the connection waits for, if it is open."""
        events = line.events
        known = self._watched_for.get(line)
        if known is None or known == events:
            return
        if known:  # a selector knows no waiting for nothing
            self._selector.unregister(line.line)
        if events:
            self._selector.register(line.line, events, line)
        self._watched_for[line] = events

    def close(self, line: Connection[T]) -> None:
        """Close one."""
        if self._watched_for.pop(line, None):
            self._selector.unregister(line.line)
        line.close()

    def close_all(self) -> None:
        """Close every one, and listen no more."""
        for line in list(self._watched_for):
            self.close(line)
        self._selector.close()
        self._listening.close()

    def tend(self, now: float) -> None:
        """Close those that said or took nothing for too long; to be done every now and then."""
        for line in [line for line in self._watched_for if line.overdue(now)]:
            self.close(line)
        if not self._accepts:
            self._selector.register(self._listening, EVENT_READ)
            self._accepts = True

    def _accept(self, now: float) -> None:
        """Let in who waits; while no descriptor is left nobody, since the policy may want one, too."""
        try:
            for _ in range(BACKLOG):
                line: Connection[T] = Connection(self._listening.accept()[0], now)
                self._selector.register(line.line, EVENT_READ, line)
                self._watched_for[line] = EVENT_READ
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass
        except OSError:
            self._selector.unregister(self._listening)
            self._accepts = False
        strangers = [line for line in self._watched_for if not line.known]
        for stranger in strangers[: max(0, len(strangers) - MOST_STRANGERS)]:
            self.close(stranger)
