"""A benchmark's own `score`, run once all episodes are there, by a process of its own in the benchmark's Python."""

from __future__ import annotations

import hmac
from typing import Any

from runner import images
from runner.cluster.base import Command
from runner.context import Context
from runner.errors import Refused
from runner.evals import table
from runner.evals.parameters import Settings
from runner.store.queries import benchmarks
from runner.store.queries import evals as rows
from runner.store.tables import Eval
from runner.vault import token_hash
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.internal import ScoreReport, ScoreStart, WorkerReport

MODULE = "runner.engine.score"
PREFIX = "score-"
LIMIT_S = 600.0
MOST_STARTS = 3
PAGE = 2000


def process_name(eval_id: str) -> str:
    """The name of an eval's score process."""
    return f"{PREFIX}{eval_id}"


def launch(ctx: Context, eval_id: str) -> None:
    """Start it; an eval that cannot be scored is told so and keeps its means. Raises ClusterLostError."""
    token = ctx.new_secret()
    with ctx.store.write() as session:
        row = rows.get(session, eval_id)
        version = benchmarks.version(session, row.benchmark_version_id) if row is not None else None
        if row is None or version is None or row.ended_at is not None:
            return
        starts = row.timing.get("score_starts", [])
        if len(starts) >= MOST_STARTS:
            row.scores = _nothing(row, f"score: its process was lost {MOST_STARTS} times")
            return
        row.timing = {**row.timing, "score_starts": [*starts, ctx.clock.now()]}
        row.token_hash = token_hash(token)
        arms = rows.arms(session, eval_id)
    request = BenchmarkRegisterRequest.model_validate(version.request)
    try:
        environment = images.find(ctx.settings, version.image_hash or "")
        code, sdk = images.unpack(ctx.settings, ctx.blobs, version.bundle), images.sdk(ctx.settings)
    except images.BuildError as missing:
        give_up(ctx, eval_id, f"score: {missing}")
        return
    start = ScoreStart(
        eval_id=eval_id,
        gateway_url=ctx.settings.url,
        token=token,
        code_dir=str(code),
        handler_ref=request.handler_ref,
        batched=request.batched,
        envs=row.plan["envs"],
        arms=len(arms),
        setup_params=[Settings.of_wire(arm.settings).given("benchmark") for arm in arms],
    )
    log_path = ctx.settings.logs / f"{process_name(eval_id)}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    ctx.cluster.launch_command(
        Command(
            name=process_name(eval_id),
            argv=[str(environment.python), "-P", "-m", MODULE],
            env=images.process_env(environment, sdk, code),
            stdin=start.model_dump_json(exclude_none=True),
            log_path=str(log_path),
            cwd=str(code),
            exit_url=f"{ctx.settings.url}/internal/evals/{eval_id}/score/exited",
            token=token,
        )
    )


def is_late(row: Eval, now: float) -> bool:
    """Whether its score has run for longer than it may."""
    starts = row.timing.get("score_starts", [])
    return bool(starts) and now - starts[-1] > LIMIT_S


def give_up(ctx: Context, eval_id: str, why: str) -> None:
    """The means stay, and the report says why nothing replaced them."""
    with ctx.store.write() as session:
        row = rows.get(session, eval_id)
        if row is not None and row.scores is None:
            row.scores = _nothing(row, why)
    ctx.wake.set()


def episodes(ctx: Context, eval_id: str, token: str, arm: int, offset: int) -> dict[str, Any]:
    """A page of an arm's scored episodes, as `score` is given them; `next` is where the following one begins."""
    with ctx.store.read() as session:
        row = _own(rows.get(session, eval_id), token)
        each = int(row.plan["starts"])
        end = min(offset + PAGE, each)
        found = table.page_rows(session, ctx.blobs, row, arm * each + offset, end - offset)
    return {
        "episodes": [one.wire() for one in found if one.attempts and one.error is None],
        "next": end if end < each else None,
    }


def take(ctx: Context, eval_id: str, token: str, told: ScoreReport) -> None:
    """Keep what the score said; the eval then ends. Told again, it changes nothing."""
    with ctx.store.write() as session:
        row = _own(rows.get(session, eval_id), token)
        if row.scores is None:
            row.scores = _nothing(row, told.error) if told.error else {n: one.wire() for n, one in told.arms.items()}
    ctx.wake.set()


def exited(ctx: Context, eval_id: str, token: str, told: WorkerReport) -> None:
    """Its process ended; where it had not reported before, that is what the report says."""
    with ctx.store.read() as session:
        _own(rows.get(session, eval_id), token)
    give_up(ctx, eval_id, f"score: its process ended before it had answered: {told.error or 'nobody knows why'}")


def _nothing(row: Eval, why: str) -> dict[str, Any]:
    return {str(number): {"errors": [why]} for number in range(row.plan["arms"])}


def _own(row: Eval | None, token: str) -> Eval:
    if row is None or not hmac.compare_digest(row.token_hash or "", token_hash(token)):
        raise Refused("unauthenticated", "this is not the token of that eval's score")
    return row
