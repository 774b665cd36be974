"""How an eval ends: when it is over, and what its row then says. What it started is ended by the controller."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from runner.store.db import Session
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as instance_rows
from runner.store.queries import workers as worker_rows
from runner.store.tables import Eval

FIRST_EPISODES = 10
INSTANCE_LOSSES = 5
WORKER_LOSSES = 3
LOOKED_AT = 1000
NO_METRIC = (
    "the benchmark's check returned no numeric metric in any of {n} episodes, so there is nothing to report; "
    "return seq.Step(done, metrics={{...}}) from it"
)


@dataclass(frozen=True)
class Failure:
    """Why an eval cannot go on."""

    error: str
    traceback: str | None = None


def judge(session: Session, row: Eval, now: float) -> bool:
    """End an eval that is over or cannot go on; whether it ended."""
    counts = rows.counts(session, row.id)
    failure = _failed_from_the_start(session, row, counts) or _lost_too_often(session, row)
    if failure is None and counts.pending + counts.leased > 0:
        return False
    failure = failure or _nothing_scored(session, row, counts)
    if failure is None:
        row.timing = {**row.timing, **measured(session, row, now)}
        eval_rows.end(row, "completed", now=now)
    else:
        fail(session, row, failure, now)
    return True


def fail(session: Session, row: Eval, failure: Failure, now: float) -> None:
    """End an eval as failed: what finished stays, the rest is not run."""
    rows.drop_open(session, row.id)
    eval_rows.end(row, "failed", now=now, error=failure.error, traceback=failure.traceback)


def cancel(session: Session, row: Eval, now: float, why: str | None = None) -> bool:
    """End an eval as canceled: what finished stays, the rest is not run. False for one that had ended already.

    `why`, where it was not the user's own wish, is the first of the report's errors.
    """
    if row.status not in eval_rows.OPEN:
        return False
    rows.drop_open(session, row.id)
    eval_rows.end(row, "canceled", now=now, error=why, stop_reason="canceled")
    return True


def measured(session: Session, row: Eval, now: float) -> dict[str, float]:
    """What the estimate learns from, in seconds: from the submission until a policy worker was ready (`policy_s`) and
    until the first lease (`launch_s`); from there until an environment was set up; and the run itself.
    """
    leased_at = row.started_at or now
    started = [event["at"] for event in row.timing.get("started", [])][:1] or [leased_at]
    workers = [worker for worker in worker_rows.of_eval(session, row.id) if worker.ready_at is not None]
    ready_at = min((worker.ready_at or now for worker in workers), default=leased_at)
    return {
        "policy_s": ready_at - row.created_at,
        "launch_s": leased_at - row.created_at,
        "setup_s": started[0] - leased_at,
        "run_s": max(0.0, now - max(ready_at, *started)),
        "load_s": max(((worker.ready_at or now) - worker.created_at for worker in workers), default=0.0),
    }


def _failed_from_the_start(session: Session, row: Eval, counts: rows.Counts) -> Failure | None:
    looked_at = min(FIRST_EPISODES, row.total)
    if counts.failed < looked_at:
        return None
    first = rows.first_finished(session, row.id, looked_at)
    if not all(first):
        return None
    cause, traceback, times = _most_common_error(session, row)
    return Failure(f"the first {looked_at} episodes all ended in an error, {times} of them: {cause}", traceback)


def _nothing_scored(session: Session, row: Eval, counts: rows.Counts) -> Failure | None:
    scored = counts.done - counts.failed
    if scored == 0:
        cause, traceback, times = _most_common_error(session, row)
        return Failure(
            f"no episode was scored: all {counts.done} ended in an error, {times} of them: {cause}", traceback
        )
    finished = [episode for episode in rows.finished(session, row.id, LOOKED_AT) if not episode.failed]
    if finished and not any((episode.outcome or {}).get("metrics") for episode in finished):
        return Failure(NO_METRIC.format(n=scored))
    return None


def _most_common_error(session: Session, row: Eval) -> tuple[str, str | None, int]:
    outcomes = [episode.outcome or {} for episode in rows.finished(session, row.id, LOOKED_AT) if episode.failed]
    cause, times = Counter(outcome["error"] for outcome in outcomes).most_common(1)[0]
    traceback = next((outcome.get("traceback") for outcome in outcomes if outcome["error"] == cause), None)
    return cause, traceback, times


def _lost_too_often(session: Session, row: Eval) -> Failure | None:
    since = max(rows.last_finished_at(session, row.id), row.created_at - 1)
    workers = [worker for worker in worker_rows.of_eval(session, row.id) if worker.state == "failed"]
    times = {worker.ended_at for worker in workers if (worker.ended_at or 0) > since}
    if len(times) >= WORKER_LOSSES:
        last = max(workers, key=lambda worker: worker.ended_at or 0)
        what = last.error or last.reason or "it ended"
        return Failure(
            f"the policy's worker failed {len(times)} times without an episode between: {what}", last.traceback
        )
    losses = instance_rows.losses_since(session, row.id, since)
    if losses >= INSTANCE_LOSSES:
        lost = [instance for instance in instance_rows.of_eval(session, row.id) if instance.state == "lost"]
        what = max(lost, key=lambda instance: instance.ended_at or 0).error or "it ended"
        return Failure(f"the benchmark's instance was lost {losses} times without an episode between: {what}")
    return None
