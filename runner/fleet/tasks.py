"""Slow work beside the loop: one task a key at a time, never twice at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

Work = Callable[[], None]
Spawn = Callable[[Work], None]

log = structlog.get_logger(__name__)


def in_thread(work: Work) -> None:
    """Run in a thread that does not keep the platform from ending."""
    threading.Thread(target=work, daemon=True).start()


class Tasks:
    """Runs work by key; `done` is called after each (it wakes the loop). Tests pass a `spawn` that runs in place."""

    def __init__(self, done: Work, spawn: Spawn = in_thread) -> None:
        self._done = done
        self._spawn = spawn
        self._lock = threading.Lock()
        self._keys: set[str] = set()

    def busy(self, key: str) -> bool:
        """Whether the key's work is still running."""
        with self._lock:
            return key in self._keys

    def start(self, key: str, work: Work, failed: Callable[[Exception], None] | None = None) -> None:
        """Start the key's work unless it runs; `failed` gets what the work raised."""
        with self._lock:
            if key in self._keys:
                return
            self._keys.add(key)
        self._spawn(lambda: self._run(key, work, failed))

    def _run(self, key: str, work: Work, failed: Callable[[Exception], None] | None) -> None:
        try:
            try:
                work()
            except Exception as error:
                log.exception("task failed", key=key)
                if failed is not None:
                    failed(error)
        finally:
            with self._lock:
                self._keys.discard(key)
            self._done()
