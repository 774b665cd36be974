"""Which robots' questions are here, and waking those that are held until something of a deployment changes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FURTHER = 2
"""How many more than the slots that became free are woken: who stands in front may be gone."""


@dataclass(frozen=True)
class _Listener:
    position: int
    session: str
    loop: asyncio.AbstractEventLoop
    heard: asyncio.Event
    gone: asyncio.Event


class Bell:
    """Rung and asked from any thread; heard in an event loop by those who stand in front."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung = 0
        self._listening: dict[str, list[_Listener]] = {}
        self._asking: Counter[str] = Counter()

    @property
    def rung(self) -> int:
        """How often, for whatever: read before asking, so that no ring in between goes unheard."""
        return self._rung

    @contextmanager
    def asking(self, session: str) -> Iterator[None]:
        """This robot's question is here, from its arrival to its answer."""
        with self._lock:
            self._asking[session] += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking[session] -= 1
                if not self._asking[session]:
                    del self._asking[session]

    def asks(self) -> frozenset[str]:
        """The robots whose question is here: none of them is silent, however long it is kept waiting."""
        with self._lock:
            return frozenset(self._asking)

    def ring(self, key: str, free: int = 1) -> None:
        """`free` slots became free: those with the foremost positions are woken."""
        with self._lock:
            self._rung += 1
            front = sorted(self._listening.get(key, ()), key=lambda one: one.position)[: free + FURTHER]
        for listener in front:
            listener.loop.call_soon_threadsafe(listener.heard.set)

    def dismiss(self, key: str, session: str) -> None:
        """A robot left: its own questions that are held end."""
        with self._lock:
            mine = [listener for listener in self._listening.get(key, ()) if listener.session == session]
        for listener in mine:
            listener.loop.call_soon_threadsafe(listener.gone.set)
            listener.loop.call_soon_threadsafe(listener.heard.set)

    async def wait(self, key: str, session: str, position: int, since: int, limit_s: float) -> bool:
        """Whether it was rung for `key` within `limit_s` from now, known at once; or anywhere after `since`.

        False for a robot that leaves meanwhile.
        """
        listener = _Listener(position, session, asyncio.get_running_loop(), asyncio.Event(), asyncio.Event())
        with self._lock:
            if self._rung != since:
                return True
            self._listening.setdefault(key, []).append(listener)
        try:
            await asyncio.wait_for(listener.heard.wait(), limit_s)
        except asyncio.TimeoutError:
            return False
        finally:
            with self._lock:
                self._listening[key].remove(listener)
                if not self._listening[key]:
                    del self._listening[key]
        return not listener.gone.is_set()
