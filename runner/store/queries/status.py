"""What an account has running, and which of its evals left recordings."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from runner.store.tables import Deployment, Eval, Instance, Version, Worker

WORKER_ENDED = ("stopped", "failed")
INSTANCE_ENDED = ("ended", "lost")


def open_workers(session: Session, account_id: str) -> Sequence[tuple[Worker, str]]:
    """An account's workers that have not ended, oldest first, each with its deployment's name."""
    query = (
        select(Worker, Deployment.name)
        .join(Version, Worker.version_id == Version.id)
        .join(Deployment, Version.deployment_id == Deployment.id)
        .where(Deployment.account_id == account_id, Worker.state.not_in(WORKER_ENDED))
        .order_by(Worker.created_at, Worker.id)
    )
    return [(worker, name) for worker, name in session.execute(query)]


def open_instances(session: Session, account_id: str) -> Sequence[Instance]:
    """An account's benchmark instances that have not ended, oldest first."""
    query = (
        select(Instance)
        .join(Eval, Instance.eval_id == Eval.id)
        .where(Eval.account_id == account_id, Instance.state.not_in(INSTANCE_ENDED))
        .order_by(Instance.created_at, Instance.id)
    )
    return session.scalars(query).all()


def recorded_evals(session: Session, account_id: str, offset: int, limit: int) -> Sequence[str]:
    """Ids of an account's evals with at least one recorded episode, newest first."""
    query = _recorded(account_id).order_by(Eval.created_at.desc(), Eval.id).offset(offset).limit(limit)
    return session.scalars(query).all()


def count_recorded_evals(session: Session, account_id: str) -> int:
    """How many evals `recorded_evals` has in all."""
    return session.scalar(select(func.count()).select_from(_recorded(account_id).subquery())) or 0


def _recorded(account_id: str) -> Select[str]:
    return select(Eval.id).where(Eval.account_id == account_id, Eval.recorded.is_(True))
