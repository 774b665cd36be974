"""What the process of a benchmark's own score asks and tells; each call proves itself by its token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.evals import scoring
from runner.gateway.deps import Ctx, Token
from seq.contract.internal import ScoreReport, WorkerReport

router = APIRouter()


@router.get("/internal/evals/{eval_id}/score/episodes")
def episodes(eval_id: str, arm: int, offset: int, ctx: Ctx, token: Token) -> dict[str, Any]:
    """A page of an arm's scored episodes."""
    return scoring.episodes(ctx, eval_id, token, arm, offset)


@router.post("/internal/evals/{eval_id}/score")
def score(eval_id: str, body: ScoreReport, ctx: Ctx, token: Token) -> dict[str, Any]:
    """What the score said of each group."""
    scoring.take(ctx, eval_id, token, body)
    return {}


@router.post("/internal/evals/{eval_id}/score/exited")
def exited(eval_id: str, body: WorkerReport, ctx: Ctx, token: Token) -> dict[str, Any]:
    """Its process ended."""
    scoring.exited(ctx, eval_id, token, body)
    return {}
