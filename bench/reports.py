"""Reading an eval of a million episodes: its report, its details, and its episodes page by page, as a CSV reads them.

Each is asked of a gateway in a process of its own, without a socket between, over a store with made-up episodes. Of the
pages some are read, evenly spread, and all of them are taken to be as long.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.rows import Promise, Row
from bench.supports.children import Child
from bench.supports.million import cursor
from bench.supports.platform import ROOT

REPORT, DETAILS, PAGES = "the report", "the details", "all pages of episodes"
PAGE = 200
PROMISES = tuple(
    Promise(what, figure, at_most=bound)
    for what in (REPORT, DETAILS, PAGES)
    for figure, bound in (("s", 10.0), ("peak_gib", 1.5))
)


@dataclass(frozen=True)
class Size:
    """Episodes, and how many pages of them are read."""

    episodes: int = 1_000_000
    pages: int = 50


FULL, TINY = Size(), Size(episodes=460, pages=3)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  the episodes are the same every time
    """One row for each of the three."""
    with tempfile.TemporaryDirectory(prefix="seq-bench-") as made:
        folder = Path(made)
        with _reader(folder) as child:
            child.ask("build", folder=str(folder / "home"), episodes=size.episodes)
        return [_whole(folder, REPORT, "", size), _whole(folder, DETAILS, "/details", size), _pages(folder, size)]


def _whole(folder: Path, what: str, path: str, size: Size) -> Row:
    with _opened(folder) as child:
        told = child.ask("get", path=path)
    if what == REPORT and not 0.99 * size.episodes < told["body"]["metrics"]["success"]["n"] < size.episodes + 1:
        raise AssertionError(f"the report is over {told['body']['metrics']['success']['n']} episodes")
    return Row(what, {"s": told["s"], "peak_gib": told["peak_gib"], "mb": told["mb"], "episodes": size.episodes})


def _pages(folder: Path, size: Size) -> Row:
    count = -(-size.episodes // PAGE)
    numbers = np.linspace(0, count - 1, min(size.pages, count)).astype(int).tolist()
    with _opened(folder) as child:
        told = [child.ask("get", path="/episodes", limit=PAGE, cursor=cursor(PAGE * number)) for number in numbers]
    for number, page in zip(numbers, told, strict=True):
        if page["body"]["episodes"][0]["index"] != PAGE * number:
            raise AssertionError(f"page {number} begins with another episode than {PAGE * number}")
    ms = [1000 * page["s"] for page in told]
    figures = {"s": count * float(np.mean(ms)) / 1000, "peak_gib": told[-1]["peak_gib"], "pages": count}
    return Row(PAGES, {**figures, "first_ms": ms[0], "last_ms": ms[-1], "read": len(ms)})


@contextmanager
def _reader(folder: Path) -> Iterator[Child]:
    child = Child(sys.executable, "reports", folder / "reports.log", str(ROOT))
    try:
        yield child
    finally:
        child.end()


@contextmanager
def _opened(folder: Path) -> Iterator[Child]:
    with _reader(folder) as child:
        child.ask("open", folder=str(folder / "home"))
        yield child
