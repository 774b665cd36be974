"""Evals, their episodes (queue and result in one row) and the instances that run them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Eval(Base):
    """One eval with everything pinned. Status: pending, running, completed, failed, canceled.

    `request` is the EvalRequest; `plan` the layout as decided (see runner.evals.plan); `estimate` what was foretold;
    `events` lists what happened beside the episodes (moved, run again, recordings that failed), for the report.
    """

    __tablename__ = "evals"

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    status: Mapped[str] = mapped_column(index=True)
    model: Mapped[str]
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"))
    benchmark: Mapped[str]
    benchmark_version_id: Mapped[str] = mapped_column(ForeignKey("benchmark_versions.id"))
    adapter_version_id: Mapped[str | None] = mapped_column(ForeignKey("adapter_versions.id"))
    request: Mapped[dict[str, Any]]
    plan: Mapped[dict[str, Any]]
    estimate: Mapped[dict[str, Any]]
    timing: Mapped[dict[str, Any]] = mapped_column(default=dict)
    events: Mapped[list[Any]] = mapped_column(default=list)
    error: Mapped[str | None]
    traceback: Mapped[str | None]
    stop_reason: Mapped[str | None]
    total: Mapped[int]
    created_at: Mapped[float] = mapped_column(index=True)
    started_at: Mapped[float | None]
    ended_at: Mapped[float | None]


class Episode(Base):
    """One planned episode. State: pending, leased, done, not_run. `outcome` is the accepted EpisodeOutcome.

    `attempt` counts leases; `instance_id` is who holds it. A result is accepted once: while the state is not done.
    """

    __tablename__ = "episodes"
    __table_args__ = (Index("ix_episodes_queue", "eval_id", "state", "index"),)

    eval_id: Mapped[str] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=0)
    instance_id: Mapped[str | None] = mapped_column(index=True)
    condition: Mapped[dict[str, Any]]
    outcome: Mapped[dict[str, Any] | None]
    failed: Mapped[bool] = mapped_column(default=False)
    ended_at: Mapped[float | None]


class Instance(Base):
    """A benchmark instance: a wanted row becomes an actor of that name. State: wanted, starting, running, ended, lost.

    `seen_at` is its last heartbeat, `pids` its environment processes as it last told them; `lease_number` and
    `lease_indices` are its last request for episodes and what it was given, for when that answer is lost.
    """

    __tablename__ = "instances"

    id: Mapped[str] = mapped_column(primary_key=True)
    eval_id: Mapped[str] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), index=True)
    state: Mapped[str] = mapped_column(index=True)
    token_hash: Mapped[str | None] = mapped_column(index=True)
    pid: Mapped[int | None]
    pids: Mapped[list[Any]] = mapped_column(default=list)
    lease_number: Mapped[int] = mapped_column(default=0)
    lease_indices: Mapped[list[Any]] = mapped_column(default=list)
    error: Mapped[str | None]
    created_at: Mapped[float]
    seen_at: Mapped[float | None]
    ended_at: Mapped[float | None]
