"""An episode as its caller names it, and what it is called at each worker that played a part of it."""

from __future__ import annotations

import threading
from typing import Callable


class Episode:
    """A worker that takes over never saw the part played elsewhere, so there the episode has a new id.

    `name` is None for acts that belong to no episode. `begun` once a worker has answered an act of it, for before that
    no policy can remember anything.
    """

    def __init__(self, name: str | None, new_id: Callable[[int], str]) -> None:
        self.name = name
        self.begun = False
        self._new_id = new_id
        self._lock = threading.Lock()
        self._at: int | None = None
        self._ids: list[str] = [] if name is None else [name]

    @property
    def ids(self) -> list[str]:
        """Every id it had, oldest first."""
        return list(self._ids)

    @property
    def last_id(self) -> str | None:
        """The id it has at the worker that played it last."""
        return self._ids[-1] if self._ids else None

    @property
    def resets(self) -> int:
        """How often another worker, or another model copy, took over."""
        return max(0, len(self._ids) - 1)

    def forgotten(self) -> None:
        """The copy that remembered it is gone, and its worker is not: another copy there begins it anew."""
        with self._lock:
            if self.name is not None and self.begun:
                self._ids.append(self._new_id(128))

    def id_at(self, worker: int) -> str | None:
        """Its id at the worker of this number; workers are numbered in the order in which they took over."""
        if self.name is None:
            return None
        with self._lock:
            moved = self._at is not None and worker > self._at
            if moved and self.begun:
                self._ids.append(self._new_id(128))
            if moved or self._at is None:
                self._at = worker
            return self._ids[-1]
