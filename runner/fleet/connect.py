"""The robot's door: who may act, on which worker. It answers at once; a worker that is missing is wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from runner.context import Context
from runner.errors import Refused
from runner.fleet import workers as life
from runner.fleet.deployments import owned
from runner.fleet.door import address_of
from runner.store.db import Session
from runner.store.queries import deployments, evals, workers
from runner.store.tables import Deployment, Version, Worker
from seq.contract import codec
from seq.contract.acts import ConnectAnswer, ConnectRequest, Lease, ReadyAnswer
from seq.contract.deployments import PolicyDecl

WARMING_POLL_S = 1.0


@dataclass(frozen=True)
class Who:
    """Whose connect it is; `deployment_id` and `eval_id` bind an act key and an eval's key."""

    account_id: str
    deployment_id: str | None = None
    eval_id: str | None = None


@dataclass(frozen=True)
class Connected:
    """The answer, and the deployment the robot now holds a lease of (None for an eval's environment)."""

    answer: ConnectAnswer
    deployment_id: str | None


@dataclass(frozen=True)
class Found:
    """The serving version, and a ready worker of it (None while one starts)."""

    worker: Worker | None
    version: Version


def connect(ctx: Context, who: Who, request: ConnectRequest, expires: Callable[[float], str]) -> Connected:
    """Coordinates of a ready worker; raises Refused (`warming` while one starts). `expires` writes a time as text."""
    if who.eval_id is not None:
        theirs, policy = _of_eval(ctx, who.eval_id, request.model, request.session)
        return Connected(_answer(ctx, theirs, policy, request, expires), None)
    with ctx.store.write() as session:
        deployment = allowed(session, who, request.model)
        found = _serving_worker(ctx, session, deployment, request.session)
        if found.worker is not None:
            found.worker.last_used_at = ctx.clock.now()
    if found.worker is None:
        raise _warming(ctx, found.version)
    policy = PolicyDecl.model_validate(found.version.request["policy"])
    return Connected(_answer(ctx, found.worker, policy, request, expires), deployment.id)


def ready(ctx: Context, who: Who, model: str) -> ReadyAnswer:
    """Whether a robot would be served now; a missing worker is wanted, a running one's idle time is left alone.

    An eval's key asks about the eval's own workers, which are its controller's to want.
    """
    if who.eval_id is not None:
        return _ready_in_eval(ctx, who.eval_id, model)
    with ctx.store.write() as session:
        deployment = allowed(session, who, model)
        if deployment.serving is None and _newest_state(session, deployment) == "building":
            return ReadyAnswer(ready=False, status="building")
        found = _serving_worker(ctx, session, deployment, session_id="")
    if found.worker is not None:
        return ReadyAnswer(ready=True, status="running")
    return ReadyAnswer(ready=False, eta_s=found.version.load_s, status="starting")


def released(ctx: Context, who: Who, model: str) -> str | None:
    """The deployment a robot left; None where there is none of the caller's (which is not an error)."""
    if who.eval_id is not None:
        return None  # an eval's environments hold no lease of a deployment
    with ctx.store.read() as session:
        row = deployments.find(session, who.account_id, model)
    return None if row is None or who.deployment_id not in (None, row.id) else row.id


def allowed(session: Session, who: Who, model: str) -> Deployment:
    """The deployment a key may drive; a bound key that names another learns nothing of what there is."""
    if who.eval_id is not None:
        _refuse_another_model(session, who.eval_id, model)
    if who.deployment_id is not None:
        bound = deployments.get(session, who.deployment_id)
        if bound is None or model not in (bound.name, bound.id):
            raise Refused(
                "forbidden",
                f"this act key is bound to one deployment, which is not {model!r}",
                hint="connect to the deployment the key was made for, or use another key",
            )
    return owned(session, who.account_id, model)


def _newest_state(session: Session, deployment: Deployment) -> str | None:
    newest = deployments.newest(session, deployment.id)
    return newest.state if newest else None


