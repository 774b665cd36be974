"""Colours that readers with any colour vision can tell apart: Okabe and Ito's eight (2008), less black and yellow."""

from __future__ import annotations

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
HATCHES = ("", "///", "...", "xxx", "\\\\\\")  # beyond the sixth, the same colours with a pattern


def color(place: int) -> str:
    """The colour of the arm at `place`."""
    return COLORS[place % len(COLORS)]


def hatch(place: int) -> str:
    """The pattern of the arm at `place`: none for the first six."""
    return HATCHES[place // len(COLORS) % len(HATCHES)]
