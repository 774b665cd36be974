"""A policy's evals over time and the schedules that run them, as text and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seq._eval_answers import History, answered
from seq._numbers import bounds, money, shown
from seq._printable import one_line
from seq.api import Api, Json, named
from seq.cli._app import page_line, say, table
from seq.cli._text import count, short

SCHEDULES = ("benchmark", "every", "trials", "max usd", "due", "last eval", "verdict")
EVALS = ("eval", "status", "version", "benchmark", "metric", "value", "95% CI", "")


def history(api: Api, policy: str, **query: Any) -> Json:
    """One page of a policy's evals, with its schedules."""
    return answered(History, api.get(f"/v1/deployments/{named(policy)}/evals", **query), "a list of evals")


def show_history(page: Json, *, benchmark: str | None, schedules: bool) -> None:
    """The schedules (of one benchmark, if given) where they are wanted, then the page's evals."""
    planned = [row for row in page.get("schedules") or [] if benchmark in (None, row["benchmark"])]
    if planned and schedules:
        table(SCHEDULES, [_schedule(row) for row in planned])
        say(*(line for row in planned for line in _remarks(row)), "")
    rows = page["history"]
    if rows:
        table(EVALS, [_eval(row) for row in rows])
    say(page_line(page, len(rows)))


def _schedule(row: Mapping[str, Any]) -> Sequence[Any]:
    trials, most = row.get("trials"), row.get("max_usd")
    return (
        row["benchmark"],
        row.get("every"),
        "all" if trials is None else trials,
        "no limit" if most is None else money(most),
        row.get("due_at") or "the next deploy",
        row.get("last_eval") or "none yet",
        _verdict(row.get("previous") or {}),
    )


def _verdict(previous: Mapping[str, Any]) -> str:
    if not previous:
        return ""
    value = f"{previous.get('metric')} {shown(previous['value'])}" if previous.get("value") is not None else ""
    return " ".join(word for word in ("REGRESSED" if previous.get("regressed") else "", value) if word)


def _remarks(row: Mapping[str, Any]) -> Iterator[str]:
    """What the table has no room for."""
    which = one_line(row["benchmark"])
    sentence = (row.get("previous") or {}).get("sentence")
    if sentence:
        yield f"{which}: {one_line(sentence)}"
    if row.get("adapter"):
        yield f"{which}: with adapter {one_line(row['adapter'])}"
    if row.get("webhook"):
        yield f"{which}: a regression is told to {one_line(row['webhook'])}"
    if row.get("last_error"):
        yield f"{which}: last error: {short(one_line(row['last_error']), 300)}"


def _eval(row: Mapping[str, Any]) -> Sequence[Any]:
    value, low, high = (row.get(key) for key in ("value", "low", "high"))
    marks = (("regressed", "REGRESSED"), ("incomplete", "incomplete"), ("scheduled", "scheduled"))
    return (
        row["eval_id"],
        row.get("status"),
        f"v{count(row.get('model_version'))}",
        row.get("benchmark"),
        row.get("metric"),
        "" if value is None else shown(value),
        "" if low is None or high is None else bounds(low, high),
        ", ".join(word for key, word in marks if row.get(key)),
    )
