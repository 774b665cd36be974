"""Deployments as their owner sees them: submitted, read, removed. Nothing is started here; the loop does that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner import images
from runner.context import Context
from runner.errors import Refused, no_such
from runner.fleet import buildlog
from runner.fleet.checks import cards_of, check_deployment
from runner.store.db import Session
from runner.store.queries import deployments, robots, workers
from runner.store.tables import BenchmarkVersion, Deployment, Version
from seq.contract.code import CodeBundle
from seq.contract.deployments import (
    BuildStatus,
    DeploymentAccepted,
    DeploymentRequest,
    DeploymentRow,
    DeploymentStatusResponse,
    PhaseAt,
)

ALL = 1_000_000


@dataclass(frozen=True)
class Listed:
    """Rows of one page, and how many there are in all."""

    rows: list[dict[str, Any]]
    total: int


def submit(ctx: Context, account_id: str, request: DeploymentRequest, *, replace: bool) -> DeploymentAccepted:
    """A new version to be built beside what serves. Raises Refused; nothing is kept then."""
    check_deployment(request, cards_of(ctx.cluster))
    sha256 = keep_bundle(ctx, request.code)
    now, handler = ctx.clock.now(), request.policy.handler_ref
    with ctx.store.write() as session:
        row = deployments.find(session, account_id, request.name)
        if row is not None and _held_by_another(session, row, handler) and not replace:
            raise Refused(
                "conflict",
                f"{request.name!r} runs {row.handler_ref}, and this is {handler}",
                hint="deploy under another name, or take this one over with --replace",
                held_by=row.handler_ref,
            )
        if row is None:
            row = deployments.add(
                session,
                deployment_id=ctx.new_id(),
                account_id=account_id,
                name=request.name,
                handler_ref=handler,
                now=now,
            )
        elif row.serving is None:
            row.handler_ref = handler
        kept = request.model_dump(mode="json", exclude={"code"}, exclude_none=True)
        deployments.add_version(session, row, version_id=ctx.new_id(), request=kept, bundle=sha256, now=now)
    ctx.wake.set()
    return DeploymentAccepted(deployment_id=request.name)


def keep_bundle(ctx: Context, bundle: CodeBundle | None) -> str | None:
    """Check a code bundle and put it among the blobs; its hash."""
    if bundle is None:
        return None
    data = images.check_bundle(bundle)
    sha256 = bundle.sha256.lower()
    if not ctx.blobs.exists(images.blob_key(sha256)):
        ctx.blobs.put(images.blob_key(sha256), data)
    return sha256


def _held_by_another(session: Session, row: Deployment, handler: str) -> bool:
    """A name whose builds have all failed is not held: it serves nothing and nothing is on its way."""
    if row.handler_ref == handler:
        return False
    return any(version.state != "failed" for version in deployments.versions(session, row.id))


def owned(session: Session, account_id: str, name: str) -> Deployment:
    """The caller's deployment; another account's is not found, like one that is not there."""
    row = deployments.find(session, account_id, name)
    if row is None:
        raise no_such("deployment", name, deployments.names(session, account_id))
    return row


def status(ctx: Context, account_id: str, name: str) -> DeploymentStatusResponse:
    """The state of the version submitted last, with the policy's own error where it failed."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        version = deployments.newest(session, row.id)
    assert version is not None  # noqa: S101 - a deployment is made together with its first version
    return DeploymentStatusResponse(status=version.state, model=row.name, error=full_error(version))


def full_error(version: Version | BenchmarkVersion) -> str | None:
    """A version's error with the user's frames below it."""
    if version.error is None:
        return None
    return f"{version.error}\n{version.traceback}" if version.traceback else str(version.error)


def listing(ctx: Context, account_id: str, offset: int, limit: int) -> Listed:
    """One page of the account's deployments."""
    with ctx.store.read() as session:
        rows, total = deployments.listed(session, account_id, offset, limit)
        return Listed([_row(session, row).wire() for row in rows], total)


