"""What a process prints goes to the worker's log; a log that cannot be written (a full disk) fails nothing."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Forgiving(io.RawIOBase):
    """Writes to a descriptor; what cannot be written is dropped."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            return size
        return size


def forgive() -> None:
    """Have this process print without ever failing."""
    sys.stdout, sys.stderr = _text(1), _text(2)


def _text(descriptor: int) -> io.TextIOWrapper:
    raw: Any = _Forgiving(descriptor)  # typeshed wants a name of it, which nothing reads
    return io.TextIOWrapper(raw, "utf-8", errors="backslashreplace", write_through=True)
