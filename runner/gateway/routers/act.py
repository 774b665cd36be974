"""The robot's door: connect, release, ready; latency is taken, labels come with captures."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from runner.errors import Refused
from runner.fleet import connect as door
from runner.gateway.deps import ActCaller, Caller, Ctx
from runner.times import iso
from seq.contract.acts import ConnectRequest, ReleaseRequest

router = APIRouter()


def _who(caller: Caller) -> door.Who:
    return door.Who(caller.account_id, caller.deployment_id, caller.eval_id)


@router.post("/v1/act/connect")
async def connect(body: ConnectRequest, request: Request, ctx: Ctx, caller: ActCaller) -> dict[str, Any]:
    """Where to act. Also a renewal: the same question, the same session."""
    until = ctx.clock.monotonic() + min(body.wait_s, door.HOLDS_MOST_S)
    with ctx.bell.asking(body.session):
        while True:
            rung = ctx.bell.rung
            answer = await run_in_threadpool(door.connect, ctx, _who(caller), body, iso)
            if not isinstance(answer, door.Waits):
                return answer.wire()
            left_s, at = until - ctx.clock.monotonic(), answer.position
            heard = left_s > 0 and await ctx.bell.wait(answer.deployment_id, body.session, at, rung, left_s)
            # A robot that went away meanwhile must not be given a slot.
            if not heard or await request.is_disconnected():
                raise answer.refusal


@router.post("/v1/act/release")
def release(body: ReleaseRequest, ctx: Ctx, caller: ActCaller) -> dict[str, Any]:
    """A robot leaves; an unknown one is nothing."""
    door.release(ctx, _who(caller), body.model, body.session)
    return {}


@router.get("/v1/act/ready")
def ready(model: str, ctx: Ctx, caller: ActCaller) -> dict[str, Any]:
    """Whether a robot would be served now."""
    return door.ready(ctx, _who(caller), model).wire()


@router.post("/v1/latency")
def latency(caller: ActCaller) -> dict[str, Any]:  # noqa: ARG001 - a key is needed all the same
    """Latency records are taken and not kept yet."""
    return {}


@router.post("/v1/deployments/{name}/episodes/{episode_id}/label")
def label(name: str, episode_id: str, ctx: Ctx, caller: ActCaller) -> dict[str, Any]:
    """Refused: there is no captured episode a label could belong to."""
    with ctx.store.read() as session:
        row = door.allowed(session, _who(caller), name)
    raise Refused(
        "invalid_request",
        f"episode {episode_id[:40]!r} of {row.name!r} was not captured: this platform does not capture acts yet",
        hint="leave label() out until captures are there",
    )
