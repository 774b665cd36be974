"""Deployments: submit, read, remove."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.fleet import block
from runner.fleet import deployments as fleet
from runner.gateway.deps import Ctx, FullCaller, PageQuery, page
from runner.times import iso
from seq.contract.deployments import DeploymentRequest

router = APIRouter()


@router.post("/v1/deployments", status_code=202)
def submit(body: DeploymentRequest, ctx: Ctx, caller: FullCaller, replace: bool = False) -> dict[str, Any]:
    """Submit a build."""
    return fleet.submit(ctx, caller.account_id, body, replace=replace).wire()


@router.get("/v1/deployments")
def listing(ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """One page of the caller's deployments."""
    found = fleet.listing(ctx, caller.account_id, asked.offset, asked.limit)
    return page("data", found.rows, found.total, asked.offset, asked.limit)


@router.get("/v1/deployments/{name}")
def status(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Where the newest build stands."""
    return fleet.status(ctx, caller.account_id, name).wire()


@router.get("/v1/deployments/{name}/build")
def build(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The newest build's phases and log."""
    return fleet.build(ctx, caller.account_id, name).wire()


@router.get("/v1/deployments/{name}/versions")
def versions(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The versions kept, newest first."""
    return {"data": fleet.versions(ctx, caller.account_id, name)}


@router.get("/v1/deployments/{name}/io")
def described(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """What goes in and comes out."""
    return fleet.described(ctx, caller.account_id, name)


@router.get("/v1/deployments/{name}/fleet")
def workers(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The workers there are."""
    return block.fleet(ctx, caller.account_id, name, iso)


@router.get("/v1/deployments/{name}/claim")
def claim(name: str, handler_ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """What deploying under the name would do."""
    return fleet.claim(ctx, caller.account_id, name, handler_ref)


@router.post("/v1/deployments/{name}/stop")
def stop(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """End the workers and refuse robots."""
    return fleet.stop(ctx, caller.account_id, name)


@router.post("/v1/deployments/{name}/start")
def start(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Let robots connect again."""
    return fleet.start(ctx, caller.account_id, name)


@router.delete("/v1/deployments/{name}")
def remove(name: str, ctx: Ctx, caller: FullCaller, force: bool = False) -> dict[str, Any]:
    """Remove a deployment."""
    return fleet.remove(ctx, caller.account_id, name, force=force)
