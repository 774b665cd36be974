"""The caller's account: what it holds and what it may hold."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.gateway.deps import Ctx, FullCaller
from runner.gateway.requests import MAX_BODY_BYTES
from runner.store.queries import accounts
from seq.contract.code import MAX_BUNDLE_BYTES, MAX_RAW_BYTES

MAX_GPUS = 8

router = APIRouter()


@router.get("/v1/account")
def account(ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Nothing is charged on this platform, so the balance stays 0 and there is no credit limit."""
    with ctx.store.read() as session:
        name = accounts.account_name(session, caller.account_id)
        usage = accounts.count_things(session, caller.account_id)
    # No card can be declared here yet (`cpu` counts as none), so none is ever held.
    in_use = {"serving": 0, "eval": 0, "total": 0}
    return {
        "account": name,
        "balance": {"balance": 0.0, "currency": "USD", "credit_limit_usd": None},
        "gpus": {"limit": MAX_GPUS, "in_use": in_use, "available": MAX_GPUS, "waiting_evals": []},
        "usage": usage,
        "limits": {
            "max_gpus_per_user": MAX_GPUS,
            "max_request_bytes": MAX_BODY_BYTES,
            "max_code_bytes": MAX_BUNDLE_BYTES,
            "max_source_bytes": MAX_RAW_BYTES,
        },
    }
