"""What an instance is told when it starts, and what it tells."""

from __future__ import annotations

import hmac
import shutil
from pathlib import Path
from typing import Any

from runner import images
from runner.context import Context
from runner.errors import Refused
from runner.evals import ending
from runner.evals.ending import Failure, fail
from runner.evals.parameters import STEPS_PER_QUERY, Settings
from runner.store.db import Session
from runner.store.queries import accounts, adapters, benchmarks, deployments
from runner.store.queries import episodes as episode_rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as rows
from runner.store.tables import Eval, Instance
from runner.vault import token_hash
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.internal import AdapterRef, InstanceEvent, InstanceSpec


def authenticate(ctx: Context, instance_id: str, token: str) -> None:
    """Refuse as `unauthenticated` whoever is not the instance of that id."""
    with ctx.store.read() as session:
        row = rows.get(session, instance_id)
    if row is None or row.token_hash is None or not hmac.compare_digest(row.token_hash, token_hash(token)):
        raise Refused("unauthenticated", "this is not the token of that instance")


def spec(ctx: Context, instance_id: str) -> InstanceSpec:
    """Everything an instance needs, with a fresh key to the robot's door; the key it had before stops working."""
    key = accounts.KEY_PREFIX + ctx.new_secret()
    with ctx.store.write() as session:
        instance, row = _of_open_eval(session, instance_id)
        instance.state = "running"
        instance.seen_at = ctx.clock.now()
        _replace_key(ctx, session, row, instance, key)
        pinned = _pinned(session, row, instance.arm)
        dead = [other.id for other in rows.of_eval(session, row.id) if other.state not in rows.OPEN]
    return InstanceSpec(
        eval_id=row.id,
        connect_token=key,
        **pinned,
        **_layout(row, instance),
        **_places(ctx, row, pinned_bundle=_bundle(ctx, row)),
        outbox_dir=str(_outbox(ctx, row.id, instance_id, dead)),
    )


def tell(ctx: Context, instance_id: str, event: InstanceEvent) -> None:
    """Note what an instance told; a failure of the benchmark itself ends the eval."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        found = rows.with_eval(session, instance_id)
        if found is None:
            raise Refused("not_found", f"no instance {instance_id!r}")
        instance, row = found
        instance.seen_at = now
        if event.kind == "started":
            told = {"at": now, "arm": instance.arm, "setup_s": event.setup_s or 0.0, "facts": event.facts}
            row.timing = {**row.timing, "started": [*row.timing.get("started", []), told]}
        elif event.kind == "facts":
            told = {"at": now, "arm": instance.arm, "setup_s": 0.0, "facts": event.facts}
            row.timing = {**row.timing, "started": [*row.timing.get("started", []), told]}
        elif event.kind == "moved":
            eval_rows.note(row, "moved", count=event.count, reason=event.message, at=now)
        elif event.kind == "ended":
            _ended(session, instance, row, now)
        elif row.status in eval_rows.OPEN and instance.state in rows.OPEN:
            fail(session, row, Failure(event.message or "the benchmark failed", event.traceback), now)
    ctx.wake.set()


def _ended(session: Session, instance: Instance, row: Eval, now: float) -> None:
    left = episode_rows.counts_of_arms(session, row)[instance.arm]
    if row.status in eval_rows.OPEN and not ending.played(row, left):
        return  # it left too early: the controller finds it gone and counts it as lost
    if instance.state in rows.OPEN:
        rows.close(instance, "ended", now=now)


def _of_open_eval(session: Session, instance_id: str) -> tuple[Instance, Eval]:
    found = rows.with_eval(session, instance_id)
    if found is None or found[0].state not in rows.OPEN or found[1].status not in eval_rows.OPEN:
        raise Refused("gone", "this instance's eval has ended, or another instance took its place")
    return found


def _replace_key(ctx: Context, session: Session, row: Eval, instance: Instance, key: str) -> None:
    eval_rows.drop_keys(session, row.id, instance.id)
    new = accounts.NewKey(ctx.new_id(), key, instance.id, kind="eval", eval_id=row.id)
    accounts.add_key(session, row.account_id, new, ctx.clock.now())


def _pinned(session: Session, row: Eval, number: int) -> dict[str, Any]:
    """The parts of the spec that the pinned versions and the arm's settings decide."""
    arm = eval_rows.arm(session, row.id, number)
    benchmark = benchmarks.version(session, row.benchmark_version_id)
    policy = deployments.version(session, arm.version_id) if arm is not None else None
    if arm is None or benchmark is None or policy is None:
        raise Refused("gone", "a version that this eval was planned with is no longer there")
    request = BenchmarkRegisterRequest.model_validate(benchmark.request)
    declared, settings = DeploymentRequest.model_validate(policy.request), Settings.of_wire(arm.settings)
    action = declared.policy.action
    return {
        "model": arm.model,
        "handler_ref": request.handler_ref,
        "batched": request.batched,
        "has_score": request.score,
        "render": request.render,
        "action_dim": request.action_contract.action_dim if request.action_contract else None,
        "policy_action_dim": action.action_dim if action else None,
        "streaming": declared.policy.streaming,
        "policy_params": settings.given("policy"),
        "setup_params": settings.given("benchmark"),
        "steps_per_query": settings.steps_per_query,
        "adapter": _adapter(session, row, settings),
    }


