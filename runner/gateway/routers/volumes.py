"""Volumes: what evals recorded, each as `eval:<id>`; uploads come with a later version."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.gateway.deps import Ctx, FullCaller, PageQuery, page
from runner.store.queries import status

router = APIRouter()


@router.get("/v1/volumes")
def ls(ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """The recordings of the account's evals, newest first."""
    with ctx.store.read() as session:
        total = status.count_recorded_evals(session, caller.account_id)
        evals = status.recorded_evals(session, caller.account_id, asked.offset, asked.limit)
    rows = [
        {
            "name": f"eval:{eval_id}",
            "kind": "recordings",
            "state": "active",
            "version": None,
            "size_bytes": ctx.blobs.size(f"eval/{eval_id}"),
        }
        for eval_id in evals
    ]
    return page("data", rows, total, asked.offset, asked.limit)
