"""The robot's door: who may act, on which worker. It answers at once; a worker that is missing is wanted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from runner.context import Context
from runner.errors import Refused
from runner.fleet import cards, robots, slots
from runner.fleet import workers as life
from runner.fleet.deployments import owned
from runner.fleet.door import address_of
from runner.fleet.robots import Standing
from runner.fleet.slots import Answer, Full, Granted, Queued, Warming
from runner.store.db import Session
from runner.store.queries import deployments, evals, workers
from runner.store.tables import Deployment, Version, Worker
from seq.contract import codec
from seq.contract.acts import ConnectAnswer, ConnectRequest, Lease, ReadyAnswer
from seq.contract.deployments import PolicyDecl
from seq.contract.robot import ActionContract, ObservationContract

WARMING_POLL_S = 1.0
WARMING_MOST_S = 30.0
"""The longest pause told: a start that is faster than the last one is met soon enough."""
QUEUE_POLL_S, QUEUE_MOST_S = 2.0, 30.0
PLACES_A_SECOND = 8.0
"""The pace of those far behind, so that a thousand who wait ask some fifty times a second in all."""
MOST_JITTER = 1.2
"""Clients that wait take up to this much longer than they are told (wire.md 2.4)."""
HOLDS_MOST_S = 10.0
"""For how long at most a question that says so (`wait_s`) is held until there is a slot."""


@dataclass(frozen=True)
class Who:
    """Whose connect it is; `deployment_id` and `eval_id` bind an act key and an eval's key."""

    account_id: str
    deployment_id: str | None = None
    eval_id: str | None = None


@dataclass(frozen=True)
class Waits:
    """No slot yet: what the robot is told, and where it stands in the deployment's line."""

    refusal: Refused
    deployment_id: str
    position: int


def connect(ctx: Context, who: Who, request: ConnectRequest, expires: Callable[[float], str]) -> ConnectAnswer | Waits:
    """Coordinates of the worker where the robot has its slot, or its place among those that wait.

    Raises Refused where waiting is of no use. `expires` writes a time as text.
    """
    if who.eval_id is not None:
        theirs, socket, policy = _of_eval(ctx, who.eval_id, request.model, request.session)
        told = _answer(ctx, theirs, policy, request, expires, ctx.settings.lease_s)
        return told.model_copy(update={"acts_socket": socket})
    there = robots.stock(ctx)
    with ctx.store.write() as session:
        deployment = allowed(session, who, request.model)
        standing = robots.standing(ctx, session, deployment, _serving(session, deployment), there)
        policy = standing.request.policy
        _body_of(policy, request.embodiment)  # refused before a slot is taken
        answer = _asked(ctx, session, standing, request)
        row = standing.rows[answer.lease.worker] if isinstance(answer, Granted) else None
        if row is not None:
            row.last_used_at = ctx.clock.now()
            policy = policy if row.version_id == standing.version.id else _policy_of(session, row)
    if isinstance(answer, Granted) and row is not None:
        told = _answer(ctx, row, policy, request, expires, standing.rules.lease_s)
        return told.model_copy(update={"rotate": {"reason": "version-retired"}}) if answer.leaving else told
    return _waiting(ctx, standing, answer)


def _asked(ctx: Context, session: Session, standing: Standing, request: ConnectRequest) -> Answer:
    """Decide, and keep what was decided: the slot or the place, and the workers that it takes."""
    now = ctx.clock.now()
    after, answer = slots.connect(
        standing.fleet,
        request.session,
        now,
        standing.rules,
        standing.room,
        move=request.move or not request.moves,
        pace=lambda position: _within_s(ctx, standing, request, position),
    )
    robots.save(session, standing, after, now)
    if robots.grow(ctx, session, standing, after):
        ctx.wake.set()
    return answer


def _within_s(ctx: Context, standing: Standing, request: ConnectRequest, position: int) -> float:
    """By when a robot asks again at the latest: one that lets itself be held at once, another when it was told to."""
    if request.wait_s > 0:
        return MOST_JITTER * _pace_s(position)
    return MOST_JITTER * max(_pace_s(position), _warming_pause_s(ctx, standing))


def _pace_s(position: int) -> float:
    return min(QUEUE_MOST_S, max(QUEUE_POLL_S, position / PLACES_A_SECOND))


def _warming_pause_s(ctx: Context, standing: Standing) -> float:
    eta = robots.warming_s(standing, ctx.clock.now())
    return WARMING_POLL_S if eta is None else min(math.ceil(eta), WARMING_MOST_S)


