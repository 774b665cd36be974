"""Rows of deployments and their versions.

A removed deployment keeps its row, since evals refer to its versions: its name gets a `~`, which no valid name holds.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session

from runner.store.tables import Arm, Deployment, Eval, Key, Schedule, Version, Worker

KEPT_READY = 5


def find(session: Session, account_id: str, name: str) -> Deployment | None:
    """The account's deployment of that name (or id)."""
    return session.scalars(
        select(Deployment).where(
            Deployment.account_id == account_id,
            or_(Deployment.name == name, Deployment.id == name),
            Deployment.name.not_like("%~%"),
        )
    ).first()


def get(session: Session, deployment_id: str) -> Deployment | None:
    """The deployment with that id, removed or not."""
    return session.get(Deployment, deployment_id)


def names(session: Session, account_id: str) -> list[str]:
    """The account's deployment names, sorted."""
    return list(
        session.scalars(
            select(Deployment.name)
            .where(Deployment.account_id == account_id, Deployment.name.not_like("%~%"))
            .order_by(Deployment.name)
        )
    )


def listed(session: Session, account_id: str, offset: int, limit: int) -> tuple[list[Deployment], int]:
    """One page of the account's deployments by name, and how many there are."""
    mine = (Deployment.account_id == account_id, Deployment.name.not_like("%~%"))
    total = session.scalar(select(func.count()).select_from(Deployment).where(*mine)) or 0
    rows = session.scalars(select(Deployment).where(*mine).order_by(Deployment.name).offset(offset).limit(limit))
    return list(rows), total


def add(
    session: Session, *, deployment_id: str, account_id: str, name: str, handler_ref: str, now: float
) -> Deployment:
    """A new deployment that serves nothing yet."""
    row = Deployment(id=deployment_id, account_id=account_id, name=name, handler_ref=handler_ref, created_at=now)
    session.add(row)
    session.flush()
    return row


def remove(session: Session, deployment: Deployment) -> None:
    """Free the name, delete the keys bound to it and end its builds; the versions stay for the evals that used them."""
    deployment.name = f"{deployment.name}~{deployment.id}"
    deployment.stopped = True
    deployment.serving = None
    session.execute(delete(Key).where(Key.deployment_id == deployment.id))
    session.execute(delete(Schedule).where(Schedule.deployment_id == deployment.id))
    for version in versions(session, deployment.id):
        if version.state == "building":
            version.state = "failed"
            version.error = "the deployment was removed while this version was being built"


def add_version(
    session: Session,
    deployment: Deployment,
    *,
    version_id: str,
    request: dict[str, Any],
    bundle: str | None,
    now: float,
) -> Version:
    """The deployment's next version, to be built."""
    highest = session.scalar(select(func.max(Version.number)).where(Version.deployment_id == deployment.id)) or 0
    row = Version(
        id=version_id,
        deployment_id=deployment.id,
        number=highest + 1,
        state="building",
        request=request,
        bundle=bundle,
        phases=[],
        created_at=now,
    )
    session.add(row)
    session.flush()
    return row


def versions(session: Session, deployment_id: str) -> list[Version]:
    """Every version of a deployment, newest first."""
    return list(
        session.scalars(select(Version).where(Version.deployment_id == deployment_id).order_by(Version.number.desc()))
    )


def newest(session: Session, deployment_id: str) -> Version | None:
    """The version submitted last."""
    return session.scalars(
        select(Version).where(Version.deployment_id == deployment_id).order_by(Version.number.desc()).limit(1)
    ).first()


def version(session: Session, version_id: str) -> Version | None:
    """The version with that id."""
    return session.get(Version, version_id)


def numbered(session: Session, deployment_id: str, number: int | None) -> Version | None:
    """The version of that number; None for None."""
    return session.scalars(
        select(Version).where(Version.deployment_id == deployment_id, Version.number == number)
    ).first()


def serving(session: Session, account_id: str, name: str) -> tuple[Deployment, Version] | None:
    """The account's deployment of that name (or id) with the version it serves; None where either is missing."""
    deployment = find(session, account_id, name)
    row = numbered(session, deployment.id, deployment.serving) if deployment else None
    return (deployment, row) if deployment and row else None


def building(session: Session) -> list[Version]:
    """Versions to be built, oldest first."""
    return list(session.scalars(select(Version).where(Version.state == "building").order_by(Version.created_at)))


def all_serving(session: Session) -> list[tuple[Deployment, Version]]:
    """Every deployment that serves a version, with that version."""
    rows = session.execute(
        select(Deployment, Version).join(
            Version, (Version.deployment_id == Deployment.id) & (Version.number == Deployment.serving)
        )
    )
    return [(deployment, version_row) for deployment, version_row in rows]


def add_phase(row: Any, phase: str, now: float) -> None:
    """Note that a phase of a build began; a list is replaced, since a change inside JSON is not seen."""
    row.phases = [*row.phases, {"phase": phase, "at": now}]


def prune(session: Session, deployment: Deployment) -> list[str]:
    """Drop versions older than the serving one and four earlier ready ones, save those evals refer to; their ids."""
    rows = versions(session, deployment.id)
    kept = [row.number for row in rows if row.state == "ready"][:KEPT_READY]
    if len(kept) < KEPT_READY:
        return []
    used = {*session.scalars(select(Eval.version_id)), *session.scalars(select(Arm.version_id))}
    old = [row for row in rows if row.number < min(kept) and row.state != "building" and row.id not in used]
    for row in old:
        session.delete(row)
    return [row.id for row in old]


def evals_running(session: Session, deployment_id: str) -> list[str]:
    """Ids of evals not yet ended that use a version of the deployment."""
    return list(
        session.scalars(
            select(Eval.id)
            .join(Arm, Arm.eval_id == Eval.id)
            .join(Version, Version.id == Arm.version_id)
            .where(Version.deployment_id == deployment_id, Eval.ended_at.is_(None))
            .distinct()
        )
    )


def open_workers(session: Session, deployment_id: str) -> list[Worker]:
    """Workers of any version of the deployment that live or are wanted."""
    return list(
        session.scalars(
            select(Worker)
            .join(Version, Version.id == Worker.version_id)
            .where(
                Version.deployment_id == deployment_id,
                Worker.state.in_(("wanted", "starting", "ready", "stopping")),
            )
            .order_by(Worker.created_at)
        )
    )
