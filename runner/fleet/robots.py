"""A deployment as the slots' core sees it, read from the store and written back inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog

from runner.cluster.base import ClusterLostError
from runner.context import Context
from runner.fleet import cards, slots
from runner.fleet import workers as life
from runner.fleet.slots import Fleet, Lease, Place, Rules
from runner.store.db import Session
from runner.store.queries import deployments, evals, robots, workers
from runner.store.tables import Deployment, Version, Worker
from seq.contract.deployments import DeploymentRequest

SHORTEST_LEASE_S = 10.0
"""A robot that does nothing keeps its slot no longer than an idle worker stays, down to this."""
RECENT = 0.2
"""The weight of the newest in the mean of how long robots drive."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Standing:
    """A deployment at one moment: what it declares, its fleet, its workers by id, and what it could still start.

    `failed` is the worker that failed just now, for which no other is started yet.
    """

    deployment: Deployment
    version: Version
    request: DeploymentRequest
    rules: Rules
    fleet: Fleet
    rows: Mapping[str, Worker]
    offer: cards.Offer
    failed: Worker | None

    @property
    def room(self) -> int:
        """How many more workers could be started now."""
        return 0 if self.failed is not None else self.offer.room

    @property
    def current(self) -> list[Worker]:
        """Workers of the serving version that serve or will."""
        return [row for row in self.rows.values() if row.version_id == self.version.id]


def stock(ctx: Context) -> cards.Stock:
    """What the cluster has; nothing while it is being started again."""
    try:
        capacity = ctx.cluster.capacity()
    except ClusterLostError as lost:
        log.warning("the cluster's cards are unknown", error=str(lost))
        return cards.Stock({}, 0, ctx.settings.gpus_per_account)
    return cards.Stock(capacity.cards, capacity.cores, ctx.settings.gpus_per_account)


def standing(ctx: Context, session: Session, deployment: Deployment, version: Version, there: cards.Stock) -> Standing:
    """Read it; `there` is the cluster's stock, asked before the transaction."""
    now = ctx.clock.now()
    request = DeploymentRequest.model_validate(version.request)
    rows = {row.id: row for row in _serving(session, deployment)}
    wish = cards.Wish(
        account=deployment.account_id,
        deployment=deployment.id,
        cards=tuple(request.resources.gpu),
        max_gpus=request.autoscaler.max_gpus,
        short_since=deployment.short_since,
    )
    return Standing(
        deployment=deployment,
        version=version,
        request=request,
        rules=rules(ctx, request),
        fleet=_fleet(ctx, session, deployment, version, rows.values()),
        rows=rows,
        offer=cards.offer(wish, _held(session), there, now),
        failed=life.just_failed(session, version.id, now),
    )


def read(ctx: Context, session: Session, deployment: Deployment, version: Version, rules: Rules) -> Fleet:
    """Its fleet, without robots whose lease or place has ended."""
    return slots.swept(_fleet(ctx, session, deployment, version, _serving(session, deployment)), ctx.clock.now(), rules)


def save(session: Session, before: Standing, after: Fleet, now: float) -> None:
    """Write what changed, and learn from those that left how long robots drive."""
    deployment = before.deployment
    was = {one.session: one for one in (*before.fleet.leases, *before.fleet.places)}
    here = {one.session: one for one in (*after.leases, *after.places)}
    gone = was.keys() - here.keys()
    robots.drop(session, deployment.id, gone)
    for name, one in here.items():
        if was.get(name) != one:
            robots.put(session, deployment.id, name, **_fields(one))
    for name in gone:
        left = was[name]
        if isinstance(left, Lease):
            _learn(deployment, min(now, left.until) - left.began)


def wanted(there: Standing, fleet: Fleet) -> int:
    """How many workers of the serving version `fleet` needs, whether or not they can be had."""
    scaling = there.request.autoscaler
    floor = 0 if there.deployment.stopped else scaling.min_containers
    most = None if scaling.max_gpus is None else scaling.max_gpus // there.request.resources.cards
    return slots.wanted(fleet, there.rules, floor=floor, spare=scaling.buffer_containers or 0, most=most)


