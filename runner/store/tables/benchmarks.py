"""Benchmarks and their versions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Benchmark(Base):
    """A name an account registered a benchmark under."""

    __tablename__ = "benchmarks"
    __table_args__ = (UniqueConstraint("account_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    handler_ref: Mapped[str]
    latest: Mapped[int | None]
    created_at: Mapped[float]


class BenchmarkVersion(Base):
    """One registration. State `building`, `ready` or `failed`; `request` is the request without bundle.

    `observation` is the description (wire.md 4.5) of the first observation; `check` what the first step showed;
    `token_hash` is of the token its check process reports with.
    """

    __tablename__ = "benchmark_versions"
    __table_args__ = (UniqueConstraint("benchmark_id", "number"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="CASCADE"), index=True)
    number: Mapped[int]
    state: Mapped[str] = mapped_column(index=True)
    request: Mapped[dict[str, Any]]
    bundle: Mapped[str | None]
    image_hash: Mapped[str | None]
    observation: Mapped[dict[str, Any] | None]
    check: Mapped[dict[str, Any] | None]
    token_hash: Mapped[str | None] = mapped_column(index=True)
    error: Mapped[str | None]
    traceback: Mapped[str | None]
    phases: Mapped[list[Any]] = mapped_column(default=list)
    created_at: Mapped[float]
