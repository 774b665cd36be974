"""Rows of benchmark instances: wanted for an eval, run as actors named by their ids."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from runner.store.tables import Eval, Instance

OPEN = ("wanted", "starting", "running")


def want(session: Session, *, instance_id: str, eval_id: str, now: float, arm: int = 0, place: int = 0) -> Instance:
    """An instance of an arm to be started; `instance_id` is `instance-<hex>`, the name its actor gets."""
    row = Instance(id=instance_id, eval_id=eval_id, arm=arm, place=place, state="wanted", pids=[], created_at=now)
    session.add(row)
    session.flush()
    return row


def get(session: Session, instance_id: str) -> Instance | None:
    """The instance with that id."""
    return session.get(Instance, instance_id)


def with_eval(session: Session, instance_id: str) -> tuple[Instance, Eval] | None:
    """An instance and the eval it runs for."""
    query = select(Instance, Eval).join(Eval, Instance.eval_id == Eval.id).where(Instance.id == instance_id)
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def every_open(session: Session) -> list[Instance]:
    """Instances that are wanted or live, oldest first."""
    query = select(Instance).where(Instance.state.in_(OPEN))
    return list(session.scalars(query.order_by(Instance.created_at, Instance.id)))


def of_eval(session: Session, eval_id: str) -> list[Instance]:
    """Every instance an eval had, oldest first."""
    query = select(Instance).where(Instance.eval_id == eval_id)
    return list(session.scalars(query.order_by(Instance.created_at, Instance.id)))


def losses_since(session: Session, eval_id: str, moment: float) -> int:
    """How often instances of an eval were lost after a moment; several lost at once count as one."""
    query = select(func.count(func.distinct(Instance.ended_at))).where(
        Instance.eval_id == eval_id, Instance.state == "lost", Instance.ended_at > moment
    )
    return session.scalar(query) or 0


def close(row: Instance, state: str, *, now: float, error: str | None = None) -> None:
    """An instance is over: `ended` or `lost`."""
    row.state = state
    row.error = error
    row.ended_at = now
