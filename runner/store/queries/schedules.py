"""Rows of schedules: one a deployment and benchmark."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from runner.store.tables import Schedule


def get(session: Session, schedule_id: str) -> Schedule | None:
    """The schedule with that id."""
    return session.get(Schedule, schedule_id)


def find(session: Session, deployment_id: str, benchmark: str) -> Schedule | None:
    """A deployment's schedule on a benchmark."""
    query = select(Schedule).where(Schedule.deployment_id == deployment_id, Schedule.benchmark == benchmark)
    return session.scalars(query).first()


def of_deployment(session: Session, deployment_id: str) -> list[Schedule]:
    """A deployment's schedules, oldest first."""
    query = select(Schedule).where(Schedule.deployment_id == deployment_id)
    return list(session.scalars(query.order_by(Schedule.created_at, Schedule.id)))


def on_benchmark(session: Session, account_id: str, benchmark: str) -> list[Schedule]:
    """An account's schedules on a benchmark, oldest first."""
    query = select(Schedule).where(Schedule.account_id == account_id, Schedule.benchmark == benchmark)
    return list(session.scalars(query.order_by(Schedule.created_at, Schedule.id)))


def every(session: Session) -> list[Schedule]:
    """All of them, oldest first."""
    return list(session.scalars(select(Schedule).order_by(Schedule.created_at, Schedule.id)))
