"""One worker's life: launched from a wanted row, told of by its reports, ended when its row says so."""

from __future__ import annotations

import hmac

from runner import images
from runner.cluster.base import Cluster, ClusterLostError, Command
from runner.context import Context
from runner.errors import Refused
from runner.fleet import certificates, groups
from runner.fleet.buildlog import BuildLog, process_path
from runner.fleet.door import Door, DoorError, address_of
from runner.store.db import Session
from runner.store.queries import deployments, workers
from runner.store.tables import Worker
from runner.vault import token_hash
from seq.contract.deployments import MACHINE_CARDS, DeploymentRequest, machines
from seq.contract.internal import WorkerReport, WorkerStart

MODULE = "runner.worker"
RETRY_AFTER_S = 30.0
WOKEN = 64
"""How many of those that wait for a worker are woken when it serves, or failed: as many as it may have slots."""


def new_id(ctx: Context) -> str:
    """The id of a worker's row, which is also its process's name."""
    return f"worker-{ctx.new_id()}"


def want_serving(ctx: Context, session: Session, version_id: str, *, card: str) -> None:
    """One more serving worker of a version; wake the loop after the commit."""
    named = {"worker_id": new_id(ctx), "version_id": version_id, "purpose": "serve", "card": card}
    workers.want(session, eval_id=None, now=ctx.clock.now(), **named)


def just_failed(session: Session, version_id: str, now: float) -> Worker | None:
    """The version's newest serving worker where that failed moments ago: it is not started over and over.

    One that had been serving is replaced at once, unless the one before it failed moments before, too.
    """
    newest, before = [*workers.of_version(session, version_id, "serve", most=2), None, None][:2]
    if newest is None or not _failed_since(newest, now - RETRY_AFTER_S):
        return None
    served_well = newest.ready_at is not None
    again = before is not None and _failed_since(before, (newest.ended_at or now) - RETRY_AFTER_S)
    return None if served_well and not again else newest


def _failed_since(row: Worker, when: float) -> bool:
    return row.state == "failed" and row.reason != "lost" and (row.ended_at or 0.0) > when


def launch(ctx: Context, worker_id: str) -> None:
    """Make a wanted row a process. What cannot be launched is closed with the reason; a lost cluster is tried again."""
    try:
        prepared = _prepare(ctx, worker_id)
        if prepared is not None:
            _start(ctx.cluster, *prepared)
    except images.BuildError as error:
        close(ctx, worker_id, reason="failed", error=str(error))
    except ClusterLostError as error:
        close(ctx, worker_id, reason="lost", error=f"the cluster went away while the worker was started: {error}")


def _start(cluster: Cluster, command: Command, row: Worker) -> None:
    if machines(row.cards) == 1:
        cluster.launch_command(command)
    else:
        cluster.launch_group(groups.members(command, machines(row.cards)), row.card, MACHINE_CARDS)


def _prepare(ctx: Context, worker_id: str) -> tuple[Command, Worker] | None:
    with ctx.store.read() as session:
        row = workers.get(session, worker_id)
        version = deployments.version(session, row.version_id) if row else None
    if row is None or version is None or row.state != "wanted":
        return None
    settings, request = ctx.settings, DeploymentRequest.model_validate(version.request)
    environment = images.find(settings, version.image_hash or "")
    code, sdk = images.unpack(settings, ctx.blobs, version.bundle), images.sdk(settings)
    certificate = certificates.make(worker_id, settings.host, ctx.clock.now())
    token, secret = ctx.new_secret(), ctx.new_secret()
    start = WorkerStart(
        worker_id=worker_id,
        gateway_url=settings.url,
        token=token,
        secret=secret,
        tls_cert=certificate.cert_pem,
        tls_key=certificate.key_pem,
        host=settings.host,
        code_dir=str(code),
        policy=request.policy,
        timeouts=request.timeouts,
        concurrency=request.concurrency,
        cards=row.cards,
        for_eval=row.purpose == "eval",
        group=machines(row.cards) if machines(row.cards) > 1 else None,
    )
    with ctx.store.write() as session:
        row = workers.get(session, worker_id)
        if row is None or row.state != "wanted":
            return None
        row.state = "starting"
        row.fingerprint = certificate.fingerprint
        row.secret = ctx.vault.encrypt(secret)
        row.tls_cert = certificate.cert_pem
        row.tls_key = ctx.vault.encrypt(certificate.key_pem)
        row.token_hash = token_hash(token)
    log_path = process_path(settings, worker_id)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    command = Command(
        name=worker_id,
        # -P: the working directory, where the user's files lie, must not come before the platform's own modules
        argv=[str(environment.python), "-P", "-m", MODULE],
        env=images.process_env(environment, sdk, code),
        stdin=start.model_dump_json(exclude_none=True),
        log_path=str(log_path),
        cwd=str(code),
        num_cpus=request.resources.cpu or 0.0,
        exit_url=f"{settings.url}/internal/workers/{worker_id}/report",
        token=token,
    )
    return command, row


