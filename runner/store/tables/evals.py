"""Evals, their arms, the episodes under way or not yet filed, the files of the others, instances and schedules."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Eval(Base):
    """One eval with everything pinned. Status: queued (for cards), pending, running, completed, failed, canceled.

    `request` is the EvalRequest; `plan` the layout as decided (see runner.evals.plan); `selection` its starts, which
    may be many, so it is read on purpose alone (`queries.evals.selection`); `estimate` what was foretold; `cards` what
    it holds of each kind until it has ended; `events` lists what happened beside the episodes, for the report. `model`
    and `version_id` are those of the first arm. `rerun_of` is the eval whose scored episodes its report covers, too;
    `schedule_id` the schedule that made it. `over_budget`: no further episode starts. `scores` is what the benchmark's
    own score said, by arm; `recorded` that an episode left a video; `previous` how a scheduled run compares with the
    one before it.
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
    rerun_of: Mapped[str | None]
    schedule_id: Mapped[str | None] = mapped_column(index=True)
    request: Mapped[dict[str, Any]]
    plan: Mapped[dict[str, Any]]
    selection: Mapped[dict[str, Any]] = mapped_column(deferred=True, server_default="{}")
    estimate: Mapped[dict[str, Any]]
    cards: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    timing: Mapped[dict[str, Any]] = mapped_column(default=dict)
    events: Mapped[list[Any]] = mapped_column(default=list)
    scores: Mapped[dict[str, Any] | None]
    previous: Mapped[dict[str, Any] | None]
    token_hash: Mapped[str | None]
    over_budget: Mapped[bool] = mapped_column(default=False, server_default="0")
    recorded: Mapped[bool] = mapped_column(default=False, server_default="0")
    error: Mapped[str | None]
    traceback: Mapped[str | None]
    stop_reason: Mapped[str | None]
    total: Mapped[int]
    created_at: Mapped[float] = mapped_column(index=True)
    begun_at: Mapped[float | None]
    started_at: Mapped[float | None]
    ended_at: Mapped[float | None]


class Arm(Base):
    """One arm: a policy version with its settings, on the eval's starts. Its episodes are numbered from `first`.

    `todo` are the starts it plays, as [first, how many] in order; `planned` how many those are. Of them the first
    `next` were handed out, and the first `filed` are done and lie in `parts`, `filed_failed` of them errors.
    """

    __tablename__ = "arms"

    eval_id: Mapped[str] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    model: Mapped[str]
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"))
    settings: Mapped[dict[str, Any]]
    first: Mapped[int]
    todo: Mapped[list[Any]]
    planned: Mapped[int]
    next: Mapped[int] = mapped_column(default=0)
    filed: Mapped[int] = mapped_column(default=0)
    filed_failed: Mapped[int] = mapped_column(default=0)


class Part(Base):
    """A file of finished episodes of one arm, `rows` of them with indices from `first` to `last`, in order."""

    __tablename__ = "parts"

    eval_id: Mapped[str] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), primary_key=True)
    arm: Mapped[int] = mapped_column(primary_key=True)
    first: Mapped[int] = mapped_column(primary_key=True)
    last: Mapped[int]
    rows: Mapped[int]


class Episode(Base):
    """An episode that was handed out and is not in a part. State: pending (again), leased, done.

    `attempt` counts leases; `instance_id` is who holds it; `outcome` the accepted EpisodeOutcome. A result is accepted
    once: while the state is not done.
    """

    __tablename__ = "episodes"
    __table_args__ = (Index("ix_episodes_queue", "eval_id", "state", "arm", "index"),)

    eval_id: Mapped[str] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    arm: Mapped[int] = mapped_column(server_default="0")
    state: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=0)
    instance_id: Mapped[str | None] = mapped_column(index=True)
    outcome: Mapped[dict[str, Any] | None]
    failed: Mapped[bool] = mapped_column(default=False)
    ended_at: Mapped[float | None]


class Instance(Base):
    """A benchmark instance of an arm: a wanted row becomes an actor of that name.

    State: wanted, starting, running, ended, lost. `place` counts the arm's instances from 0 and is taken over by the
    one that replaces a lost one. `seen_at` is its last heartbeat, `pids` its environment processes as it last told
    them; `lease_number` and `lease_indices` are its last request for episodes and what it was given, for when that
    answer is lost.
    """

    __tablename__ = "instances"

    id: Mapped[str] = mapped_column(primary_key=True)
    eval_id: Mapped[str] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), index=True)
    arm: Mapped[int] = mapped_column(server_default="0")
    place: Mapped[int] = mapped_column(server_default="0")
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


class Schedule(Base):
    """An eval that runs by itself. `every`: daily, weekly, deploy. `due_at` is when next (None: at the next deploy).

    `request` is the EvalRequest of every run; `version_id` the policy version that ran last; `webhook` where a
    regression is told and `secret` (encrypted) what its bodies are signed with; `told` the last eval whose outcome was
    looked at. `note` is why the last run did not start.
    """

    __tablename__ = "schedules"

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id", ondelete="CASCADE"), index=True)
    benchmark: Mapped[str]
    every: Mapped[str]
    request: Mapped[dict[str, Any]]
    webhook: Mapped[str | None]
    secret: Mapped[str | None]
    version_id: Mapped[str | None]
    due_at: Mapped[float | None]
    told: Mapped[str | None]
    note: Mapped[str | None]
    created_at: Mapped[float]