def _serving_worker(ctx: Context, session: Session, deployment: Deployment, session_id: str) -> Found:
    """What serves a session; a worker that is missing is wanted now. Raises Refused where nothing can serve."""
    if deployment.stopped:
        raise Refused("conflict", f"{deployment.name!r} is stopped", hint="seq policy start", state="stopped")
    version = deployments.numbered(session, deployment.id, deployment.serving)
    if version is None:
        raise _nothing_serves(session, deployment)
    rows = workers.of_version(session, version.id, "serve")
    there = workers.ready(rows)
    if there:
        return Found(_chosen(there, session_id), version)
    if not workers.usable(rows):
        failed = life.just_failed(session, version.id, ctx.clock.now())
        if failed is not None:
            raise Refused(
                "unavailable",
                f"the worker of {deployment.name!r} failed: {failed.error}",
                hint=f"it is tried again {life.RETRY_AFTER_S:g} s after a failure",
                retry_after_s=life.RETRY_AFTER_S,
            )
        life.want_serving(ctx, session, version.id)
        ctx.wake.set()
    return Found(None, version)


def _nothing_serves(session: Session, deployment: Deployment) -> Refused:
    newest = deployments.newest(session, deployment.id)
    if newest is not None and newest.state == "failed":
        detail = f"{deployment.name!r} has no version that serves: its build failed: {newest.error}"
        return Refused("conflict", detail, hint=f"seq policy logs {deployment.name} --build", state="failed")
    return Refused("conflict", f"{deployment.name!r} is being built", hint="wait until it is ready", state="building")


def _warming(ctx: Context, version: Version) -> Refused:
    """Come back soon: a client sleeps all of `retry_after_s`, and this start may be faster than the last."""
    ctx.wake.set()
    eta = version.load_s
    refused = Refused("warming", "a worker of this deployment is starting", retry_after_s=WARMING_POLL_S)
    if eta is not None:
        refused.details["eta_s"] = round(eta, 1)
    return refused


def _refuse_another_model(session: Session, eval_id: str, model: str) -> None:
    row = evals.get(session, eval_id)
    if row is None or model != row.model:
        raise Refused(
            "forbidden",
            f"this key is bound to one eval, whose model is not {model!r}",
            hint="an eval's environments connect to the model of their own eval alone",
        )


def _ready_in_eval(ctx: Context, eval_id: str, model: str) -> ReadyAnswer:
    with ctx.store.read() as session:
        _refuse_another_model(session, eval_id, model)
        there = workers.ready(workers.of_eval(session, eval_id))
    return ReadyAnswer(ready=True, status="running") if there else ReadyAnswer(ready=False, status="starting")


def _of_eval(ctx: Context, eval_id: str, model: str, session_id: str) -> tuple[Worker, PolicyDecl]:
    with ctx.store.read() as session:
        _refuse_another_model(session, eval_id, model)
        there = workers.ready(workers.of_eval(session, eval_id))
        version = deployments.version(session, there[0].version_id) if there else None
    if version is None:
        raise Refused("warming", "this eval's policy workers are starting", retry_after_s=1.0)
    return _chosen(there, session_id), PolicyDecl.model_validate(version.request["policy"])


def _chosen(rows: list[Worker], session_id: str) -> Worker:
    """The same worker for the same session as long as it is there; one that goes moves only its own sessions."""
    return max(rows, key=lambda row: hashlib.sha256(f"{session_id} {row.id}".encode()).digest())


def _answer(
    ctx: Context, row: Worker, policy: PolicyDecl, request: ConnectRequest, expires: Callable[[float], str]
) -> ConnectAnswer:
    action, observation = policy.action, policy.observation
    if policy.embodiments and request.embodiment is not None:
        body = policy.embodiments.get(request.embodiment)
        if body is None:
            raise no_such_body(request.embodiment, sorted(policy.embodiments))
        action, observation = body.action, body.observation or observation
    elif request.embodiment is not None:
        raise no_such_body(request.embodiment, [])
    lease_s, address = ctx.settings.lease_s, address_of(row, ctx.vault)
    return ConnectAnswer(
        worker_url=address.url,
        cert_fingerprint=row.fingerprint or "",
        direct_secret=address.secret,
        lease=Lease(ttl_s=lease_s, epoch=row.id, expires_at=expires(ctx.clock.now() + lease_s)),
        action=action,
        observation=observation,
        embodiment=request.embodiment,
        params=request.params or {},
        encodings=list(codec.ENCODINGS),
    )


def no_such_body(name: str, known: list[str]) -> Refused:
    """An embodiment that the policy does not declare."""
    declared = f"it declares: {', '.join(known)}" if known else "it declares none"
    return Refused("invalid_request", f"this policy has no embodiment {name!r}; {declared}")
