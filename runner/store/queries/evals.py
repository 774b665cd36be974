"""Rows of evals. An eval pins everything it uses; what is added while it runs is what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session

from runner.store.tables import Arm, Eval, Instance, Key, Worker

OPEN = ("queued", "pending", "running")
HOLDING = ("pending", "running")
LEARNED_FROM = 10


@dataclass(frozen=True)
class Holding:
    """Cards of one kind that an account's evals hold."""

    account_id: str
    card: str
    count: int


def add(session: Session, row: Eval, arms: Iterable[Arm]) -> Eval:
    """A new eval with its arms."""
    session.add(row)
    session.flush()
    session.add_all(arms)
    session.flush()
    return row


def arms(session: Session, eval_id: str) -> list[Arm]:
    """An eval's arms by number."""
    return list(session.scalars(select(Arm).where(Arm.eval_id == eval_id).order_by(Arm.number)))


def arm(session: Session, eval_id: str, number: int) -> Arm | None:
    """One arm of an eval."""
    return session.get(Arm, (eval_id, number))


def selection(session: Session, eval_id: str) -> dict[str, Any]:
    """The starts of an eval, as its row keeps them."""
    found: dict[str, Any] = session.scalars(select(Eval.selection).where(Eval.id == eval_id)).one()
    return found


def queued(session: Session) -> list[Eval]:
    """Evals that wait for cards, in the order in which they came."""
    return list(session.scalars(select(Eval).where(Eval.status == "queued").order_by(Eval.created_at, Eval.id)))


def holdings(session: Session) -> list[Holding]:
    """Every card that evals hold: what running ones were laid out with, and what workers of ended ones still have."""
    running = session.execute(select(Eval.account_id, Eval.cards).where(Eval.status.in_(HOLDING)))
    held = [Holding(account, card, count) for account, cards in running for card, count in cards.items()]
    leaving = session.execute(
        select(Eval.account_id, Worker.card, Worker.cards)
        .join(Worker, Worker.eval_id == Eval.id)
        .where(
            Eval.status.not_in(HOLDING),
            Worker.card != "cpu",
            Worker.state.in_(("wanted", "starting", "ready", "stopping")),
        )
    )
    return [*held, *(Holding(account, card, count) for account, card, count in leaving)]


def get(session: Session, eval_id: str) -> Eval | None:
    """The eval with that id, whoever's."""
    return session.get(Eval, eval_id)


def find(session: Session, account_id: str, ref: str) -> list[Eval]:
    """The account's evals whose id is `ref` or begins with it; two at most, enough to know that it is not unique."""
    exact = session.scalars(select(Eval).where(Eval.account_id == account_id, Eval.id == ref)).first()
    if exact is not None:
        return [exact]
    begins = select(Eval).where(Eval.account_id == account_id, Eval.id.startswith(ref, autoescape=True))
    return list(session.scalars(begins.order_by(Eval.id).limit(2)))


def open_ones(session: Session) -> list[Eval]:
    """Every eval that has not ended, oldest first."""
    return list(session.scalars(select(Eval).where(Eval.status.in_(OPEN)).order_by(Eval.created_at, Eval.id)))


def history(
    session: Session,
    account_id: str,
    *,
    version_ids: list[str] | None = None,
    benchmark: str | None = None,
    offset: int,
    limit: int,
) -> tuple[list[Eval], int]:
    """One page of the account's evals, newest first, and how many: with an arm of these versions, of a benchmark."""
    where = [Eval.account_id == account_id]
    if version_ids is not None:
        with_arm = select(Arm.eval_id).where(Arm.version_id.in_(version_ids))
        where.append(or_(Eval.version_id.in_(version_ids), Eval.id.in_(with_arm)))
    if benchmark is not None:
        where.append(Eval.benchmark == benchmark)
    total = session.scalar(select(func.count()).select_from(Eval).where(*where)) or 0
    newest = select(Eval).where(*where).order_by(Eval.created_at.desc(), Eval.id.desc())
    return list(session.scalars(newest.offset(offset).limit(limit))), total


def completed_on(session: Session, account_id: str, benchmark_id: str, benchmark: str) -> list[Eval]:
    """The account's newest completed evals of a benchmark: what an estimate learns from."""
    query = select(Eval).where(
        Eval.account_id == account_id,
        Eval.benchmark == benchmark,
        Eval.status == "completed",
        Eval.ended_at.is_not(None),
    )
    rows = session.scalars(query.order_by(Eval.created_at.desc(), Eval.id.desc()).limit(2 * LEARNED_FROM))
    return [row for row in rows if row.plan.get("benchmark_id") == benchmark_id][:LEARNED_FROM]


def of_schedule(session: Session, schedule_id: str, limit: int) -> list[Eval]:
    """The newest evals that a schedule made."""
    query = select(Eval).where(Eval.schedule_id == schedule_id)
    return list(session.scalars(query.order_by(Eval.created_at.desc(), Eval.id.desc()).limit(limit)))


def of_adapter(session: Session, version_ids: list[str]) -> list[Eval]:
    """Evals that use one of these adapter versions, newest first."""
    query = select(Eval).where(Eval.adapter_version_id.in_(version_ids))
    return list(session.scalars(query.order_by(Eval.created_at.desc(), Eval.id.desc())))


def note(row: Eval, kind: str, **what: Any) -> None:
    """Add to what happened; a list is replaced, since a change inside JSON is not seen."""
    row.events = [*row.events, {"kind": kind, **what}]


def end(
    row: Eval,
    status: str,
    *,
    now: float,
    error: str | None = None,
    traceback: str | None = None,
    stop_reason: str | None = None,
) -> None:
    """Close an eval. Its workers, instances and keys are the controller's to end."""
    row.status = status
    row.error = error
    row.traceback = traceback
    row.stop_reason = stop_reason
    row.ended_at = now


def drop_keys(session: Session, eval_id: str, name: str | None = None) -> None:
    """Remove the keys made for an eval's instances, or the one of the instance `name`."""
    where = [Key.eval_id == eval_id, Key.kind == "eval"]
    if name is not None:
        where.append(Key.name == name)
    session.execute(delete(Key).where(*where))


def ended_with_workers(session: Session) -> list[str]:
    """Ids of ended evals that still have workers."""
    query = (
        select(Eval.id)
        .join(Worker, Worker.eval_id == Eval.id)
        .where(Eval.status.not_in(OPEN), Worker.state.in_(("wanted", "starting", "ready")))
    )
    return list(session.scalars(query.distinct()))


def ended_with_keys(session: Session) -> list[str]:
    """Ids of ended evals that have keys and no instance left to use them."""
    leaving = select(Instance.eval_id).where(Instance.state.in_(("wanted", "starting", "running")))
    query = select(Eval.id).join(Key, Key.eval_id == Eval.id)
    return list(session.scalars(query.where(Eval.status.not_in(OPEN), Eval.id.not_in(leaving)).distinct()))