def _row(session: Session, row: Deployment) -> DeploymentRow:
    newest = deployments.newest(session, row.id)
    shown = deployments.numbered(session, row.id, row.serving) or newest
    assert newest is not None and shown is not None  # noqa: S101, PT018 - made together with its first version
    latest = {"version": newest.number, "status": newest.state, "error": newest.error}
    return DeploymentRow(
        name=row.name,
        status=shown.state,
        version=shown.number,
        gpu=gpu_of(shown),
        stopped=row.stopped,
        error=shown.error,
        latest=latest if newest.id != shown.id else None,
    )


def gpu_of(version: Version) -> str:
    """The card a version asks for first."""
    return str(version.request["resources"]["gpu"][0])


def versions(ctx: Context, account_id: str, name: str) -> list[dict[str, Any]]:
    """Every version kept, newest first."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        rows = deployments.versions(session, row.id)
    words = {"ready": "kept"}
    return [
        {
            "version": version.number,
            "state": "serving" if version.number == row.serving else words.get(version.state, version.state),
            "gpu": gpu_of(version),
            "weights": None,
            "error": version.error,
        }
        for version in rows
    ]


def build(ctx: Context, account_id: str, name: str) -> BuildStatus:
    """The newest version's phases and log."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        version = deployments.newest(session, row.id)
    assert version is not None  # noqa: S101 - made together with the deployment
    phases = [PhaseAt(**phase) for phase in version.phases]
    return BuildStatus(
        deployment=row.name,
        version=version.number,
        state=version.state,
        error=full_error(version),
        phase=phases[-1].phase if phases else None,
        phases=phases,
        log=buildlog.read(buildlog.path_of(ctx.settings, version.id)),
    )


def described(ctx: Context, account_id: str, name: str) -> dict[str, Any]:
    """What goes in and comes out of the serving version, else of the newest."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        version = deployments.numbered(session, row.id, row.serving) or deployments.newest(session, row.id)
    assert version is not None  # noqa: S101 - made together with the deployment
    policy = version.request["policy"]
    told = {key: policy[key] for key in ("action", "observation", "io") if policy.get(key) is not None}
    return {"name": row.name, "version": version.number, **told}


def claim(ctx: Context, account_id: str, name: str, handler_ref: str) -> dict[str, Any]:
    """What deploying `handler_ref` under a name would do: `new`, another `version`, or `replace` of what holds it."""
    with ctx.store.read() as session:
        row = deployments.find(session, account_id, name)
        if row is None:
            return {"state": "new"}
        if not _held_by_another(session, row, handler_ref):
            return {"state": "version"}
        connected = robots.driving(session, row.id, ctx.clock.now())
    return {"state": "replace", "held_by": row.handler_ref, "robots": connected}


def stop(ctx: Context, account_id: str, name: str) -> dict[str, Any]:
    """End its serving workers and send its robots away; evals and builds go on."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        row = owned(session, account_id, name)
        rows = [worker for worker in deployments.open_workers(session, row.id) if worker.purpose == "serve"]
        stopped = workers.stop(rows, now)
        robots.drop_all(session, row.id)
        row.stopped = True
        told, deployment_id = {"name": row.name, "workers_stopped": stopped}, row.id
    ctx.wake.set()
    ctx.bell.ring(deployment_id, ALL)
    return told


def start(ctx: Context, account_id: str, name: str) -> dict[str, Any]:
    """Let robots connect again; what has a floor of workers starts them."""
    with ctx.store.write() as session:
        row = owned(session, account_id, name)
        row.stopped = False
        told = {"name": row.name, "version": row.serving}
    ctx.wake.set()
    return told


def remove(ctx: Context, account_id: str, name: str, *, force: bool) -> dict[str, Any]:
    """Free the name and end its serving workers; evals that run go on with the version they pinned."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        row = owned(session, account_id, name)
        connected = robots.driving(session, row.id, now)
        if connected and not force:
            raise Refused(
                "conflict",
                f"{connected} robot(s) are connected to {row.name!r}",
                hint="close them first, or remove it all the same with --force",
                robots=connected,
            )
        rows = [worker for worker in deployments.open_workers(session, row.id) if worker.purpose != "eval"]
        stopped = workers.stop(rows, now)
        shown, deployment_id = row.name, row.id
        robots.drop_all(session, row.id)
        deployments.remove(session, row)
    ctx.wake.set()
    ctx.bell.ring(deployment_id, ALL)
    return {"deleted": shown, "workers_stopped": stopped}
