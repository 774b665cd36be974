"""Evals: start or estimate one, read it, stop it, fetch its files, compare two, list and schedule a deployment's."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from runner.errors import no_such
from runner.evals import beside, comparing, files, reading, schedules, submit, table
from runner.evals.details import MOST_EPISODES, details
from runner.evals.headline import Headlines, headlines
from runner.evals.report import report
from runner.gateway.deps import Ctx, FullCaller, PageQuery, page
from runner.store.db import Session
from runner.store.queries import benchmarks, deployments
from runner.store.queries import evals as rows
from runner.store.tables import Deployment, Eval
from runner.times import iso
from seq.contract.evals import EvalRequest, ScheduleRequest

router = APIRouter()


@router.post("/v1/eval")
def start(request: EvalRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """A dry run tells what it would take and starts nothing; a real one answers the eval's id."""
    return submit.submit(ctx, caller.account_id, request)


@router.get("/v1/eval/{ref}")
def read(ref: str, request: Request, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The report as it stands."""
    with ctx.store.read() as session:
        row = reading.find(session, caller.account_id, ref)
        found = table.read(session, ctx.blobs, row, ctx.clock.now())
    return report(found, str(request.base_url).rstrip("/")).wire()


@router.get("/v1/eval/{ref}/progress")
def read_progress(ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Status, counts, and the wait for cards if there is one: what somebody who waits looks at again and again."""
    return beside.progress(ctx, caller.account_id, ref)


@router.get("/v1/eval/{ref}/details")
def read_details(ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """What the report has no room for; its list of episodes is empty where there are very many."""
    with ctx.store.read() as session:
        row = reading.find(session, caller.account_id, ref)
        found = table.read(session, ctx.blobs, row, ctx.clock.now())
        total = found.first.planned * len(found.arms)
        episodes = table.page_rows(session, ctx.blobs, row, 0, total) if total <= MOST_EPISODES else []
    return details(found, episodes, beside.beside(ctx, found))


@router.get("/v1/eval/{ref}/episodes")
def read_episodes(ref: str, ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """Episodes by index, in pages."""
    with ctx.store.read() as session:
        row = reading.find(session, caller.account_id, ref)
        total = table.space(row, rows.arms(session, row.id))
        found = table.page_rows(session, ctx.blobs, row, asked.offset, asked.limit)
    return page("episodes", [episode.wire() for episode in found], total, asked.offset, asked.limit)


@router.get("/v1/eval/{ref}/compare/{other}")
def compare(ref: str, other: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The second eval minus the first over the starts that both scored; refused where they mean different things."""
    return comparing.compare(ctx, caller.account_id, ref, other)


@router.post("/v1/eval/{ref}/cancel")
def cancel(ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Nothing more starts; what finished is kept. Again, or after the end: nothing changes."""
    row = reading.cancel(ctx, caller.account_id, ref)
    return {"eval_id": row.id, "status": row.status}


@router.get("/v1/eval/{ref}/videos/{index}.mp4")
def video(ref: str, index: int, ctx: Ctx, caller: FullCaller) -> Response:
    """The recording of the episode of that index."""
    content = files.read(ctx, caller.account_id, ref, index, "recorded", "video.mp4")
    return Response(content, media_type="video/mp4")


@router.get("/v1/eval/{ref}/trajectories/{index}.jsonl.gz")
def trajectory(ref: str, index: int, ctx: Ctx, caller: FullCaller) -> Response:
    """What the episode of that index saw and did, a line an act."""
    content = files.read(ctx, caller.account_id, ref, index, "trajectory", "trajectory.jsonl.gz")
    return Response(content, media_type="application/gzip")


@router.put("/v1/deployments/{name}/evals/schedule")
def schedule(name: str, body: ScheduleRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Run an eval by itself from now on; set again, it keeps what is not said. The secret is told once."""
    return schedules.keep(ctx, caller.account_id, name, body)


@router.delete("/v1/deployments/{name}/evals/schedule")
def unschedule(name: str, benchmark: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Run it no more; what ran stays."""
    return schedules.drop(ctx, caller.account_id, name, benchmark)


@router.get("/v1/deployments/{name}/evals")
def history(name: str, ctx: Ctx, caller: FullCaller, asked: PageQuery, benchmark: str | None = None) -> dict[str, Any]:
    """A deployment's evals, newest first; all of them, or those on one benchmark."""
    with ctx.store.read() as session:
        deployment = _deployment(session, caller.account_id, name)
        if benchmark is not None:
            _refuse_unknown(session, caller.account_id, benchmark)
        versions = [version.id for version in deployments.versions(session, deployment.id)]
        where: dict[str, Any] = {"version_ids": versions, "benchmark": benchmark}
        found, total = rows.history(session, caller.account_id, **where, offset=asked.offset, limit=asked.limit)
        now = ctx.clock.now()
        items = [_listed(row, headlines(session, ctx.blobs, row, now), set(versions)) for row in found]
        planned = schedules.listed(session, deployment.id)
    return {
        "deployment": deployment.name,
        "schedules": planned,
        **page("history", items, total, asked.offset, asked.limit),
    }


def _deployment(session: Session, account_id: str, name: str) -> Deployment:
    found = deployments.find(session, account_id, name)
    if found is None:
        raise no_such("deployment", name, deployments.names(session, account_id))
    return found


def _refuse_unknown(session: Session, account_id: str, benchmark: str) -> None:
    """A benchmark that was removed is still known by its evals."""
    if benchmarks.find(session, account_id, benchmark) is not None:
        return
    _, evals_on_it = rows.history(session, account_id, benchmark=benchmark, offset=0, limit=1)
    if not evals_on_it:
        raise no_such("benchmark", benchmark, benchmarks.names(session, account_id))


def _listed(row: Eval, found: Headlines, versions: set[str]) -> dict[str, Any]:
    """An eval as a line: the primary metric of the first arm that has one of these versions."""
    arm = next((one for one in found.arms if one.version_id in versions), found.arms[0])
    sides = {side["version_id"]: side["version"] for side in row.plan["policies"]}
    return {
        "eval_id": row.id,
        "status": row.status,
        "created_at": iso(row.created_at),
        "model_version": sides.get(arm.version_id),
        "arm": arm.arm,
        "benchmark": row.benchmark,
        "benchmark_version": row.plan["benchmark_version"],
        "metric": arm.metric,
        "value": arm.value,
        "low": arm.low,
        "high": arm.high,
        "incomplete": found.incomplete,
        "scheduled": row.schedule_id is not None,
        "regressed": row.previous["regressed"] if row.previous else None,
    }
