"""The line that a list shows of an eval: the primary metric of each arm, kept once nothing of it can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from runner.evals import table
from runner.evals.report import aggregates
from runner.evals.table import ArmTable
from runner.store.blobs import Blobs
from runner.store.db import Session
from runner.store.tables import Eval

MOST_KEPT = 10_000
_ENDED: WeakKeyDictionary[Any, dict[str, Headlines]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Headline:
    """An arm's primary metric with its 95 % interval; None where nothing is scored, or nothing is known of it."""

    arm: str
    version_id: str
    metric: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Headlines:
    """Those of all arms by number, and whether an episode is missing."""

    arms: tuple[Headline, ...]
    incomplete: bool


def headlines(session: Session, blobs: Blobs, row: Eval, now: float) -> Headlines:
    """What a list shows of an eval as it stands; of one that has ended its episodes are read once."""
    kept = _ENDED.setdefault(session.get_bind(), {})
    if row.id in kept:
        return kept[row.id]
    found = table.read(session, blobs, row, now)
    shown = Headlines(tuple(headline(arm) for arm in found.arms), found.incomplete)
    if row.ended_at is not None:
        if len(kept) >= MOST_KEPT:
            kept.pop(next(iter(kept)), None)
        kept[row.id] = shown
    return shown


def headline(arm: ArmTable) -> Headline:
    """`success` where there is one, else the first metric by name; of what the benchmark's score says, no interval."""
    found = aggregates(arm)
    if not found:
        return Headline(arm.name, arm.arm.version_id)
    name = "success" if "success" in found else min(found)
    if name in (arm.scores.get("overall") or {}):
        return Headline(arm.name, arm.arm.version_id, name, found[name].overall)
    interval = arm.summaries[name].overall
    return Headline(arm.name, arm.arm.version_id, name, interval.mean, interval.low, interval.high)
