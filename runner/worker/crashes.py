"""How often a copy may crash before the worker gives up. Pure."""

from __future__ import annotations

from collections import Counter

SOON_S = 60.0
MOST = 3


class Crashes:
    """Counts, copy by copy, crashes one after another that came within a minute of being up."""

    def __init__(self) -> None:
        self._soon: Counter[int] = Counter()

    def note(self, copy: int, up_s: float | None) -> bool:
        """A copy crashed that had been up for so long (None: never); whether that was once too often."""
        self._soon[copy] = self._soon[copy] + 1 if up_s is None or up_s < SOON_S else 0
        return self._soon[copy] >= MOST
