"""What a run says of itself while it runs: its state to a callback, and one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Union

OnStatus = Callable[[str], object]
Progress = Union[bool, str]

STARTING, RUNNING, DONE = "starting", "running", "done"
_SHOWN = {STARTING: "starting…", RUNNING: "running", DONE: "done"}
_WIDTH = max(map(len, _SHOWN.values()))


class Status:
    """Tells each state once, when it changes. `progress`: True shows the line, False never, "auto" on a terminal."""

    def __init__(self, on_status: OnStatus | None, progress: Progress) -> None:
        self._on_status = on_status
        self._shows = sys.stderr is not None and (progress is True or (progress == "auto" and sys.stderr.isatty()))
        self._state: str | None = None

    def tell(self, state: str) -> None:
        """Report `state`. Raises what the callback raises."""
        if state == self._state:
            return
        self._state = state
        if self._shows:
            self._show(state)
        if self._on_status is not None:
            self._on_status(state)

    def _show(self, state: str) -> None:
        end = "\n" if state == DONE else ""
        with suppress(OSError, ValueError):  # a terminal that went away is no reason to stop an arm
            sys.stderr.write(f"\r{_SHOWN[state]:<{_WIDTH}}{end}")
            sys.stderr.flush()
