"""Scaling: how a deployment grows and shrinks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.fleet import scaling as fleet
from runner.gateway.deps import Ctx, FullCaller
from seq.contract.scaling import ScalingRequest

router = APIRouter()


@router.get("/v1/deployments/{name}/scaling")
def read(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Everything as it stands, a limit that is not set as null."""
    return fleet.read(ctx, caller.account_id, name).model_dump(mode="json")


@router.put("/v1/deployments/{name}/scaling")
def scale(name: str, body: ScalingRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Change what was sent; the answer is everything as it stands, a limit that is not set as null."""
    return fleet.scale(ctx, caller.account_id, name, body).model_dump(mode="json")
