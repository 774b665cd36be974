"""What a subject yields: rows of figures, and the promises they are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """What was run and its figures; a name ends in its unit, and `X_low`, `X_high` are the 95 % interval of `X`.

    `series` are curves for the picture. `not_measured` is the reason why there are no figures.
    """

    what: str
    figures: Mapping[str, float] = field(default_factory=dict)
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    not_measured: str | None = None


@dataclass(frozen=True)
class Promise:
    """A bound on one figure of one row."""

    what: str
    figure: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def bound(self) -> str:
        """The bound as it is written in the table."""
        return f"{self.figure} ≤ {self.at_most:g}" if self.at_most is not None else f"{self.figure} ≥ {self.at_least:g}"

    def missed(self, rows: Sequence[Row]) -> str | None:
        """A sentence when the bound does not hold, or nothing was measured to hold it against; else None."""
        found = {row.what: row for row in rows}.get(self.what)
        if found is None or found.not_measured is not None or self.figure not in found.figures:
            why = found.not_measured if found is not None and found.not_measured else "there is no such figure"
            return f"{self.what}: {self.bound} was not measured: {why}"
        value = found.figures[self.figure]
        kept = value <= self.at_most if self.at_most is not None else value >= (self.at_least or 0.0)
        return None if kept else f"{self.what}: {self.bound} was promised, and it is {value:.3g}"
