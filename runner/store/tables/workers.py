"""Policy workers: every process that serves, or is wanted to serve, one version."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Worker(Base):
    """A wanted row becomes a process named by its id. State: wanted, starting, ready, stopping, stopped, failed.

    Purpose: `check` (the build's), `serve`, `eval` (of `eval_id`). `secret` and the certificate's key are encrypted;
    `token_hash` is of the token the worker reports with. `card` and `cards` are what it holds ("cpu" counts as one).
    `sockets` are where its copies take acts on its own machine; `facts` what it says of its Python and its packages.
    """

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id", ondelete="CASCADE"), index=True)
    purpose: Mapped[str]
    eval_id: Mapped[str | None] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"), index=True)
    state: Mapped[str] = mapped_column(index=True)
    card: Mapped[str] = mapped_column(server_default="cpu")
    cards: Mapped[int] = mapped_column(server_default="1")
    pid: Mapped[int | None]
    url: Mapped[str | None]
    fingerprint: Mapped[str | None]
    sockets: Mapped[list[Any]] = mapped_column(default=list, server_default="[]")
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    secret: Mapped[str | None]
    tls_cert: Mapped[str | None]
    tls_key: Mapped[str | None]
    token_hash: Mapped[str | None] = mapped_column(index=True)
    reason: Mapped[str | None]
    error: Mapped[str | None]
    traceback: Mapped[str | None]
    acts: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[float]
    ready_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    ended_at: Mapped[float | None]
