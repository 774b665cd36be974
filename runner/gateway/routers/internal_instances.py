"""What a benchmark instance asks and tells; each call proves itself by the instance's own token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.evals import instances, queue
from runner.gateway.deps import Ctx, Token
from seq.contract.internal import InstanceEvent, LeaseRequest, RequeueRequest, ResultsRequest

router = APIRouter()


@router.get("/internal/instances/{instance_id}/spec")
def spec(instance_id: str, ctx: Ctx, token: Token) -> dict[str, Any]:
    """Everything the instance needs."""
    instances.authenticate(ctx, instance_id, token)
    return instances.spec(ctx, instance_id).wire()


@router.post("/internal/instances/{instance_id}/lease")
def lease(instance_id: str, request: LeaseRequest, ctx: Ctx, token: Token) -> dict[str, Any]:
    """The next episodes; also the heartbeat."""
    instances.authenticate(ctx, instance_id, token)
    return queue.lease(ctx, instance_id, request).wire()


@router.post("/internal/instances/{instance_id}/results")
def results(instance_id: str, request: ResultsRequest, ctx: Ctx, token: Token) -> dict[str, Any]:
    """Finished episodes, each taken once; in the store when this answers."""
    instances.authenticate(ctx, instance_id, token)
    return {"accepted": queue.take_results(ctx, instance_id, request.outcomes)}


@router.post("/internal/instances/{instance_id}/requeue")
def requeue(instance_id: str, request: RequeueRequest, ctx: Ctx, token: Token) -> dict[str, Any]:
    """Episodes that must run again."""
    instances.authenticate(ctx, instance_id, token)
    queue.give_back(ctx, instance_id, request.episodes, request.reason)
    return {}


@router.post("/internal/instances/{instance_id}/event")
def event(instance_id: str, request: InstanceEvent, ctx: Ctx, token: Token) -> dict[str, Any]:
    """What happened there."""
    instances.authenticate(ctx, instance_id, token)
    instances.tell(ctx, instance_id, request)
    return {}
