"""What runs: the gateway, the cluster's head, and the caller's workers and instances."""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter, Request

from runner.cluster.base import ClusterLostError
from runner.context import Context
from runner.gateway.deps import Ctx, FullCaller
from runner.store.queries import status as rows
from runner.times import iso
from sequence_ai import __version__

router = APIRouter()


@router.get("/v1/status")
def status(request: Request, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The head is shown to the first account alone. `cards` and `pretend` are null while no cluster answers."""
    with ctx.store.read() as session:
        workers = rows.open_workers(session, caller.account_id)
        instances = rows.open_instances(session, caller.account_id)
    answer: dict[str, Any] = {
        "gateway": {
            "pid": os.getpid(),
            "url": ctx.settings.url,
            "version": __version__,
            "started_at": iso(request.app.state.started_at),
        },
        **_cards(ctx),
        "workers": [
            {
                "id": row.id,
                "deployment": name,
                "purpose": row.purpose,
                "state": row.state,
                "pid": row.pid,
                "acts": row.acts,
            }
            for row, name in workers
        ],
        "instances": [
            {"id": row.id, "eval": row.eval_id, "state": row.state, "pid": row.pid, "pids": row.pids}
            for row in instances
        ],
    }
    return answer | {"head": _head(ctx)} if caller.first else answer


def _cards(ctx: Context) -> dict[str, Any]:
    try:
        capacity = ctx.cluster.capacity()
    except ClusterLostError:
        return {"cards": None, "pretend": None}
    return {"cards": capacity.cards, "pretend": capacity.pretend}


def _head(ctx: Context) -> dict[str, Any]:
    try:
        return {"pids": ctx.cluster.head_pids()}
    except ClusterLostError as lost:
        return {"pids": [], "error": str(lost)}
