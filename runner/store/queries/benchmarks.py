"""Rows of benchmarks and their versions. A removed benchmark keeps its row under a name with a `~` in it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from runner.store.tables import Benchmark, BenchmarkVersion, Eval


def find(session: Session, account_id: str, name: str) -> Benchmark | None:
    """The account's benchmark of that name (or id)."""
    return session.scalars(
        select(Benchmark).where(
            Benchmark.account_id == account_id,
            or_(Benchmark.name == name, Benchmark.id == name),
            Benchmark.name.not_like("%~%"),
        )
    ).first()


def get(session: Session, benchmark_id: str) -> Benchmark | None:
    """The benchmark with that id, removed or not."""
    return session.get(Benchmark, benchmark_id)


def names(session: Session, account_id: str) -> list[str]:
    """The account's benchmark names, sorted."""
    return list(
        session.scalars(
            select(Benchmark.name)
            .where(Benchmark.account_id == account_id, Benchmark.name.not_like("%~%"))
            .order_by(Benchmark.name)
        )
    )


def listed(session: Session, account_id: str, offset: int, limit: int) -> tuple[list[Benchmark], int]:
    """One page of the account's benchmarks by name, and how many there are."""
    mine = (Benchmark.account_id == account_id, Benchmark.name.not_like("%~%"))
    total = session.scalar(select(func.count()).select_from(Benchmark).where(*mine)) or 0
    rows = session.scalars(select(Benchmark).where(*mine).order_by(Benchmark.name).offset(offset).limit(limit))
    return list(rows), total


def add(session: Session, *, benchmark_id: str, account_id: str, name: str, handler_ref: str, now: float) -> Benchmark:
    """A new benchmark without a ready version."""
    row = Benchmark(id=benchmark_id, account_id=account_id, name=name, handler_ref=handler_ref, created_at=now)
    session.add(row)
    session.flush()
    return row


def remove(benchmark: Benchmark, rows: list[BenchmarkVersion]) -> bool:
    """Free the name and end its builds; whether one was going on. Versions stay for the evals that used them."""
    benchmark.name = f"{benchmark.name}~{benchmark.id}"
    benchmark.latest = None
    building_rows = [row for row in rows if row.state == "building"]
    for row in building_rows:
        row.state = "failed"
        row.error = "the benchmark was removed while this version was being built"
    return bool(building_rows)


def add_version(
    session: Session,
    benchmark: Benchmark,
    *,
    version_id: str,
    request: dict[str, Any],
    bundle: str | None,
    now: float,
) -> BenchmarkVersion:
    """The benchmark's next version, to be built."""
    highest = session.scalar(
        select(func.max(BenchmarkVersion.number)).where(BenchmarkVersion.benchmark_id == benchmark.id)
    )
    row = BenchmarkVersion(
        id=version_id,
        benchmark_id=benchmark.id,
        number=(highest or 0) + 1,
        state="building",
        request=request,
        bundle=bundle,
        phases=[],
        created_at=now,
    )
    session.add(row)
    session.flush()
    return row


def versions(session: Session, benchmark_id: str) -> list[BenchmarkVersion]:
    """Every version of a benchmark, newest first."""
    return list(
        session.scalars(
            select(BenchmarkVersion)
            .where(BenchmarkVersion.benchmark_id == benchmark_id)
            .order_by(BenchmarkVersion.number.desc())
        )
    )


def newest(session: Session, benchmark_id: str) -> BenchmarkVersion | None:
    """The version registered last."""
    return session.scalars(
        select(BenchmarkVersion)
        .where(BenchmarkVersion.benchmark_id == benchmark_id)
        .order_by(BenchmarkVersion.number.desc())
        .limit(1)
    ).first()


def version(session: Session, version_id: str) -> BenchmarkVersion | None:
    """The version with that id."""
    return session.get(BenchmarkVersion, version_id)


def numbered(session: Session, benchmark_id: str, number: int | None) -> BenchmarkVersion | None:
    """The version of that number; None for None."""
    return session.scalars(
        select(BenchmarkVersion).where(BenchmarkVersion.benchmark_id == benchmark_id, BenchmarkVersion.number == number)
    ).first()


def latest_ready(session: Session, account_id: str, name: str) -> tuple[Benchmark, BenchmarkVersion] | None:
    """The account's benchmark of that name (or id) with its newest ready version; None where either is missing."""
    benchmark = find(session, account_id, name)
    row = numbered(session, benchmark.id, benchmark.latest) if benchmark else None
    return (benchmark, row) if benchmark and row else None


def building(session: Session) -> list[BenchmarkVersion]:
    """Versions to be built, oldest first."""
    return list(
        session.scalars(
            select(BenchmarkVersion).where(BenchmarkVersion.state == "building").order_by(BenchmarkVersion.created_at)
        )
    )


def evals_running(session: Session, benchmark_id: str) -> list[str]:
    """Ids of evals not yet ended that use a version of the benchmark."""
    return list(
        session.scalars(
            select(Eval.id)
            .join(BenchmarkVersion, BenchmarkVersion.id == Eval.benchmark_version_id)
            .where(BenchmarkVersion.benchmark_id == benchmark_id, Eval.ended_at.is_(None))
        )
    )