def _waiting(ctx: Context, standing: Standing, answer: Answer) -> Waits:
    """What a robot without a slot is told; raises Refused where it may not wait."""
    name, failed = standing.deployment.name, standing.failed
    if failed is not None and not standing.current:
        raise Refused(
            "unavailable",
            f"the worker of {name!r} failed: {failed.error}",
            hint=f"it is tried again {life.RETRY_AFTER_S:g} s after a failure",
            retry_after_s=life.RETRY_AFTER_S,
        )
    if isinstance(answer, Full):
        raise _full(standing, answer)
    refusal = _warming(ctx, standing) if isinstance(answer, Warming) else _queued(standing, answer)
    refusal.details["holds_s"] = min(HOLDS_MOST_S, _pace_s(answer.position))
    return Waits(refusal, standing.deployment.id, answer.position)


def ready(ctx: Context, who: Who, model: str) -> ReadyAnswer:
    """Whether a robot would be served now; a missing worker is wanted, a running one's idle time is left alone.

    An eval's key asks about the eval's own workers, which are its controller's to want.
    """
    if who.eval_id is not None:
        return _ready_in_eval(ctx, who.eval_id, model)
    there = robots.stock(ctx)
    with ctx.store.write() as session:
        deployment = allowed(session, who, model)
        if deployment.serving is None and _newest_state(session, deployment) == "building":
            return ReadyAnswer(ready=False, status="building")
        standing = robots.standing(ctx, session, deployment, _serving(session, deployment), there)
        if workers.ready(standing.current):
            return ReadyAnswer(ready=True, status="running")
        started = not standing.current and standing.room > 0
        if started:
            robots.start_one(ctx, session, standing)
            ctx.wake.set()
    if not standing.current and not started:
        raise _cannot_start(standing)
    eta = robots.warming_s(standing, ctx.clock.now())
    return ReadyAnswer(ready=False, eta_s=eta, status="starting")


def release(ctx: Context, who: Who, model: str, session_id: str) -> None:
    """A robot leaves; one that is not there, and a deployment that is none of the caller's, are nothing."""
    if who.eval_id is not None:
        return  # an eval's environments hold no lease of a deployment
    now = ctx.clock.now()
    with ctx.store.write() as session:
        deployment = deployments.find(session, who.account_id, model)
        if deployment is None or who.deployment_id not in (None, deployment.id):
            return
        robots.let_go(session, deployment, session_id, now)
    ctx.bell.dismiss(deployment.id, session_id)
    ctx.bell.ring(deployment.id)


def allowed(session: Session, who: Who, model: str) -> Deployment:
    """The deployment a key may drive; a bound key that names another learns nothing of what there is."""
    if who.eval_id is not None:
        _version_in_eval(session, who.eval_id, model)
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


def _serving(session: Session, deployment: Deployment) -> Version:
    """The version that serves; raises Refused where none does."""
    if deployment.stopped:
        raise Refused(
            "conflict", f"{deployment.name!r} is stopped", hint=f"seq policy start {deployment.name}", state="stopped"
        )
    version = deployments.numbered(session, deployment.id, deployment.serving)
    if version is None:
        raise _nothing_serves(session, deployment)
    return version


def _nothing_serves(session: Session, deployment: Deployment) -> Refused:
    newest = deployments.newest(session, deployment.id)
    if newest is not None and newest.state == "failed":
        detail = f"{deployment.name!r} has no version that serves: its build failed: {newest.error}"
        return Refused("conflict", detail, hint=f"seq policy logs {deployment.name} --build", state="failed")
    return Refused("conflict", f"{deployment.name!r} is being built", hint="wait until it is ready", state="building")


def _warming(ctx: Context, standing: Standing) -> Refused:
    """Come back when it serves, as far as earlier starts tell; a client sleeps all of `retry_after_s`."""
    eta, pause = robots.warming_s(standing, ctx.clock.now()), _warming_pause_s(ctx, standing)
    refused = Refused("warming", "a worker of this deployment is starting", retry_after_s=pause)
    if eta is not None:
        refused.details["eta_s"] = round(eta, 1)
    return refused


def _queued(standing: Standing, answer: Queued) -> Refused:
    lack, eta = _lack(standing), robots.turn_s(standing, answer.position)
    details = {
        **lack.details,
        "reason": lack.reason,
        "queue_position": answer.position,
        "queued_s": round(answer.queued_s, 3),
        "queue_timeout_s": standing.rules.queue_timeout_s,
    }
    if eta is not None:
        details["eta_s"] = round(eta, 1)
    told = f"in line for a slot of {standing.deployment.name!r}, at position {answer.position}: {lack.detail}"
    return Refused("unavailable", told, retry_after_s=_pace_s(answer.position), **details)


