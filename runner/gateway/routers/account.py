"""The caller's account: what it holds and what it may hold."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.evals import line
from runner.gateway.deps import Ctx, FullCaller
from runner.gateway.requests import MAX_BODY_BYTES
from runner.store.queries import accounts, evals, workers
from seq.contract.code import MAX_BUNDLE_BYTES, MAX_RAW_BYTES

router = APIRouter()


@router.get("/v1/account")
def account(ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Nothing is charged on this platform, so the balance stays 0 and there is no credit limit."""
    with ctx.store.read() as session:
        name = accounts.account_name(session, caller.account_id)
        usage = accounts.count_things(session, caller.account_id)
        held = workers.cards_of(session, caller.account_id)
        waiting = [row for row in evals.queued(session) if row.account_id == caller.account_id]
    limit, total = ctx.settings.gpus_per_account, sum(held.values())
    in_use, now = {**held, "total": total}, ctx.clock.now()
    waits = [{"eval_id": row.id, **line.wait_block(row, now)} for row in waiting]
    return {
        "account": name,
        "balance": {"balance": 0.0, "currency": "USD", "credit_limit_usd": None},
        "gpus": {"limit": limit, "in_use": in_use, "available": max(0, limit - total), "waiting_evals": waits},
        "usage": usage,
        "limits": {
            "max_gpus_per_user": limit,
            "max_request_bytes": MAX_BODY_BYTES,
            "max_code_bytes": MAX_BUNDLE_BYTES,
            "max_source_bytes": MAX_RAW_BYTES,
        },
    }
