"""What workers and benchmark checks tell of themselves, each with its own token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.fleet import benchmark_builds, workers
from runner.gateway.deps import Ctx, Token
from seq.contract.internal import CheckReport, WorkerReport

router = APIRouter()


@router.post("/internal/workers/{worker_id}/report")
def report(worker_id: str, body: WorkerReport, ctx: Ctx, token: Token) -> dict[str, Any]:
    """A phase began, the worker serves, failed or ended."""
    workers.report(ctx, worker_id, token, body)
    return {}


@router.post("/internal/benchmarks/{version_id}/check")
def check(version_id: str, body: CheckReport, ctx: Ctx, token: Token) -> dict[str, Any]:
    """What one setup, reset and step showed."""
    benchmark_builds.report(ctx, version_id, token, body)
    return {}


@router.post("/internal/benchmarks/{version_id}/exited")
def exited(version_id: str, body: WorkerReport, ctx: Ctx, token: Token) -> dict[str, Any]:
    """The check's process ended."""
    benchmark_builds.exited(ctx, version_id, token, body)
    return {}