def _full(standing: Standing, answer: Full) -> Refused:
    """Why a robot gets neither a slot nor a place."""
    if answer.waited_s is not None:
        lack = cards.queue_timeout(answer.waited_s)
        return Refused("unavailable", lack.detail, **lack.details, reason=lack.reason)
    lack = _lack(standing)
    code = "conflict" if lack.reason == "gpu_limit_reached" else "unavailable"
    told = f'every slot of {standing.deployment.name!r} is taken, and its on_full="reject" keeps no line: {lack.detail}'
    return Refused(code, told, **lack.details, reason=lack.reason)


def _lack(standing: Standing) -> cards.Lack:
    """Why no more workers can be started; where only a failure keeps them away, that is said."""
    failed = standing.failed
    if failed is not None:
        return cards.Lack("worker_failed", f"the worker started last failed: {failed.error}")
    return standing.offer.lack or cards.Lack("deployment_full", "every slot is taken")


def _cannot_start(standing: Standing) -> Refused:
    lack = _lack(standing)
    told = f"no worker of {standing.deployment.name!r} can start: {lack.detail}"
    pause = life.RETRY_AFTER_S if standing.failed is not None else QUEUE_POLL_S
    return Refused("unavailable", told, retry_after_s=pause, **lack.details, reason=lack.reason)


def _version_in_eval(session: Session, eval_id: str, model: str) -> str:
    """The pinned version of a model that an eval runs; any other is refused."""
    known = {arm.model: arm.version_id for arm in evals.arms(session, eval_id)}
    if model not in known:
        raise Refused(
            "forbidden",
            f"this key is bound to one eval, which does not run {model!r}",
            hint="an eval's environments connect to the models of their own eval alone",
        )
    return known[model]


def _in_eval(session: Session, eval_id: str, version_id: str) -> list[Worker]:
    """An eval's workers of a version that serve now, by id."""
    return [row for row in workers.ready(workers.of_eval(session, eval_id)) if row.version_id == version_id]


def _ready_in_eval(ctx: Context, eval_id: str, model: str) -> ReadyAnswer:
    with ctx.store.read() as session:
        there = _in_eval(session, eval_id, _version_in_eval(session, eval_id, model))
    return ReadyAnswer(ready=True, status="running") if there else ReadyAnswer(ready=False, status="starting")


def _of_eval(ctx: Context, eval_id: str, model: str, session_id: str) -> tuple[Worker, str | None, PolicyDecl]:
    """The worker that answers an environment, and the socket of the copy in it that does."""
    with ctx.store.read() as session:
        there = _in_eval(session, eval_id, _version_in_eval(session, eval_id, model))
        version = deployments.version(session, there[0].version_id) if there else None
    if version is None:
        raise Refused("warming", "this eval's policy workers are starting", retry_after_s=1.0)
    worker, socket = _chosen(there, session_id)
    return worker, socket, PolicyDecl.model_validate(version.request["policy"])


def _chosen(rows: list[Worker], session_id: str) -> tuple[Worker, str | None]:
    """Environments number their sessions (`NUMBER.NAME`), and take the copies of all workers in turn.

    A session without a number keeps the same worker as long as it is there.
    """
    number, dot, _ = session_id.partition(".")
    if not (dot and number.isdecimal()):
        return max(rows, key=lambda row: hashlib.sha256(f"{session_id} {row.id}".encode()).digest()), None
    row = rows[int(number) % len(rows)]
    turn = int(number) // len(rows)
    return row, str(row.sockets[turn % len(row.sockets)]) if row.sockets else None


def _answer(
    ctx: Context,
    row: Worker,
    policy: PolicyDecl,
    request: ConnectRequest,
    expires: Callable[[float], str],
    lease_s: float,
) -> ConnectAnswer:
    action, observation = _body_of(policy, request.embodiment)
    address = address_of(row, ctx.vault)
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


def _body_of(policy: PolicyDecl, name: str | None) -> tuple[ActionContract | None, ObservationContract | None]:
    """What holds for that body of the robot; raises Refused on one that the policy does not declare."""
    if name is None:
        return policy.action, policy.observation
    body = (policy.embodiments or {}).get(name)
    if body is None:
        raise no_such_body(name, sorted(policy.embodiments or {}))
    return body.action, body.observation or policy.observation


def _policy_of(session: Session, row: Worker) -> PolicyDecl:
    version = deployments.version(session, row.version_id)
    if version is None:
        raise RuntimeError(f"worker {row.id} without its version")
    return PolicyDecl.model_validate(version.request["policy"])


def no_such_body(name: str, known: list[str]) -> Refused:
    """An embodiment that the policy does not declare."""
    declared = f"it declares: {', '.join(known)}" if known else "it declares none"
    return Refused("invalid_request", f"this policy has no embodiment {name!r}; {declared}")
