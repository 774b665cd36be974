"""How a report's numbers read, on a terminal, on a page and on a picture."""

from __future__ import annotations

from math import floor, isfinite, log10

_ZERO = 1e-12  # what is left of a rounding error is none of the reader's
_PLAIN, _SMALLEST, _LARGE = 0.01, 1e-4, 1e6


def shown(value: float) -> str:
    """Three places; a value too small or too large for them as many as show three (six) significant digits."""
    return _as(value, abs(value))


def signed(value: float) -> str:
    """The same with its sign; a difference of nothing has a plus."""
    return _signed(value, abs(value))


def bounds(low: float, high: float, *, sign: bool = False) -> str:
    """An interval in brackets, both ends with as many places as the larger one needs."""
    show, size = _signed if sign else _as, max(abs(low), abs(high))
    return f"[{show(low, size)}, {show(high, size)}]"


def _as(value: float, size: float) -> str:
    """A value beside others of which the largest is `size`."""
    if not isfinite(value):
        return str(value)
    if abs(value) < _ZERO:
        return "0.000"
    if _PLAIN <= size < _LARGE:
        return f"{value:.3f}"
    if _SMALLEST <= size < _PLAIN:
        return f"{value:.{2 - floor(log10(size))}f}"
    return f"{value:.3g}" if size < _SMALLEST else f"{value:.6g}"


def _signed(value: float, size: float) -> str:
    return _as(value, size) if value <= -_ZERO else f"+{_as(value, size)}"


def chance(p: float) -> str:
    """A p value after its letter: `=0.031`, or `<0.001` where three places would say zero."""
    return f"={p:.3f}" if p >= 0.001 else "<0.001"


def percent(share: float) -> str:
    """A share as a percentage with one place, never rounded to a certainty that it is not."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def money(usd: float) -> str:
    """Dollars with as many places as the amount needs to be seen."""
    return f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
