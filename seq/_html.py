"""Small pieces of HTML: elements whose text is always escaped, and bars drawn as inline SVG."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import isfinite

from seq._printable import printable

_WIDTH, _HEIGHT, _EDGE = 130, 14, 3


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A text of anybody's, as HTML that shows it; `Markup` is left as it is."""
    return value if isinstance(value, Markup) else Markup(escape(printable(str(value))))


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """One element. `class_` is the class; an attribute that is None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{join(inside)}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Several pieces in a row."""
    return Markup(between.join(text(part) for part in parts))


def link(address: str, shown: object) -> Markup:
    """A link where the address is one of the web, else its text alone."""
    if not address.startswith(("http://", "https://")):
        return text(shown)
    return tag("a", shown, href=address, target="_blank", rel="noopener")


@dataclass(frozen=True)
class Scale:
    """The values that the bars of one table span."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Scale:
        """From the lowest to the highest, zero included."""
        known = [0.0, *(value for value in values if isfinite(value))]
        return cls(min(known), max(known))

    def x(self, value: float) -> float:
        """Where a value lies, in pixels."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return _EDGE + (_WIDTH - 2 * _EDGE) * min(max(share, 0.0), 1.0)


def bar(mean: float, interval: tuple[float, float] | None, scale: Scale, color: str, told: str) -> Markup:
    """A bar from zero to the mean, with the interval over it."""
    if not isfinite(mean):
        return Markup("")
    zero, end = sorted((scale.x(0.0), scale.x(mean)))
    box = f'<rect x="{zero:.1f}" y="3" width="{end - zero:.1f}" height="8" fill="{text(color)}" fill-opacity="0.75"/>'
    return _drawing(told, box, _interval(interval, scale))


def dot(mean: float, interval: tuple[float, float] | None, scale: Scale, told: str) -> Markup:
    """A point with its interval beside the line of zero."""
    if not isfinite(mean):
        return Markup("")
    zero = scale.x(0.0)
    line = (
        f'<line x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{_HEIGHT}" stroke="currentColor" stroke-opacity="0.5" '
        'stroke-dasharray="2 2"/>'
    )
    point = f'<circle cx="{scale.x(mean):.1f}" cy="7" r="3" fill="currentColor"/>'
    return _drawing(told, line, _interval(interval, scale), point)


def _interval(interval: tuple[float, float] | None, scale: Scale) -> str:
    if interval is None:
        return ""
    low, high = (f"{scale.x(value):.1f}" for value in interval)
    line = f"M{low} 7H{high}M{low} 3.5V10.5M{high} 3.5V10.5"
    return f'<path d="{line}" stroke="currentColor" stroke-width="1.3" fill="none"/>'


def _drawing(told: str, *shapes: str) -> Markup:
    ground = (
        f'<rect x="{_EDGE}" y="3" width="{_WIDTH - 2 * _EDGE}" height="8" fill="currentColor" fill-opacity="0.07"/>'
    )
    return Markup(
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{text(told)}"><title>{text(told)}</title>{ground}{"".join(shapes)}</svg>'
    )
