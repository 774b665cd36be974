"""Benchmarks: register, read, remove."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.evals import reading
from runner.fleet import benchmarks as fleet
from runner.gateway.deps import Ctx, FullCaller, PageQuery, page
from runner.times import iso
from seq.contract.benchmarks import BenchmarkRegisterRequest

router = APIRouter()


@router.post("/v1/benchmarks", status_code=202)
def register(body: BenchmarkRegisterRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Register a benchmark, or its next version."""
    return fleet.register(ctx, caller.account_id, body).wire()


@router.get("/v1/benchmarks")
def listing(ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """One page of the caller's benchmarks."""
    found = fleet.listing(ctx, caller.account_id, asked.offset, asked.limit, iso)
    return page("benchmarks", found.rows, found.total, asked.offset, asked.limit)


@router.get("/v1/benchmarks/{name}")
def status(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Where the newest registration stands."""
    return fleet.status(ctx, caller.account_id, name).wire()


@router.get("/v1/benchmarks/{name}/logs")
def logs(name: str, ctx: Ctx, caller: FullCaller, version: int | None = None) -> dict[str, Any]:
    """A registration's phases and log."""
    return fleet.logs(ctx, caller.account_id, name, version)


@router.get("/v1/benchmarks/{name}/io")
def described(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """What it shows and takes."""
    return fleet.described(ctx, caller.account_id, name)


@router.delete("/v1/benchmarks/{name}")
def remove(name: str, ctx: Ctx, caller: FullCaller, dry_run: bool = False, force: bool = False) -> dict[str, Any]:
    """Remove a benchmark; with `force`, the evals running on it are canceled."""
    if dry_run:
        return fleet.would_remove(ctx, caller.account_id, name)
    removed = fleet.remove(ctx, caller.account_id, name, force=force)
    why = f"canceled because its benchmark {removed['deleted']!r} was removed while it ran (seq benchmark rm --force)"
    for eval_id in removed["evals_canceled"]:
        reading.cancel(ctx, caller.account_id, eval_id, why)
    return removed