def close(ctx: Context, worker_id: str, *, reason: str, error: str, traceback: str | None = None) -> None:
    """A worker ended on its own: say so in its row, unless that is closed already."""
    with ctx.store.write() as session:
        row = workers.get(session, worker_id)
        if row is not None and row.state in workers.OPEN:
            workers.fail(row, reason=reason, error=error, traceback=traceback, now=ctx.clock.now())


def report(ctx: Context, worker_id: str, token: str, told: WorkerReport) -> None:
    """What a worker (or, for `exited`, its host) tells of itself; refused without the row's own token."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        row = workers.get(session, worker_id)
        if row is None or not hmac.compare_digest(row.token_hash or "", token_hash(token)):
            raise Refused("unauthenticated", "this is not the worker's own token")
        if row.state not in {"starting", "ready"}:
            return
        version = deployments.version(session, row.version_id)
        row.pid = told.pid or row.pid
        if told.phase == "ready" and row.state == "starting":
            row.state, row.url, row.ready_at, row.last_used_at = "ready", told.url, now, now
            row.sockets, row.facts = told.sockets, told.facts
            if version is not None:
                version.load_s = now - row.created_at
        elif told.phase in {"failed", "exited"}:
            died = "crashed" if machines(row.cards) == 1 else "group_member_lost"
            reason = told.reason or ("failed" if told.phase == "failed" else died)
            error = told.error or f"the worker process {told.phase} without saying why"
            workers.fail(row, reason=reason, error=error, traceback=told.traceback, now=now)
        checked = row.version_id if row.purpose == "check" else None
    if checked is not None:
        BuildLog(ctx.settings, checked)(f"worker: {told.phase}{': ' + told.error if told.error else ''}")
    ctx.wake.set()
    if version is not None and told.phase in {"ready", "failed", "exited"}:
        ctx.bell.ring(version.deployment_id, WOKEN)


def retire(ctx: Context, worker_id: str, door: Door) -> None:
    """End a worker whose row is `stopping`: its counters are read a last time, then its process ends."""
    count_acts(ctx, worker_id, door)
    ctx.cluster.kill(worker_id)
    stopped(ctx, worker_id)


def stopped(ctx: Context, worker_id: str) -> None:
    """Note that a worker which was to end has ended."""
    with ctx.store.write() as session:
        row = workers.get(session, worker_id)
        if row is not None and row.state == "stopping":
            row.state, row.ended_at = "stopped", ctx.clock.now()


def count_acts(ctx: Context, worker_id: str, door: Door) -> bool:
    """Copy a worker's own counters into its row; False when it did not answer, and keeps what it last told."""
    with ctx.store.read() as session:
        row = workers.get(session, worker_id)
    if row is None or row.url is None or row.state not in {"ready", "stopping"}:
        return True
    try:
        told = door.ping(address_of(row, ctx.vault))
    except DoorError:
        return False
    if told.acts == row.acts and not told.busy:
        return True
    with ctx.store.write() as session:
        row = workers.get(session, worker_id)
        if row is not None:
            row.acts = told.acts
            used = ctx.clock.now() - (0.0 if told.busy else told.idle_s)
            row.last_used_at = max(row.last_used_at or 0.0, used)
    return True
