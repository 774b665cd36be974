"""A desk over a copy of this process, and lines to it, good and bad."""

from __future__ import annotations

import socket
from typing import Any

from runner.worker.acts import LENGTH, Acts
from runner.worker.copy import Copy
from runner.worker.parse import Declared
from runner.worker.testing import ThreadDesk
from tests.runner.worker.conftest import SECRET

LIMIT_S = 60


def frame(content: bytes) -> bytes:
    """The content as it crosses."""
    return LENGTH.pack(len(content)) + content


class Attended(ThreadDesk):
    """With the lines to it, which are closed with it."""

    def __init__(self, copy: Copy, declared: Declared, **options: Any) -> None:
        super().__init__(copy, declared, SECRET, **options)
        self._lines: list[Acts | socket.socket] = []

    def line(self) -> Acts:
        """A client's line."""
        self._lines.append(acts := Acts(self.name, SECRET, LIMIT_S))
        return acts

    def raw(self, sent: bytes = b"") -> socket.socket:
        """A line on which nothing but that was said."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(LIMIT_S)
        line.connect(f"\0{self.name}")
        line.sendall(sent)
        self._lines.append(line)
        return line

    def close(self) -> None:
        """Shut down, and close every line."""
        super().close()
        for line in self._lines:
            line.close()