def grow(ctx: Context, session: Session, there: Standing, fleet: Fleet) -> int:
    """Want the workers that `fleet` needs and that may be started; how many. Wake the loop after the commit."""
    missing = max(0, wanted(there, fleet) - len(there.current))
    there.deployment.short_since = there.offer.short_since if missing else None
    made = min(missing, there.room)
    for _ in range(made):
        start_one(ctx, session, there)
    return made


def start_one(ctx: Context, session: Session, there: Standing) -> None:
    """Want one worker on the card that is offered."""
    kind, count = there.offer.card, there.offer.count
    life.want_serving(ctx, session, there.version.id, card=f"{kind}:{count}" if count > 1 else str(kind))


def let_go(session: Session, deployment: Deployment, name: str, now: float) -> None:
    """A robot leaves; an unknown one is nothing."""
    found = next((row for row in robots.of_deployment(session, deployment.id) if row.session == name), None)
    if found is None:
        return
    robots.drop(session, deployment.id, [name])
    if found.worker_id is not None:
        _learn(deployment, min(now, found.until) - found.began)


def warming_s(there: Standing, now: float) -> float | None:
    """When the next worker will serve, from how long the last start took; None before the first one."""
    if there.version.load_s is None:
        return None
    begun = [row.created_at for row in there.current if row.state != "ready"]
    return max(1.0, there.version.load_s - (now - min(begun, default=now)))


def turn_s(there: Standing, position: int) -> float | None:
    """When the robot at `position` may have its turn, from how long robots drove lately; None before one has left."""
    held = len(there.fleet.leases)
    return None if there.deployment.drive_s is None or not held else there.deployment.drive_s * position / held


def rules(ctx: Context, request: DeploymentRequest) -> Rules:
    """What a version declares of its slots and its line."""
    held = request.resources.cards
    return Rules(
        target=request.concurrency.target(held),
        most=request.concurrency.most(held),
        lease_s=min(ctx.settings.lease_s, max(SHORTEST_LEASE_S, request.autoscaler.scaledown_window)),
        on_full=request.autoscaler.on_full,
        queue_timeout_s=request.autoscaler.queue_timeout_s,
    )


def _serving(session: Session, deployment: Deployment) -> list[Worker]:
    rows = deployments.open_workers(session, deployment.id)
    return workers.usable([row for row in rows if row.purpose == "serve"])


def _fleet(ctx: Context, session: Session, deployment: Deployment, version: Version, rows: Iterable[Worker]) -> Fleet:
    """As the rows tell it; a robot whose question is here is not late, whatever keeps it from being answered."""
    found, now = robots.of_deployment(session, deployment.id), ctx.clock.now()
    here = dict.fromkeys(ctx.bell.asks(), now)
    return Fleet(
        workers=tuple(
            slots.Worker(row.id, ready=row.state == "ready", leaving=row.version_id != version.id) for row in rows
        ),
        leases=tuple(
            Lease(row.session, row.worker_id, row.until, row.since, row.began) for row in found if row.worker_id
        ),
        places=tuple(
            Place(row.session, row.since, max(row.due, here.get(row.session, row.due)), row.queued)
            for row in found
            if not row.worker_id
        ),
    )


def _fields(one: Lease | Place) -> dict[str, float | str | None]:
    if isinstance(one, Lease):
        held = {"worker_id": one.worker, "began": one.began, "until": one.until}
        return {"since": one.since, **held, "due": None, "queued": None}
    held = {"worker_id": None, "began": None, "until": None}
    return {"since": one.since, **held, "due": one.due, "queued": one.queued}


def _held(session: Session) -> list[cards.Held]:
    serving = [
        cards.Held(worker.card, worker.cards, deployment.account_id, deployment.id, worker.purpose)
        for worker, deployment in workers.holding(session)
        if worker.purpose != "eval"
    ]
    return [*serving, *(cards.Held(one.card, one.count, one.account_id, "", "eval") for one in evals.holdings(session))]


def _learn(deployment: Deployment, drove_s: float) -> None:
    before = deployment.drive_s
    deployment.drive_s = drove_s if before is None else (1 - RECENT) * before + RECENT * drove_s
