"""Who is told how a wait goes: the command draws it, a Python caller stays silent."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Told what happens during a wait."""

    def line(self, text: str) -> None:
        """Something happened: worth keeping on the screen."""

    def now(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """What is going on, until the next call; `done` of `total` where it can be counted."""


class Silent:
    """Tells nobody."""

    def line(self, text: str) -> None:
        """Drop it."""

    def now(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Drop it."""
