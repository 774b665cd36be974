"""How numbers, times and choices read in the command's output."""

from __future__ import annotations

from typing import Any

from seq._numbers import duration, money

__all__ = ["count", "duration", "money", "short", "size", "yes"]


def count(value: Any) -> str:
    """A count, `unknown` when the platform could not read it."""
    return "unknown" if value is None else str(value)


def size(count_bytes: float) -> str:
    """Bytes in the largest unit that leaves a number of at least one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count_bytes < 1024 or unit == "GiB":
            return f"{count_bytes:.0f} B" if unit == "B" else f"{count_bytes:.1f} {unit}"
        count_bytes /= 1024
    raise AssertionError


def short(text: str, longest: int = 60) -> str:
    """A text on one line, its end replaced by `...` where it is longer than `longest`."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def yes(value: Any) -> str:
    """`yes`, `no`, or nothing when it is not said."""
    return "" if value is None else "yes" if value else "no"
