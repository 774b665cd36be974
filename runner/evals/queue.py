"""The queue of an eval as its instances see it: lease, hand in, give back. Each call is one transaction.

Episodes are handed out by index, a result is taken once, whoever brings it, and nothing depends on which instance had
which episode; so the table an eval ends with is the same for any layout and after any loss.
"""

from __future__ import annotations

from collections.abc import Iterable

from runner.context import Context
from runner.errors import Refused
from runner.evals.budget import is_spent
from runner.evals.selection import Selection, contains, span
from runner.evals.table import selection_of
from runner.store.db import Session
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as instance_rows
from runner.store.tables import Arm, Episode, Eval, Instance
from seq.contract.internal import EpisodeOutcome, LeaseAnswer, LeasedEpisode, LeaseRequest


def lease(ctx: Context, instance_id: str, request: LeaseRequest) -> LeaseAnswer:
    """The next episodes of its arm for an instance that has room for `free`; also its heartbeat."""
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
        ample = bool(given) and _is_ample(session, row, instance.arm)
        if given and row.started_at is None:
            row.started_at, row.status = now, "running"
        drained = not given and not _coming(session, row, instance.arm)
    return LeaseAnswer(episodes=given, drained=drained, ample=ample)


def take_results(ctx: Context, instance_id: str, outcomes: list[EpisodeOutcome]) -> int:
    """Keep finished episodes, each once; how many were new. One that is already there is acknowledged all the same."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        instance, row = _running(session, instance_id)
        instance.seen_at = now
        if row.status not in eval_rows.OPEN:
            return 0
        there = rows.at(session, row.id, (outcome.index for outcome in outcomes))
        _refuse_unknown(session, row, outcomes, there)
        fresh = [
            outcome
            for outcome in outcomes
            if outcome.index in there and _taken(row, there[outcome.index], outcome, now)
        ]
        if row.started_at is None:
            row.started_at, row.status = now, "running"
        last = any(outcome.error is not None for outcome in fresh) or not rows.any_open(session, row.id)
    if fresh and last:
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
    selection = selection_of(session, row)
    arm = eval_rows.arm(session, row.id, instance.arm)
    if arm is None:
        raise Refused("gone", "the arm that this instance plays is no longer there")
    if request.number and request.number == instance.lease_number:
        held = rows.leased_by(session, row.id, instance.id)
        again = [episode for episode in held if episode.index in instance.lease_indices]
        return [_leased(selection, arm, episode) for episode in again]
    found = [] if _stopped_by_budget(session, row, now) else _handed_out(session, arm, instance, request.free, now)
    instance.lease_number = request.number
    instance.lease_indices = [episode.index for episode in found]
    return [_leased(selection, arm, episode) for episode in found]


def _stopped_by_budget(session: Session, row: Eval, now: float) -> bool:
    """Whether no episode may start any more; noted once, for good."""
    row.over_budget = row.over_budget or is_spent(session, row, now)
    return row.over_budget


def _coming(session: Session, row: Eval, arm: int) -> bool:
    """Whether an arm may yet have an episode to hand out: a leased one may come back."""
    if row.over_budget:
        return False
    return rows.any_waiting(session, row.id, arm) or rows.any_leased(session, row.id, arm)


def _is_ample(session: Session, row: Eval, number: int) -> bool:
    """Whether an arm has more episodes left than environments."""
    arm = eval_rows.arm(session, row.id, number)
    environments = row.plan["envs"] * row.plan["benchmark"]["instances"]
    return arm is not None and arm.planned - arm.next > environments


def _handed_out(session: Session, arm: Arm, instance: Instance, free: int, now: float) -> list[Episode]:
    """Those that came back first, then the next ones of the arm, for which this makes the rows."""
    found = rows.pending(session, arm.eval_id, arm.number, free)
    fresh = [
        Episode(eval_id=arm.eval_id, index=arm.first + start, arm=arm.number, state="pending", attempt=0, failed=False)
        for start in span(arm.todo, arm.next, free - len(found))
    ]
    arm.next += len(fresh)
    session.add_all(fresh)
    for episode in (*found, *fresh):
        episode.state = "leased"
        episode.attempt += 1
        episode.instance_id = instance.id
        episode.ended_at = now
    return [*found, *fresh]


def _leased(selection: Selection, arm: Arm, episode: Episode) -> LeasedEpisode:
    condition = selection.condition(episode.index - arm.first, episode.index)
    return LeasedEpisode(condition=condition, attempt=episode.attempt)


def _taken(row: Eval, episode: Episode, outcome: EpisodeOutcome, now: float) -> bool:
    if episode.state == "done":
        return False
    _finish(episode, outcome, now)
    row.recorded = row.recorded or outcome.recorded
    if outcome.restarts:
        reason = "the policy worker that held its state was lost"
        eval_rows.note(row, "restarted", episodes=[outcome.index], reason=reason, at=now)
    return True


def _finish(episode: Episode, outcome: EpisodeOutcome, now: float) -> None:
    episode.state = "done"
    episode.outcome = outcome.wire()
    episode.failed = outcome.error is not None
    episode.ended_at = now


def _free(episode: Episode) -> None:
    episode.state = "pending"
    episode.instance_id = None
    episode.ended_at = None


def _give_up(episode: Episode, reason: str, now: float) -> None:
    error = f"given up after {episode.attempt} attempts, none of which ended: {reason}"
    _finish(episode, EpisodeOutcome(index=episode.index, attempt=episode.attempt, steps=0, acts=0, error=error), now)


def _refuse_unknown(session: Session, row: Eval, outcomes: list[EpisodeOutcome], there: dict[int, Episode]) -> None:
    """An episode without a row was filed long ago, or is none of this eval's."""
    missing = {outcome.index for outcome in outcomes} - there.keys()
    if not missing:
        return
    arms = eval_rows.arms(session, row.id)
    unknown = sorted(index for index in missing if not any(contains(arm.todo, index - arm.first) for arm in arms))
    if unknown:
        raise Refused("invalid_request", f"this eval has no episode {', '.join(map(str, unknown))}")


def _running(session: Session, instance_id: str) -> tuple[Instance, Eval]:
    """An instance that the gateway has just authenticated, and its eval."""
    found = instance_rows.with_eval(session, instance_id)
    if found is None:
        raise Refused("not_found", f"no instance {instance_id!r}")
    return found
