"""Evals that run by themselves: kept, listed, begun when due, and each run held against the one before it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import structlog

from runner.context import Context
from runner.errors import Refused, no_such
from runner.evals import comparing, submit, table, webhook
from runner.evals.headline import headline
from runner.evals.report import aggregates
from runner.evals.stats import Difference
from runner.evals.table import Table, paired
from runner.store.db import Session
from runner.store.queries import deployments
from runner.store.queries import evals as rows
from runner.store.queries import schedules as queries
from runner.store.tables import Deployment, Eval, Schedule
from runner.times import iso
from seq.contract.evals import EvalRequest, ScheduleRequest

PERIODS = {"daily": 86_400.0, "weekly": 604_800.0}
TRIES = 3
AGAIN_AFTER_S = 60.0
LOOKED_AT = 20
ALPHA = 0.05
log = structlog.get_logger(__name__)


def keep(ctx: Context, account_id: str, name: str, body: ScheduleRequest) -> dict[str, Any]:
    """Set the schedule of a deployment on a benchmark; what is not said stays as it was. Raises Refused.

    What it would run is planned now, so that a mistake is told now; the secret of its webhook is told this once.
    """
    if body.webhook is not None:
        webhook.check(body.webhook)
    with ctx.store.read() as session:
        deployment = _deployment(session, account_id, name)
        before = queries.find(session, deployment.id, body.benchmark)
        request = _request(session, account_id, deployment, body, before)
    every = body.every or (before.every if before is not None else None)
    if every is None:
        raise Refused("invalid_request", "say how often: every is daily, weekly or deploy (--every)")
    submit.submit(ctx, account_id, request.model_copy(update={"dry_run": True}))
    fresh_secret = ctx.new_secret() if body.webhook is not None else None
    now = ctx.clock.now()
    with ctx.store.write() as session:
        row = queries.find(session, deployment.id, body.benchmark)
        if row is None:
            named = {"account_id": account_id, "deployment_id": deployment.id, "benchmark": body.benchmark}
            row = Schedule(id=ctx.new_id(), every=every, request={}, created_at=now, **named)
            session.add(row)
        if row.every != every or row.due_at is None:
            row.every, row.due_at = every, now + PERIODS[every] if every in PERIODS else None
        row.request, row.note = request.wire(), None
        serving = deployments.serving(session, account_id, deployment.name)
        row.version_id = serving[1].id if serving is not None else None
        if fresh_secret is not None:
            row.webhook, row.secret = body.webhook, ctx.vault.encrypt(fresh_secret)
        session.flush()
        told = _told(session, row)
    return {**told, **({"webhook_secret": fresh_secret} if fresh_secret else {})}


def drop(ctx: Context, account_id: str, name: str, benchmark: str) -> dict[str, Any]:
    """Remove a schedule; none there is refused."""
    with ctx.store.write() as session:
        deployment = _deployment(session, account_id, name)
        row = queries.find(session, deployment.id, benchmark)
        if row is None:
            there = [one.benchmark for one in queries.of_deployment(session, deployment.id)]
            raise no_such("schedule", f"{name} on {benchmark}", there)
        session.delete(row)
    return {"deployment": name, "benchmark": benchmark, "deleted": True}


def listed(session: Session, deployment_id: str) -> list[dict[str, Any]]:
    """A deployment's schedules as `eval ls` shows them."""
    return [_told(session, row) for row in queries.of_deployment(session, deployment_id)]


