"""Evals: start or estimate one, read it, stop it, fetch its recordings, list a deployment's."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from runner.errors import Refused, no_such
from runner.evals import reading, submit, table
from runner.evals.report import details, primary, report
from runner.gateway.deps import Ctx, FullCaller, PageQuery, page
from runner.gateway.times import iso
from runner.store.db import Session
from runner.store.queries import benchmarks, deployments, episodes
from runner.store.queries import evals as rows
from runner.store.tables import Eval
from seq.contract.evals import EvalRequest

router = APIRouter()


@router.post("/v1/eval")
def start(request: EvalRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """A dry run tells what it would take and starts nothing; a real one answers the eval's id."""
    return submit.submit(ctx, caller.account_id, request)


@router.get("/v1/eval/{ref}")
def read(ref: str, request: Request, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The report as it stands."""
    with ctx.store.read() as session:
        found = table.read(session, reading.find(session, caller.account_id, ref), ctx.clock.now())
    return report(found, str(request.base_url).rstrip("/")).wire()


@router.get("/v1/eval/{ref}/details")
def read_details(ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """What the report has no room for."""
    with ctx.store.read() as session:
        found = table.read(session, reading.find(session, caller.account_id, ref), ctx.clock.now())
    return details(found)


@router.get("/v1/eval/{ref}/episodes")
def read_episodes(ref: str, ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """Episodes by index, in pages."""
    with ctx.store.read() as session:
        row = reading.find(session, caller.account_id, ref)
        found = table.page_rows(session, row, asked.offset, asked.limit)
    return page("episodes", [episode.wire() for episode in found], row.total, asked.offset, asked.limit)


@router.post("/v1/eval/{ref}/cancel")
def cancel(ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Nothing more starts; what finished is kept. Again, or after the end: nothing changes."""
    row = reading.cancel(ctx, caller.account_id, ref)
    return {"eval_id": row.id, "status": row.status}


@router.get("/v1/eval/{ref}/videos/{index}.mp4")
def video(ref: str, index: int, ctx: Ctx, caller: FullCaller) -> Response:
    """The recording of the episode of that index."""
    with ctx.store.read() as session:
        row = reading.find(session, caller.account_id, ref)
        if not 0 <= index < row.total:
            raise Refused("not_found", f"eval {row.id} has no episode {index}; it has 0 to {row.total - 1}")
        outcome = _outcome(session, row, index)
    if not outcome.get("recorded"):
        raise Refused("not_found", f"episode {index} of eval {row.id} has no recording")
    try:
        content = ctx.blobs.get(f"eval/{row.id}/{index}/{outcome['attempt']}/video.mp4")
    except FileNotFoundError as gone:
        raise Refused("not_found", f"the recording of episode {index} of eval {row.id} is no longer there") from gone
    return Response(content, media_type="video/mp4")


@router.get("/v1/deployments/{name}/evals")
def history(name: str, ctx: Ctx, caller: FullCaller, asked: PageQuery, benchmark: str | None = None) -> dict[str, Any]:
    """A deployment's evals, newest first; all of them, or those on one benchmark."""
    with ctx.store.read() as session:
        deployment = deployments.find(session, caller.account_id, name)
        if deployment is None:
            raise no_such("deployment", name, deployments.names(session, caller.account_id))
        if benchmark is not None:
            _refuse_unknown(session, caller.account_id, benchmark)
        versions = [version.id for version in deployments.versions(session, deployment.id)]
        where: dict[str, Any] = {"version_ids": versions, "benchmark": benchmark}
        found, total = rows.history(session, caller.account_id, **where, offset=asked.offset, limit=asked.limit)
        items = [_listed(table.read(session, row, ctx.clock.now())) for row in found]
    listing = page("history", items, total, asked.offset, asked.limit)
    return {"deployment": deployment.name, "schedules": [], **listing}


def _refuse_unknown(session: Session, account_id: str, benchmark: str) -> None:
    """A benchmark that was removed is still known by its evals."""
    if benchmarks.find(session, account_id, benchmark) is not None:
        return
    _, evals_on_it = rows.history(session, account_id, benchmark=benchmark, offset=0, limit=1)
    if not evals_on_it:
        raise no_such("benchmark", benchmark, benchmarks.names(session, account_id))


def _outcome(session: Session, row: Eval, index: int) -> dict[str, Any]:
    episode = episodes.at(session, row.id, [index]).get(index)
    return (episode.outcome or {}) if episode else {}


def _listed(found: table.Table) -> dict[str, Any]:
    row, shown = found.row, primary(found)
    name, value = shown or (None, None)
    return {
        "eval_id": row.id,
        "status": row.status,
        "created_at": iso(row.created_at),
        "model_version": row.plan["model_version"],
        "benchmark": row.benchmark,
        "benchmark_version": row.plan["benchmark_version"],
        "metric": name,
        "value": value.mean if value else None,
        "low": value.low if value else None,
        "high": value.high if value else None,
        "incomplete": found.incomplete,
    }
