"""Whether a value that came from outside is what it should be, and how to show one that is not. Pure."""

from __future__ import annotations

import math
from typing import Any


def is_finite(value: Any) -> bool:
    """A number that a float can hold; no text, truth value, NaN or infinity."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # a whole number of 400 digits
        return False


def is_whole(value: Any) -> bool:
    """A whole number; no truth value."""
    return type(value) is int


def shown(value: Any, most: int = 120) -> str:
    """The value as text in a message, cut where it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # too deep, or a number of too many digits
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."
