"""The fleet block (wire.md 4.3): a deployment's workers, the robots on them and in line, its bounds as they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from runner.context import Context
from runner.fleet import groups, robots
from runner.fleet.deployments import owned
from runner.fleet.door import Door, PinnedDoor, address_of
from runner.store.queries import deployments, workers
from runner.store.tables import Version, Worker
from seq.contract.deployments import DeploymentRequest

ENDED_SHOWN = 5
ENDED_SHOWN_S = 3600.0

Iso = Callable[[float], str]


def fleet(ctx: Context, account_id: str, name: str, iso: Iso, door: Door | None = None) -> dict[str, Any]:
    """The block; `iso` writes a time. `target` and `max` are robots per worker: before another starts, and at most.

    Workers that failed within the last hour are listed behind those that live. The machines of a group are asked of
    it, through `door`.
    """
    now = ctx.clock.now()
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        version = deployments.numbered(session, row.id, row.serving) or deployments.newest(session, row.id)
        assert version is not None  # noqa: S101 - made together with the deployment
        request = DeploymentRequest.model_validate(version.request)
        rules = robots.rules(ctx, request)
        fleet = robots.read(ctx, session, row, version, rules)
        rows = deployments.open_workers(session, row.id)
        failed = workers.failed_since(session, row.id, now - ENDED_SHOWN_S)[:ENDED_SHOWN]
        broken = deployments.version(session, failed[0].version_id) if failed else None
    scaling = request.autoscaler
    taken = Counter(lease.worker for lease in fleet.leases)
    block: dict[str, Any] = {
        "max_gpus": scaling.max_gpus,
        "on_full": scaling.on_full,
        "queue_timeout_s": scaling.queue_timeout_s,
        "target": rules.target,
        "max": rules.most,
        "robots": len(fleet.leases),
        "queue": [
            {"position": number, "session": place.session, "queued_s": round(now - place.since, 3)}
            for number, place in enumerate(fleet.places, 1)
        ],
        "sessions": [{"session": lease.session, "worker": lease.worker, "params": {}} for lease in fleet.leases],
        "workers": [_worker(one, request, version.id, taken[one.id], now, iso) for one in (*rows, *failed)],
    }
    for one, told in zip((*rows, *failed), block["workers"], strict=True):
        address = address_of(one, ctx.vault) if one.state == "ready" else None
        if (group := groups.told(one, address, door or PinnedDoor())) is not None:
            told["group"] = group
    if row.stopped:
        block["stopped"] = True
    if ctx.settings.pretend:
        block["pretend"] = True
    if broken is not None:
        block["last_failure"] = _failure(failed[0], broken, iso)
    return block


def _worker(
    row: Worker, request: DeploymentRequest, version_id: str, sessions: int, now: float, iso: Iso
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "handle": row.id,
        "state": row.state,
        "purpose": row.purpose,
        "gpu": row.card,
        "cards": 0 if row.card == "cpu" else row.cards,
        "slots": request.concurrency.target(row.cards),
        "sessions": sessions,
        "acts": row.acts,
        "started_at": iso(row.created_at),
        "age_s": now - row.created_at,
    }
    if row.state == "failed":
        told["reason"], told["error"] = row.reason, row.error
    if row.state == "ready" and row.purpose == "serve" and row.version_id != version_id:
        told["leaving"] = "version"
    return told


def _failure(row: Worker, version: Version, iso: Iso) -> dict[str, Any]:
    at = None if row.ended_at is None else iso(row.ended_at)
    return {"cause": row.reason, "version": version.number, "at": at, "error": row.error, "details": {}}
