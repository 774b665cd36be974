"""A wait as a person sees it: a bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from typing_extensions import Self


class Progress(Protocol):
    """A `seq._watch.Watch` that draws while it is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def line(self, text: str) -> None:
        """Something happened."""

    def now(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """What is going on."""


def progress(stream: TextIO | None = None) -> Progress:
    """The drawing that fits `stream` (stderr unless given)."""
    stream = stream or sys.stderr
    return Bar() if stream.isatty() else Lines(stream)


class Lines:
    """One line a change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def line(self, text: str) -> None:
        """Print it."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def now(self, text: str, done: int | None = None, total: int | None = None) -> None:  # noqa: ARG002  one shape with Bar
        """Print it: whoever calls does so only on a change."""
        self.line(text)


class Bar:
    """A Rich bar under the lines that were printed."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def line(self, text: str) -> None:
        """Print it above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def now(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show it on the bar, with a share where it can be counted."""
        self._bar.update(self._task, description=text, total=total, completed=done or 0)
