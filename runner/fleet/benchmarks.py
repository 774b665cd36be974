"""Benchmarks as their owner sees them: registered, read, removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner.context import Context
from runner.errors import Refused, no_such
from runner.fleet import buildlog
from runner.fleet.checks import cards_of, check_benchmark
from runner.fleet.deployments import Listed, full_error, keep_bundle
from runner.store.db import Session
from runner.store.queries import benchmarks, deployments, schedules
from runner.store.tables import Benchmark, BenchmarkVersion
from seq.contract.benchmarks import BenchmarkRegisterRequest, BenchmarkStatus


def register(ctx: Context, account_id: str, request: BenchmarkRegisterRequest) -> BenchmarkStatus:
    """A new version to be built and checked; the versions before it stay as they are. Raises Refused."""
    check_benchmark(request, cards_of(ctx.cluster))
    sha256 = keep_bundle(ctx, request.code)
    now = ctx.clock.now()
    with ctx.store.write() as session:
        row = benchmarks.find(session, account_id, request.name)
        if row is None:
            row = benchmarks.add(
                session,
                benchmark_id=ctx.new_id(),
                account_id=account_id,
                name=request.name,
                handler_ref=request.handler_ref,
                now=now,
            )
        elif _held_by_another(session, row, request.handler_ref):
            raise Refused(
                "conflict",
                f"the benchmark {request.name!r} is {row.handler_ref}, and this is {request.handler_ref}",
                hint=f"register under another name, or remove that one first: seq benchmark rm {request.name}",
                held_by=row.handler_ref,
            )
        elif row.latest is None:
            row.handler_ref = request.handler_ref
        kept = request.model_dump(mode="json", exclude={"code"}, exclude_none=True)
        benchmarks.add_version(session, row, version_id=ctx.new_id(), request=kept, bundle=sha256, now=now)
    ctx.wake.set()
    return BenchmarkStatus(name=request.name, status="building")


def _held_by_another(session: Session, row: Benchmark, handler: str) -> bool:
    """A name whose registrations have all failed is not held."""
    if row.handler_ref == handler:
        return False
    return any(version.state != "failed" for version in benchmarks.versions(session, row.id))


def owned(session: Session, account_id: str, name: str) -> Benchmark:
    """The caller's benchmark; another account's is not found, like one that is not there."""
    row = benchmarks.find(session, account_id, name)
    if row is None:
        raise no_such("benchmark", name, benchmarks.names(session, account_id))
    return row


def _newest(session: Session, row: Benchmark) -> BenchmarkVersion:
    newest = benchmarks.newest(session, row.id)
    assert newest is not None  # noqa: S101 - a benchmark is made together with its first version
    return newest


def status(ctx: Context, account_id: str, name: str) -> BenchmarkStatus:
    """The state of the version registered last, with its own error where it failed."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        version = _newest(session, row)
    return BenchmarkStatus(name=row.name, status=version.state, error=full_error(version))


def listing(ctx: Context, account_id: str, offset: int, limit: int, iso: Callable[[float], str]) -> Listed:
    """One page of the account's benchmarks; `iso` writes a time."""
    with ctx.store.read() as session:
        rows, total = benchmarks.listed(session, account_id, offset, limit)
        return Listed([_row(session, row, iso) for row in rows], total)


def _row(session: Session, row: Benchmark, iso: Callable[[float], str]) -> dict[str, Any]:
    versions = benchmarks.versions(session, row.id)
    shown = next((version for version in versions if version.number == row.latest), versions[0])
    request = shown.request
    return {
        "name": row.name,
        "version": shown.number,
        "versions": len(versions),
        "status": shown.state,
        "gpu": request.get("gpu") or "L4",
        "envs": request.get("envs") or request.get("cpu") or 1,
        "created_at": iso(row.created_at),
        "error": versions[0].error,
    }


def logs(ctx: Context, account_id: str, name: str, number: int | None) -> dict[str, Any]:
    """The phases and log of a version, the newest by default."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        newest = _newest(session, row)
        version = newest if number is None else benchmarks.numbered(session, row.id, number)
        if version is None:
            known = [str(other.number) for other in benchmarks.versions(session, row.id)]
            raise Refused("not_found", f"{row.name!r} has no version {number}", hint=f"it has: {', '.join(known)}")
    log = buildlog.read(buildlog.path_of(ctx.settings, version.id))
    answer = {
        "benchmark": row.name,
        "version": version.number,
        "latest": newest.number,
        "status": version.state,
        "error": full_error(version),
        "phases": version.phases,
        "check": version.check,
        "log": log,
        "lines": [],
    }
    return {key: value for key, value in answer.items() if value is not None}


def described(ctx: Context, account_id: str, name: str) -> dict[str, Any]:
    """The first observation's description and the action contract of the version that evals use, else of the newest."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        version = benchmarks.numbered(session, row.id, row.latest) or _newest(session, row)
    action = version.request.get("action_contract")
    told: dict[str, Any] = {"version": version.number, "observation": version.observation}
    return told if action is None else told | {"action_contract": action}


def would_remove(ctx: Context, account_id: str, name: str) -> dict[str, Any]:
    """What removing a benchmark would end."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        versions = benchmarks.versions(session, row.id)
        running = benchmarks.evals_running(session, row.id)
        planned = _schedules(session, account_id, row.name)
    return {
        "benchmark": row.name,
        "version": versions[0].number,
        "status": versions[0].state,
        "build_in_flight": any(version.state == "building" for version in versions),
        "evals_running": running,
        "schedules": planned,
    }


def remove(ctx: Context, account_id: str, name: str, *, force: bool) -> dict[str, Any]:
    """Free the name and end its builds; refused while evals run on it, unless `force` (the caller cancels those)."""
    with ctx.store.write() as session:
        row = owned(session, account_id, name)
        running = benchmarks.evals_running(session, row.id)
        if running and not force:
            raise Refused(
                "conflict",
                f"{len(running)} eval(s) run on {row.name!r}",
                hint="wait for them, cancel them with seq eval cancel, or remove it all the same with --force",
                evals=running,
            )
        shown = row.name
        planned = _schedules(session, account_id, shown)
        for schedule in schedules.on_benchmark(session, account_id, shown):
            session.delete(schedule)
        building = benchmarks.remove(row, benchmarks.versions(session, row.id))
    ctx.wake.set()
    return {"deleted": shown, "evals_canceled": running, "build_canceled": building, "schedules": planned}


def _schedules(session: Session, account_id: str, name: str) -> list[dict[str, Any]]:
    """The schedules that end with a benchmark."""
    found = []
    for schedule in schedules.on_benchmark(session, account_id, name):
        deployment = deployments.get(session, schedule.deployment_id)
        found.append({"deployment": deployment.name if deployment else "", "every": schedule.every})
    return found