def _adapter(session: Session, row: Eval, settings: Settings) -> AdapterRef | None:
    if row.adapter_version_id is None:
        return None
    version = adapters.version(session, row.adapter_version_id)
    if version is None:
        raise Refused("gone", "the adapter version that this eval was planned with is no longer there")
    return AdapterRef(
        name=row.plan["adapter"]["name"],
        version=version.number,
        class_name=version.class_name,
        source=version.source,
        sha256=version.sha256,
        policy_io=version.policy_io,
        params=_adapter_params(settings),
    )


def _adapter_params(settings: Settings) -> dict[str, Any]:
    """What its `__init__` is given: what the eval set, and the interval that holds where it declares one."""
    given = settings.given("adapter")
    declares = STEPS_PER_QUERY in settings.values["adapter"]
    return {**given, STEPS_PER_QUERY: settings.steps_per_query} if declares else given


def _layout(row: Eval, instance: Instance) -> dict[str, Any]:
    """`first_env` numbers the environments of all instances of all arms through."""
    each = row.plan["benchmark"]["instances"]
    place = instance.arm * each + instance.place
    return {
        "envs": row.plan["envs"],
        "first_env": place * row.plan["envs"],
        "cores": row.plan["cores_each"],
        "record": row.plan["record"],
    }


def _bundle(ctx: Context, row: Eval) -> tuple[str | None, str | None]:
    """The benchmark's code and image, by hash."""
    with ctx.store.read() as session:
        version = benchmarks.version(session, row.benchmark_version_id)
    return (None, None) if version is None else (version.bundle, version.image_hash)


def _places(ctx: Context, row: Eval, *, pinned_bundle: tuple[str | None, str | None]) -> dict[str, Any]:
    """Where things lie on this machine."""
    bundle, image_hash = pinned_bundle
    try:
        environment = images.find(ctx.settings, image_hash or "")
    except images.BuildError as missing:
        raise Refused("conflict", f"the benchmark cannot start: {missing}") from missing
    packages = images.sdk(ctx.settings)
    return {
        "python": str(environment.python),
        "env_vars": images.process_env(environment, packages),
        "pythonpath": [str(packages)],
        "code_dir": str(images.unpack(ctx.settings, ctx.blobs, bundle)),
        "blob_dir": str(ctx.blobs.folder(f"eval/{row.id}")),
    }


def _outbox(ctx: Context, eval_id: str, instance_id: str, dead: list[str]) -> Path:
    """The instance's own outbox, with what dead instances of the eval left in theirs; the living keep their own."""
    own = ctx.settings.outbox / eval_id / instance_id
    own.mkdir(parents=True, exist_ok=True)
    for other in dead:
        for left in (ctx.settings.outbox / eval_id / other).glob("*.jsonl"):
            left.rename(own / left.name)
    return own


def drop_outbox(ctx: Context, eval_id: str) -> None:
    """Remove an ended eval's outboxes."""
    shutil.rmtree(ctx.settings.outbox / eval_id, ignore_errors=True)
