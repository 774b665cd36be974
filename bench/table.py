"""All results as one table."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from bench.results import Measured, Results
from bench.rows import Row

PLAIN_WIDTH = 400  # no row is folded, so that the table can be put into a document as it is
INTERVAL = ("_low", "_high")


def show(results: Results) -> None:
    """Print it: drawn on a terminal, as Markdown elsewhere."""
    drawn = sys.stdout.isatty()
    console = Console(width=None if drawn else PLAIN_WIDTH)
    table = Table(box=box.HEAVY_HEAD if drawn else box.MARKDOWN)
    for column in ("subject", "what", "figures", "promise"):
        table.add_column(column, overflow="fold")
    for measured in results.subjects:
        for number, row in enumerate(measured.rows):
            table.add_row(measured.subject if number == 0 else "", row.what, figures(row), promised(measured, row))
        if drawn:
            table.add_section()
    console.print(results.where, highlight=False)
    console.print(table)


def figures(row: Row) -> str:
    """A row's figures on one line, an interval in brackets behind its estimate."""
    if row.not_measured is not None:
        return f"not measured: {row.not_measured}"
    told = [_figure(name, row.figures) for name in row.figures if not name.endswith(INTERVAL)]
    return "  ".join(told)


def promised(measured: Measured, row: Row) -> str:
    """What the row is held to, and whether it is kept."""
    mine = [promise for promise in measured.promises if promise.what == row.what]
    return ", ".join(f"{promise.bound}: {'MISSED' if promise.missed(measured.rows) else 'kept'}" for promise in mine)


def _figure(name: str, figures: Mapping[str, float]) -> str:
    low, high = (figures.get(name + end) for end in INTERVAL)
    interval = "" if low is None or high is None else f" [{_number(low)}, {_number(high)}]"
    return f"{name} {_number(figures[name])}{interval}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
