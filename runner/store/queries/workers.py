"""Rows of policy workers: wanted here, made real by the fleet."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from runner.store.queries import evals
from runner.store.tables import Deployment, Version, Worker

OPEN = ("wanted", "starting", "ready", "stopping")
USABLE = ("wanted", "starting", "ready")


def want(
    session: Session, *, worker_id: str, version_id: str, purpose: str, eval_id: str | None, card: str, now: float
) -> Worker:
    """A worker to be started under the name `worker_id` (`worker-<hex>`), on `card`, such as `L4:2` or `cpu`.

    Wake the loop after the commit.
    """
    kind, _, count = card.partition(":")
    row = Worker(
        id=worker_id,
        version_id=version_id,
        purpose=purpose,
        eval_id=eval_id,
        state="wanted",
        card=kind,
        cards=int(count or 1),
        acts=0,
        created_at=now,
    )
    session.add(row)
    session.flush()
    return row


def get(session: Session, worker_id: str) -> Worker | None:
    """The worker with that id."""
    return session.get(Worker, worker_id)


def every_open(session: Session) -> list[Worker]:
    """Workers that live, are wanted or are being ended, oldest first."""
    return list(session.scalars(select(Worker).where(Worker.state.in_(OPEN)).order_by(Worker.created_at, Worker.id)))


def holding(session: Session) -> list[tuple[Worker, Deployment]]:
    """Every worker that lives, is wanted or is being ended, with the deployment of its version."""
    rows = session.execute(
        select(Worker, Deployment)
        .join(Version, Version.id == Worker.version_id)
        .join(Deployment, Deployment.id == Version.deployment_id)
        .where(Worker.state.in_(OPEN))
    )
    return [(worker, deployment) for worker, deployment in rows]


def cards_of(session: Session, account_id: str) -> dict[str, int]:
    """How many cards an account holds for `serving` (builds included) and for `eval`; a processor is none."""
    mine = [one for one in evals.holdings(session) if one.account_id == account_id]
    serving = [
        worker.cards
        for worker, deployment in holding(session)
        if deployment.account_id == account_id and worker.card != "cpu" and worker.purpose != "eval"
    ]
    return {"serving": sum(serving), "eval": sum(one.count for one in mine)}


def of_version(session: Session, version_id: str, purpose: str, most: int | None = None) -> list[Worker]:
    """The workers a version had for that purpose, newest first, ended ones included; all, or the `most` newest."""
    return list(
        session.scalars(
            select(Worker)
            .where(Worker.version_id == version_id, Worker.purpose == purpose)
            .order_by(Worker.created_at.desc(), Worker.id.desc())
            .limit(most)
        )
    )


def failed_since(session: Session, deployment_id: str, when: float) -> list[Worker]:
    """Serving workers of a deployment that failed after `when`, newest first."""
    return list(
        session.scalars(
            select(Worker)
            .join(Version, Version.id == Worker.version_id)
            .where(
                Version.deployment_id == deployment_id,
                Worker.purpose == "serve",
                Worker.state == "failed",
                Worker.ended_at > when,
            )
            .order_by(Worker.ended_at.desc())
        )
    )


def of_eval(session: Session, eval_id: str) -> list[Worker]:
    """Every worker an eval had, newest first, ended ones included."""
    return list(
        session.scalars(
            select(Worker).where(Worker.eval_id == eval_id).order_by(Worker.created_at.desc(), Worker.id.desc())
        )
    )


def usable(rows: list[Worker]) -> list[Worker]:
    """Those that serve or will."""
    return [row for row in rows if row.state in USABLE]


def ready(rows: list[Worker]) -> list[Worker]:
    """Those that serve now, by id."""
    return sorted((row for row in rows if row.state == "ready"), key=lambda row: row.id)


def stop(rows: list[Worker], now: float) -> int:
    """Have these ended; how many were not already ended or being ended. A wanted one never starts."""
    stopping = usable(rows)
    for row in stopping:
        never_started = row.state == "wanted"
        row.state = "stopped" if never_started else "stopping"
        row.ended_at = now if never_started else None
    return len(stopping)


def fail(row: Worker, *, reason: str, error: str, traceback: str | None, now: float) -> None:
    """Close a worker that ended on its own; reasons: `failed` (it said so), `crashed`, `lost`, `timeout`."""
    row.state = "failed"
    row.reason = reason
    row.error = error
    row.traceback = traceback
    row.ended_at = now
