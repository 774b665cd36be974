"""Rows of episodes, an eval's queue and its newest results, and the parts that older results are filed in.

A row is made when its episode is first handed out. While it is leased, `ended_at` is when that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, case, delete, func, select
from sqlalchemy.orm import Session

from runner.store.tables import Arm, Episode, Eval, Part

AT_ONCE = 2000


@dataclass(frozen=True)
class Counts:
    """How many episodes are in which state; `failed` is the part of `done` that ended in an error.

    `pending` are those that may yet be handed out; once an eval has ended they are `not_run`.
    """

    pending: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    not_run: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.pending + self.leased + self.done + self.not_run

    def __add__(self, other: Counts) -> Counts:
        names = ("pending", "leased", "done", "failed", "not_run")
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})


def counts_of_arms(session: Session, row: Eval) -> dict[int, Counts]:
    """How far each arm of an eval is, by its number."""
    failed = func.sum(case((Episode.failed, 1), else_=0))
    query = select(Episode.arm, Episode.state, func.count(), failed).where(Episode.eval_id == row.id)
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for arm, state, count, errors in session.execute(query.group_by(Episode.arm, Episode.state)):
        found.setdefault(arm, {})[state] = (int(count), int(errors or 0))
    arms = session.scalars(select(Arm).where(Arm.eval_id == row.id).order_by(Arm.number))
    return {arm.number: _counts(arm, found.get(arm.number, {}), ended=row.ended_at is not None) for arm in arms}


def counts(session: Session, row: Eval) -> Counts:
    """How far an eval is."""
    return sum(counts_of_arms(session, row).values(), Counts())


def any_open(session: Session, eval_id: str) -> bool:
    """Whether an episode is under way or may still be handed out."""
    rows = select(Episode.index).where(Episode.eval_id == eval_id, Episode.state.in_(("leased", "pending")))
    arms = select(Arm.number).where(Arm.eval_id == eval_id, Arm.next < Arm.planned)
    return session.scalars(arms.limit(1)).first() is not None or session.scalars(rows.limit(1)).first() is not None


def any_waiting(session: Session, eval_id: str, arm: int) -> bool:
    """Whether an episode of an arm waits to be handed out."""
    mine = session.get(Arm, (eval_id, arm))
    return mine is not None and (mine.next < mine.planned or bool(pending(session, eval_id, arm, 1)))


def any_leased(session: Session, eval_id: str, arm: int) -> bool:
    """Whether an episode of an arm is under way."""
    query = select(Episode.index).where(Episode.eval_id == eval_id, Episode.state == "leased", Episode.arm == arm)
    return session.scalars(query.limit(1)).first() is not None


def pending(session: Session, eval_id: str, arm: int, limit: int) -> list[Episode]:
    """Episodes of an arm that came back and are to be handed out again, lowest index first."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.state == "pending", Episode.arm == arm)
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


def last_finished_at(session: Session, eval_id: str) -> float:
    """When an episode of the eval was last played to its end; 0 where none was. One that was given up took no time."""
    return session.scalar(_last_played(eval_id)) or 0.0


def drop_open(session: Session, eval_id: str) -> None:
    """An eval has ended: what was not finished is not run."""
    session.execute(delete(Episode).where(Episode.eval_id == eval_id, Episode.state != "done"))


def finished(
    session: Session,
    eval_id: str,
    *,
    arm: int | None = None,
    after: int = -1,
    limit: int | None = None,
    failed: bool | None = None,
) -> list[Episode]:
    """Finished episodes that lie in no part, by index, beyond `after`; of one arm, or only failed or only scored."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.state == "done", Episode.index > after)
    if arm is not None:
        query = query.where(Episode.arm == arm)
    if failed is not None:
        query = query.where(Episode.failed.is_(failed))
    query = query.order_by(Episode.index)
    return list(session.scalars(query if limit is None else query.limit(limit)))


def outcomes(session: Session, eval_id: str, arm: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Index and outcome of an arm's finished episodes that lie in no part, by index; read a block at a time."""
    query = select(Episode.index, Episode.outcome).where(
        Episode.eval_id == eval_id, Episode.state == "done", Episode.arm == arm
    )
    found = session.execute(query.order_by(Episode.index).execution_options(yield_per=AT_ONCE))
    yield from ((index, outcome) for index, outcome in found)


def between(session: Session, eval_id: str, first: int, last: int) -> list[Episode]:
    """Rows with an index from `first` to `last`, by index."""
    query = select(Episode).where(Episode.eval_id == eval_id, Episode.index >= first, Episode.index <= last)
    return list(session.scalars(query.order_by(Episode.index)))


def parts(session: Session, eval_id: str, arm: int | None = None) -> list[Part]:
    """An eval's parts, or those of one arm, by index."""
    query = select(Part).where(Part.eval_id == eval_id)
    if arm is not None:
        query = query.where(Part.arm == arm)
    return list(session.scalars(query.order_by(Part.arm, Part.first)))


def file(session: Session, arm: Arm, rows: list[Episode]) -> Part:
    """Rows, the next finished ones of an arm in order, lie in a part from now on."""
    part = Part(eval_id=arm.eval_id, arm=arm.number, first=rows[0].index, last=rows[-1].index, rows=len(rows))
    session.add(part)
    arm.filed += len(rows)
    arm.filed_failed += sum(row.failed for row in rows)
    mine = (Episode.eval_id == arm.eval_id, Episode.arm == arm.number, Episode.state == "done")
    session.execute(delete(Episode).where(*mine, Episode.index >= part.first, Episode.index <= part.last))
    return part


def unfiled(session: Session, eval_id: str) -> dict[int, int]:
    """How many finished episodes of each arm lie in no part."""
    query = select(Episode.arm, func.count()).where(Episode.eval_id == eval_id, Episode.state == "done")
    return {arm: int(count) for arm, count in session.execute(query.group_by(Episode.arm))}


def _last_played(eval_id: str) -> Select[float | None]:
    played = Episode.outcome["wall_s"].as_float() > 0
    return select(func.max(Episode.ended_at)).where(Episode.eval_id == eval_id, Episode.state == "done", played)


def _counts(arm: Arm, found: dict[str, tuple[int, int]], *, ended: bool) -> Counts:
    done, failed = found.get("done", (0, 0))
    leased, _ = found.get("leased", (0, 0))
    again, _ = found.get("pending", (0, 0))
    done, failed = done + arm.filed, failed + arm.filed_failed
    if ended:
        return Counts(done=done, failed=failed, not_run=arm.planned - done)
    return Counts(pending=arm.planned - arm.next + again, leased=leased, done=done, failed=failed)