class ScheduleController:
    """Ticked by the loop: begins what is due and judges what has ended. A run that is missed is not made up for."""

    def __init__(self, ctx: Context, spawn: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._ctx = ctx
        self._spawn = spawn or _in_thread
        self._telling: set[str] = set()
        self._tries: dict[str, int] = {}
        self._again_at: dict[str, float] = {}

    def tick(self) -> None:
        """One look at every schedule."""
        with self._ctx.store.read() as session:
            every = queries.every(session)
        for row in every:
            self._judge(row)
            self._begin(row)

    def _begin(self, row: Schedule) -> None:
        now = self._ctx.clock.now()
        with self._ctx.store.read() as session:
            deployment = deployments.get(session, row.deployment_id)
            serving = deployments.serving(session, row.account_id, deployment.name) if deployment is not None else None
            last = next(iter(rows.of_schedule(session, row.id, 1)), None)
        version_id = serving[1].id if serving is not None else None
        if row.every == "deploy":
            due = version_id is not None and version_id != row.version_id
        else:
            due = row.due_at is not None and row.due_at <= now
        if not due:
            return
        if last is not None and last.ended_at is None:
            if row.every == "deploy":
                return  # it has its turn, with what serves then, once the one before has ended
            note: str | None = f"eval {last.id} still ran when the next one was due, so that one was left out"
        else:
            try:
                note = self._submitted(row)
            except Refused as refused:
                log.info("a scheduled eval cannot be planned yet", schedule=row.id, reason=refused.detail)
                return
        self._note(row.id, note, version_id, now)

    def _submitted(self, row: Schedule) -> str | None:
        """Begin a run; why it did not. Raises Refused where that is worth trying again soon."""
        try:
            submit.submit(self._ctx, row.account_id, EvalRequest.model_validate(row.request), schedule_id=row.id)
        except Refused as refused:
            if refused.code == "unavailable":
                raise
            log.warning("a scheduled eval was refused", schedule=row.id, reason=refused.detail)
            return f"the run of {iso(self._ctx.clock.now())} was refused: {refused.detail}"
        return None

    def _note(self, schedule_id: str, note: str | None, version_id: str | None, now: float) -> None:
        with self._ctx.store.write() as session:
            row = queries.get(session, schedule_id)
            if row is None:
                return
            row.note, row.version_id = note, version_id
            if row.due_at is not None:
                missed = int((now - row.due_at) // PERIODS[row.every])
                if missed:
                    log.warning("runs of a schedule were missed", schedule=row.id, runs=missed)
                row.due_at += (missed + 1) * PERIODS[row.every]

    def _judge(self, row: Schedule) -> None:
        """Hold the newest run that ended against the one before it, and tell of it."""
        with self._ctx.store.read() as session:
            newest = next((one for one in rows.of_schedule(session, row.id, 2) if one.ended_at is not None), None)
        if newest is None or newest.id == row.told or newest.id in self._telling:
            return
        if self._ctx.clock.now() < self._again_at.get(newest.id, 0.0):
            return
        if newest.previous is None:
            self._keep_previous(row, newest)
        self._telling.add(newest.id)
        self._spawn(lambda: self._tell(row.id, newest.id))

    def _keep_previous(self, schedule: Schedule, newest: Eval) -> None:
        blobs, now = self._ctx.blobs, self._ctx.clock.now()
        with self._ctx.store.read() as session:
            runs = [one for one in rows.of_schedule(session, schedule.id, LOOKED_AT) if one.id != newest.id]
            before = next((one for one in runs if one.status == "completed"), None)
            found = table.read(session, blobs, newest, now)
            old = table.read(session, blobs, before, now) if before is not None else None
        told = judged(found, old)
        with self._ctx.store.write() as session:
            row = rows.get(session, newest.id)
            if row is not None:
                row.previous = told

    def _tell(self, schedule_id: str, eval_id: str) -> None:
        """Post a regression or a failure to the webhook; one that cannot be reached is tried again, then noted."""
        try:
            with self._ctx.store.read() as session:
                row, newest = queries.get(session, schedule_id), rows.get(session, eval_id)
                name = _name(session, row)
            if row is None or newest is None:
                return
            failed = self._post(row, newest, name)
            tries = self._tries[eval_id] = self._tries.get(eval_id, 0) + 1
            if failed is not None and tries < TRIES:
                self._again_at[eval_id] = self._ctx.clock.now() + AGAIN_AFTER_S
                return
            self._tries.pop(eval_id)
            self._again_at.pop(eval_id, None)
            with self._ctx.store.write() as session:
                mine = queries.get(session, schedule_id)
                if mine is not None:
                    mine.told = eval_id
                    mine.note = mine.note if failed is None else f"its webhook was not reached: {failed}"
        finally:
            self._telling.discard(eval_id)

    def _post(self, row: Schedule, newest: Eval, name: str) -> str | None:
        """Why the webhook was not reached; None where it was, or there is nothing to tell."""
        previous = newest.previous or {}
        event = "failed" if newest.status != "completed" else "regressed" if previous.get("regressed") else None
        if row.webhook is None or row.secret is None or event is None or newest.stop_reason == "canceled":
            return None
        body = {
            "event": event,
            "deployment": name,
            "benchmark": row.benchmark,
            "eval_id": newest.id,
            "status": newest.status,
            "sentence": previous.get("sentence"),
            "previous": previous,
        }
        return webhook.post(row.webhook, self._ctx.vault.decrypt(row.secret), body)


def judged(found: Table, before: Table | None) -> dict[str, Any]:
    """How a run compares with the one before it: its primary metric over the starts that both scored.

    `regressed` where the whole 95 % interval of the difference lies below 0. `eval_id` and `value` are of the one
    before, `now` is of this one.
    """
    shown = headline(found.first)
    told: dict[str, Any] = {"regressed": False, "metric": shown.metric, "now": shown.value}
    if before is not None:
        told |= {"eval_id": before.row.id, "differs": comparing.differences(before, found)}
        told["value"] = {name: one.overall for name, one in aggregates(before.first).items()}.get(shown.metric or "")
    if found.row.status != "completed":
        return {**told, "sentence": f"this run {found.row.status}: {found.row.error or 'no reason was given'}"}
    if before is None:
        return {**told, "sentence": "there is no earlier run to compare with"}
    if not comparing.same_starts(before, found):
        return {**told, "sentence": "the benchmark changed since the run before, so the two are not comparable"}
    pairs = {pair.metric: pair.difference for pair in paired(before.first, found.first)}
    if shown.metric is None or shown.metric not in pairs:
        return {**told, "sentence": f"no start was scored by {shown.metric or 'any metric'} in both runs"}
    difference = pairs[shown.metric]
    regressed = _is_below(difference)
    return {
        **told,
        "difference": difference.wire(),
        "regressed": regressed,
        "sentence": _sentence(shown.metric, difference, regressed=regressed),
    }


def _is_below(difference: Difference) -> bool:
    """Whether it lies below 0, beyond chance. Equal differences have no interval, but the test tells of their sign."""
    if difference.high is not None:
        return difference.high < 0
    return (difference.mean_diff or 0.0) < 0 and difference.p is not None and difference.p < ALPHA


def _sentence(metric: str, difference: Difference, *, regressed: bool) -> str:
    over = f"{difference.mean_diff or 0.0:+.3f} over {difference.n} paired episode(s) since the run before"
    if regressed:
        how = "all differences are equal" if difference.high is None else "the 95 % interval lies below 0"
        return f"REGRESSION: {metric} {over}, beyond chance ({how})"
    if difference.low is not None and difference.low > 0:
        worse = "" if difference.method.startswith("Agresti-Min") else "; if less of it is better, that is worse"
        return f"{metric} {over}, beyond chance (the 95 % interval lies above 0){worse}"
    return f"{metric} {over}; no regression that could be told from chance"


def _request(
    session: Session, account_id: str, deployment: Deployment, body: ScheduleRequest, before: Schedule | None
) -> EvalRequest:
    kept = dict(before.request) if before is not None else {}
    asked = {"trials": body.trials, "max_usd": body.max_usd, "adapter": body.adapter}
    given = {name: value for name, value in asked.items() if value is not None}
    adapter = (
        given.get("adapter") or kept.get("adapter") or _last_adapter(session, account_id, deployment, body.benchmark)
    )
    merged = {**kept, **given, "model": deployment.name, "benchmark": body.benchmark, "adapter": adapter}
    return EvalRequest.model_validate({name: value for name, value in merged.items() if value is not None})


def _last_adapter(session: Session, account_id: str, deployment: Deployment, benchmark: str) -> str | None:
    """The adapter that this policy was last evaluated on this benchmark with."""
    versions = [version.id for version in deployments.versions(session, deployment.id)]
    where: dict[str, Any] = {"version_ids": versions, "benchmark": benchmark, "offset": 0, "limit": 1}
    found, _ = rows.history(session, account_id, **where)
    adapter = found[0].plan["adapter"] if found else None
    return adapter["name"] if adapter else None


def _told(session: Session, row: Schedule) -> dict[str, Any]:
    last = next(iter(rows.of_schedule(session, row.id, 1)), None)
    return {
        "benchmark": row.benchmark,
        "every": row.every,
        "trials": row.request.get("trials"),
        "max_usd": row.request.get("max_usd"),
        "adapter": row.request.get("adapter"),
        "due_at": iso(row.due_at) if row.due_at is not None else None,
        "webhook": row.webhook,
        "last_eval": last.id if last is not None else None,
        "last_error": row.note,
        "previous": last.previous if last is not None else None,
    }


def _deployment(session: Session, account_id: str, name: str) -> Deployment:
    found = deployments.find(session, account_id, name)
    if found is None:
        raise no_such("deployment", name, deployments.names(session, account_id))
    return found


def _name(session: Session, row: Schedule | None) -> str:
    deployment = deployments.get(session, row.deployment_id) if row is not None else None
    return deployment.name if deployment is not None else ""


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()
