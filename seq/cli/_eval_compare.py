"""Two evals held against each other, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seq._numbers import bounds, chance, signed
from seq._printable import one_line
from seq._report_sentences import versioned
from seq.cli._text import count

Json = Mapping[str, Any]

DIFFERENCES = ("metric", "b - a", "95% CI", "pairs", "won", "lost", "p", "adjusted p")


def sides(answer: Json) -> Iterator[str]:
    """What a and b are, and what there is to know before their difference is read."""
    for name in ("a", "b"):
        side = answer[name]
        policy = one_line(versioned(side.get("model"), side.get("model_version")))
        scored = f", {side['scored']} episode(s) scored" if side.get("scored") is not None else ""
        yield f"{name}: {policy}  eval {side.get('eval_id')}  {side.get('status')}{scored}"
    if answer.get("incomplete"):
        yield "incomplete: not every episode that was planned was scored; a pair counts only where both were"
    yield from (f"differs: {one_line(sentence)}" for sentence in answer.get("differs") or [])


def difference_row(row: Json) -> Sequence[Any]:
    """A row of the table of differences."""
    difference, low, high, p, adjusted = (row.get(key) for key in ("mean_diff", "low", "high", "p", "p_adjusted"))
    return (
        one_line(row["metric"]),
        "" if difference is None else signed(difference),
        "none" if low is None or high is None else bounds(low, high, sign=True),
        count(row.get("n")),
        row.get("won"),
        row.get("lost"),
        _probability(p),
        _probability(adjusted),
    )


def methods(answer: Json) -> Iterator[str]:
    """By which methods, and how many comparisons the adjusted p is for."""
    used = dict.fromkeys(
        "; ".join(str(row[key]) for key in ("method", "p_method") if row.get(key)) for row in answer["paired"]
    )
    yield from (f"method: {one_line(method)}" for method in used if method)
    comparisons = max((row.get("comparisons") or 1 for row in answer["paired"]), default=1)
    if comparisons > 1:
        yield f"adjusted p: for {comparisons} comparisons (Holm)"


def _probability(p: float | None) -> str:
    return "" if p is None else chance(p).removeprefix("=")
