"""A process that must not outlive the one that started it."""

from __future__ import annotations

import os
import threading


def hold(descriptor: int) -> None:
    """End this process at once when the pipe behind `descriptor` reads end-of-file: its holder is gone.

    A thread of its own, so that a long simulation step does not delay it.
    """
    threading.Thread(target=_watch, args=(descriptor,), name="leash", daemon=True).start()


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass
    os._exit(1)
