"""Chat and decide: a platform that serves no model says so, after it has looked at the request."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.errors import Refused
from runner.gateway.deps import ActCaller, Caller
from seq.contract.chat import ChatRequest, DecideRequest

router = APIRouter()


@router.post("/v1/chat")
def chat(body: ChatRequest, caller: ActCaller) -> dict[str, Any]:
    """Refused: there is no model to answer."""
    raise _no_model(body.model, "chat", caller)


@router.post("/v1/decide")
def decide(body: DecideRequest, caller: ActCaller) -> dict[str, Any]:
    """Refused: there is no model to answer."""
    raise _no_model(body.model, "decide", caller)


def _no_model(name: str, endpoint: str, caller: Caller) -> Refused:
    if caller.kind != "full":
        return Refused(
            "forbidden",
            f"this {caller.kind} key may call the models that its policy declares with models=, and it declares none",
            hint="use a full key of the account",
        )
    return Refused(
        "not_found",
        f"no {endpoint} model named {name[:80]!r}: this platform serves no models yet",
        hint="models: none; call a provider of your own with its own client, or another platform with base_url=",
    )
