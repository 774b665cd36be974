"""The queue of an eval as its instances see it: lease, hand in, give back. Each call is one transaction.

Episodes are handed out by index, a result is taken once, whoever brings it, and nothing depends on which instance had
which episode; so the table an eval ends with is the same for any layout and after any loss.
"""

from __future__ import annotations

from collections.abc import Iterable

from runner.context import Context
from runner.errors import Refused
from runner.store.db import Session
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as instance_rows
from runner.store.tables import Episode, Eval, Instance
from seq.contract.internal import Condition, EpisodeOutcome, LeaseAnswer, LeasedEpisode, LeaseRequest


def lease(ctx: Context, instance_id: str, request: LeaseRequest) -> LeaseAnswer:
    """The next episodes for an instance with `free` environments; also its heartbeat."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        instance, row = _running(session, instance_id)
        if row.status not in eval_rows.OPEN:
            return LeaseAnswer(stop=row.status != "completed", drained=True)
        if instance.state not in instance_rows.OPEN:
            return LeaseAnswer(stop=True)
        instance.seen_at = now
        instance.pids = list(request.pids)
        given = _given(session, row, instance, request, now) if request.free else []
        counts = rows.counts(session, row.id)
        if given and row.started_at is None:
            row.started_at, row.status = now, "running"
    return LeaseAnswer(episodes=given, drained=counts.pending + counts.leased == 0)


def take_results(ctx: Context, instance_id: str, outcomes: list[EpisodeOutcome]) -> int:
    """Keep finished episodes, each once; how many were new. One that is already there is acknowledged all the same."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        instance, row = _running(session, instance_id)
        instance.seen_at = now
        if row.status not in eval_rows.OPEN:
            return 0
        there = rows.at(session, row.id, (outcome.index for outcome in outcomes))
        _refuse_unknown(outcomes, there)
        fresh = [outcome for outcome in outcomes if _taken(there[outcome.index], outcome, now)]
        row.started_at, row.status = row.started_at or now, "running"
    if fresh:
        ctx.wake.set()
    return len(fresh)


def give_back(ctx: Context, instance_id: str, episodes: Iterable[tuple[int, int]], reason: str) -> None:
    """Episodes whose environment died run again, unless they already had their share of attempts."""
    held = dict(episodes)
    with ctx.store.write() as session:
        instance, row = _running(session, instance_id)
        instance.seen_at = ctx.clock.now()
        mine = [
            episode
            for episode in rows.leased_by(session, row.id, instance_id)
            if held.get(episode.index) == episode.attempt
        ]
        put_back(ctx, row, mine, reason)
    ctx.wake.set()


def put_back(ctx: Context, row: Eval, episodes: list[Episode], reason: str) -> None:
    """Leased episodes become pending again and the report will say so; past the last attempt they end as errors."""
    again = [episode for episode in episodes if episode.attempt < ctx.settings.max_attempts]
    for episode in episodes:
        if episode in again:
            _free(episode)
        else:
            _give_up(episode, reason, ctx.clock.now())
    if again:
        indices = [episode.index for episode in again]
        eval_rows.note(row, "run_again", episodes=indices, reason=reason, at=ctx.clock.now())


def _given(session: Session, row: Eval, instance: Instance, request: LeaseRequest, now: float) -> list[LeasedEpisode]:
    """What a request for episodes gets; asked again, because the answer was lost, the same that it got."""
    if request.number and request.number == instance.lease_number:
        held = rows.leased_by(session, row.id, instance.id)
        return [_leased(episode) for episode in held if episode.index in instance.lease_indices]
    given = _handed_out(session, row, instance, request.free, now)
    instance.lease_number = request.number
    instance.lease_indices = [leased.condition.index for leased in given]
    return given


def _handed_out(session: Session, row: Eval, instance: Instance, free: int, now: float) -> list[LeasedEpisode]:
    pending = rows.pending(session, row.id, free)
    for episode in pending:
        episode.state = "leased"
        episode.attempt += 1
        episode.instance_id = instance.id
        episode.ended_at = now
    return [_leased(episode) for episode in pending]


def _leased(episode: Episode) -> LeasedEpisode:
    return LeasedEpisode(condition=Condition.model_validate(episode.condition), attempt=episode.attempt)


def _taken(episode: Episode, outcome: EpisodeOutcome, now: float) -> bool:
    if episode.state == "done":
        return False
    episode.state = "done"
    episode.outcome = outcome.wire()
    episode.failed = outcome.error is not None
    episode.ended_at = now
    return True


def _free(episode: Episode) -> None:
    episode.state = "pending"
    episode.instance_id = None
    episode.ended_at = None


def _give_up(episode: Episode, reason: str, now: float) -> None:
    error = f"given up after {episode.attempt} attempts, none of which ended: {reason}"
    _taken(episode, EpisodeOutcome(index=episode.index, attempt=episode.attempt, steps=0, acts=0, error=error), now)


def _refuse_unknown(outcomes: list[EpisodeOutcome], there: dict[int, Episode]) -> None:
    unknown = sorted({outcome.index for outcome in outcomes} - set(there))
    if unknown:
        raise Refused("invalid_request", f"this eval has no episode {', '.join(map(str, unknown))}")


def _running(session: Session, instance_id: str) -> tuple[Instance, Eval]:
    """An instance that the gateway has just authenticated, and its eval."""
    found = instance_rows.with_eval(session, instance_id)
    if found is None:
        raise Refused("not_found", f"no instance {instance_id!r}")
    return found
