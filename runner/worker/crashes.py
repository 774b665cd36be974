"""How often a copy crashed lately, and how long it is left alone for that. Pure."""

from __future__ import annotations

from collections import Counter

SOON_S = 60.0
MOST = 3
PAUSE_MOST_S = 60.0


class Crashes:
    """Counts, copy by copy, crashes one after another that came within a minute of being up."""

    def __init__(self) -> None:
        self._soon: Counter[int] = Counter()

    def note(self, copy: int, up_s: float | None) -> int:
        """A copy crashed that had been up for so long (None: never); how many there were by now, at least 1."""
        self._soon[copy] = self._soon[copy] + 1 if up_s is None or up_s < SOON_S else 1
        return self._soon[copy]


def pause_s(crashes: int) -> float:
    """How long to wait after so many: none after the first, then longer and longer, up to a minute."""
    return 0.0 if crashes <= 1 else min(PAUSE_MOST_S, 2.0 ** (crashes - 1))
