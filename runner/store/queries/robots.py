"""Rows of robots: who holds a slot of a deployment, and who waits for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from runner.store.tables import Robot


def of_deployment(session: Session, deployment_id: str) -> list[Any]:
    """Every robot of a deployment in the order of arrival, as plain rows."""
    table = Robot.__table__
    found = select(table).where(table.c.deployment_id == deployment_id).order_by(table.c.since, table.c.session)
    return list(session.execute(found))


def put(session: Session, deployment_id: str, name: str, **fields: Any) -> None:
    """A robot as it stands now."""
    session.merge(Robot(deployment_id=deployment_id, session=name, **fields))


def drop(session: Session, deployment_id: str, names: Iterable[str]) -> None:
    """Forget these robots."""
    gone = list(names)
    if gone:
        session.execute(delete(Robot).where(Robot.deployment_id == deployment_id, Robot.session.in_(gone)))


def drop_all(session: Session, deployment_id: str) -> None:
    """Forget every robot of a deployment."""
    session.execute(delete(Robot).where(Robot.deployment_id == deployment_id))


def keep_all(session: Session, until: float) -> None:
    """Nobody loses a slot or a place before `until`."""
    session.execute(update(Robot).where(Robot.until < until).values(until=until))
    session.execute(update(Robot).where(Robot.due < until).values(due=until))


def driving(session: Session, deployment_id: str, now: float) -> int:
    """How many robots hold a slot."""
    held = (Robot.deployment_id == deployment_id, Robot.worker_id.is_not(None), Robot.until > now)
    return session.scalar(select(func.count()).select_from(Robot).where(*held)) or 0
