"""How an eval ends: when it is over, and what its row then says. What it started is ended by the controller."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from runner.store.db import Session
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as instance_rows
from runner.store.queries import workers as worker_rows
from runner.store.queries.episodes import Counts
from runner.store.tables import Eval
from seq.contract.evals import StopReason

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
    """End an eval that is over or cannot go on; whether it ended. One whose score is wanted waits for that.

    A rerun completes what another eval has scored, so all of it is played, though all were errors before.
    """
    arms = rows.counts_of_arms(session, row)
    counts = sum(arms.values(), Counts())
    over, completes = played(row, counts), row.rerun_of is not None
    failure = _lost_too_often(session, row)
    if failure is None and not completes:
        failure = _failed_from_the_start(session, row, arms)
    if failure is None and over and not completes:
        failure = _nothing_scored(session, row, counts)
    if failure is not None:
        fail(session, row, failure, now)
        return True
    if not over or wants_score(row, counts):
        return False
    row.timing = {**row.timing, **measured(session, row, now)}
    rows.drop_open(session, row.id)
    eval_rows.end(row, "completed", now=now, stop_reason="budget" if row.over_budget and counts.pending else None)
    return True


def played(row: Eval, counts: Counts) -> bool:
    """Whether no episode is under way and none will start."""
    return counts.leased == 0 and (counts.pending == 0 or row.over_budget)


def wants_score(row: Eval, counts: Counts) -> bool:
    """Whether the benchmark's own score is still to be run over what there is."""
    there = counts.done > counts.failed or row.rerun_of is not None
    return bool(row.plan["score"]) and row.scores is None and there


def fail(session: Session, row: Eval, failure: Failure, now: float) -> None:
    """End an eval as failed: what finished stays, the rest is not run."""
    rows.drop_open(session, row.id)
    eval_rows.end(row, "failed", now=now, error=failure.error, traceback=failure.traceback)


def cancel(
    session: Session, row: Eval, now: float, why: str | None = None, stop_reason: StopReason = "canceled"
) -> bool:
    """End an eval as canceled: what finished stays, the rest is not run. False for one that had ended already.

    `why`, where it was not the user's own wish, is the first of the report's errors.
    """
    if row.status not in eval_rows.OPEN:
        return False
    rows.drop_open(session, row.id)
    eval_rows.end(row, "canceled", now=now, error=why, stop_reason=stop_reason)
    return True


def measured(session: Session, row: Eval, now: float) -> dict[str, float]:
    """What the estimate learns from, in seconds: from its turn until a policy worker was ready (`policy_s`) and until
    the first lease (`launch_s`); from there until an environment was set up; and the run itself.
    """
    begun_at = row.begun_at or row.created_at
    leased_at = row.started_at or now
    started = [event["at"] for event in row.timing.get("started", [])][:1] or [leased_at]
    workers = [worker for worker in worker_rows.of_eval(session, row.id) if worker.ready_at is not None]
    ready_at = min((worker.ready_at or now for worker in workers), default=leased_at)
    return {
        "policy_s": ready_at - begun_at,
        "launch_s": leased_at - begun_at,
        "setup_s": started[0] - leased_at,
        "run_s": max(0.0, now - max(ready_at, *started)),
        "load_s": max(((worker.ready_at or now) - worker.created_at for worker in workers), default=0.0),
    }


def _failed_from_the_start(session: Session, row: Eval, arms: dict[int, Counts]) -> Failure | None:
    """Where no arm has come further than errors, nothing will come of it; one that works is worth going on for."""
    for counts in arms.values():
        if counts.done > counts.failed or counts.failed < min(FIRST_EPISODES, counts.total):
            return None
    looked_at = min(FIRST_EPISODES, row.total)
    cause, traceback, times = _most_common_error(session, row)
    which = f"the first {looked_at} episodes" if len(arms) == 1 else f"the first episodes of all {len(arms)} arms"
    return Failure(f"{which} all ended in an error, {times} of them: {cause}", traceback)


def _nothing_scored(session: Session, row: Eval, counts: Counts) -> Failure | None:
    scored = counts.done - counts.failed
    if counts.done == 0:
        spent = ": its machines cost what max_usd allows before one could start; allow more" if row.over_budget else ""
        return Failure(f"no episode was played{spent}")
    if scored == 0:
        cause, traceback, times = _most_common_error(session, row)
        return Failure(
            f"no episode was scored: all {counts.done} ended in an error, {times} of them: {cause}", traceback
        )
    if row.plan["score"] or rows.parts(session, row.id):
        return None
    finished = rows.finished(session, row.id, limit=LOOKED_AT, failed=False)
    if finished and not any((episode.outcome or {}).get("metrics") for episode in finished):
        return Failure(NO_METRIC.format(n=scored))
    return None


def _most_common_error(session: Session, row: Eval) -> tuple[str, str | None, int]:
    failed = rows.finished(session, row.id, limit=LOOKED_AT, failed=True)
    outcomes = [episode.outcome or {} for episode in failed]
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
