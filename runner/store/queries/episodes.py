"""Rows of episodes: an eval's queue and results. While a row is leased, `ended_at` is when it was handed out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, select, update
from sqlalchemy.orm import Session

from runner.store.tables import Episode


@dataclass(frozen=True)
class Counts:
    """How many episodes of an eval are in which state; `failed` is the part of `done` that ended in an error."""

    pending: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    not_run: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.pending + self.leased + self.done + self.not_run


def add(session: Session, eval_id: str, conditions: Iterable[dict[str, Any]]) -> None:
    """Queue an eval's episodes: one row for each condition, under its index."""
    rows = [
        Episode(
            eval_id=eval_id, index=condition["index"], state="pending", attempt=0, condition=condition, failed=False
        )
        for condition in conditions
    ]
    session.add_all(rows)
    session.flush()


def counts(session: Session, eval_id: str) -> Counts:
    """How far an eval is."""
    failed = func.sum(case((Episode.failed, 1), else_=0))
    query = select(Episode.state, func.count(), failed).where(Episode.eval_id == eval_id).group_by(Episode.state)
    found = {state: (int(count), int(errors or 0)) for state, count, errors in session.execute(query)}
    by_state = {state: count for state, (count, _) in found.items()}
    return Counts(**by_state, failed=found.get("done", (0, 0))[1])


def pending(session: Session, eval_id: str, limit: int) -> list[Episode]:
    """The next episodes to hand out, lowest index first."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.state == "pending")
    return list(session.scalars(query.order_by(Episode.index).limit(limit)))


def leased_by(session: Session, eval_id: str, instance_id: str) -> list[Episode]:
    """Episodes an instance holds, by index."""
    query = select(Episode).where(
        Episode.eval_id == eval_id, Episode.state == "leased", Episode.instance_id == instance_id
    )
    return list(session.scalars(query.order_by(Episode.index)))


def at(session: Session, eval_id: str, indices: Iterable[int]) -> dict[int, Episode]:
    """Rows by index."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.index.in_(list(indices)))
    return {row.index: row for row in session.scalars(query)}


def first_finished(session: Session, eval_id: str, limit: int) -> list[bool]:
    """Of the episodes finished first, whether each failed."""
    query = select(Episode.failed).where(Episode.eval_id == eval_id, Episode.state == "done")
    return list(session.scalars(query.order_by(Episode.ended_at, Episode.index).limit(limit)))


def last_failed(session: Session, eval_id: str) -> Episode | None:
    """The episode that ended in an error most recently."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.failed)
    return session.scalars(query.order_by(Episode.ended_at.desc(), Episode.index.desc()).limit(1)).first()


def last_finished_at(session: Session, eval_id: str) -> float:
    """When an episode of the eval was last played to its end; 0 where none was. One that was given up took no time."""
    played = Episode.outcome["wall_s"].as_float() > 0
    query = select(func.max(Episode.ended_at)).where(Episode.eval_id == eval_id, Episode.state == "done", played)
    return session.scalar(query) or 0.0


def drop_open(session: Session, eval_id: str) -> None:
    """An eval has ended: what was not finished is not run."""
    session.execute(
        update(Episode)
        .where(Episode.eval_id == eval_id, Episode.state.in_(("pending", "leased")))
        .values(state="not_run", instance_id=None, ended_at=None)
    )


def listed(session: Session, eval_id: str, *, offset: int = 0, limit: int | None = None) -> list[Episode]:
    """An eval's episodes by index."""
    query = select(Episode).where(Episode.eval_id == eval_id).order_by(Episode.index).offset(offset)
    return list(session.scalars(query if limit is None else query.limit(limit)))


def finished(session: Session, eval_id: str, limit: int) -> list[Episode]:
    """An eval's finished episodes by index."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.state == "done")
    return list(session.scalars(query.order_by(Episode.index).limit(limit)))
