"""`POST /v1/eval`: the sides looked up and pinned, planned, estimated; then told (a dry run) or queued."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from runner.cluster.base import Capacity, ClusterLostError
from runner.context import Context
from runner.errors import Refused, no_such
from runner.evals import adapters, line, reruns
from runner.evals.budget import MINUTE_S
from runner.evals.costs import plan_usd
from runner.evals.estimate import Estimate, make_estimate
from runner.evals.history import check_of, past_evals
from runner.evals.line import Stock
from runner.evals.plan import ArmPlan, BenchmarkSide, Known, Plan, PolicySide, card_of, layout, make_plan, plan_arms
from runner.evals.reruns import Rerun
from runner.evals.selection import Record, Selection, count, select
from runner.evals.stats import planning
from runner.store.db import Session
from runner.store.queries import adapters as adapter_rows
from runner.store.queries import benchmarks, deployments, workers
from runner.store.queries import evals as rows
from runner.store.tables import Arm, Benchmark, BenchmarkVersion, Deployment, Eval, Version
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.evals import EvalRequest
from sequence_ai import __version__

USED_LOOKED_AT = 100


@dataclass(frozen=True)
class Sides:
    """The rows an eval pins: the policies (the one asked for first), the benchmark, the adapter."""

    policies: tuple[tuple[Deployment, Version], ...]
    benchmark: Benchmark
    benchmark_version: BenchmarkVersion
    adapter: adapters.Pinned | None

    @property
    def policy_sides(self) -> list[PolicySide]:
        """The policies as a plan needs them."""
        return [
            PolicySide(
                deployment.name,
                version.id,
                version.number,
                version.bundle,
                DeploymentRequest.model_validate(version.request),
            )
            for deployment, version in self.policies
        ]

    @property
    def bench(self) -> BenchmarkSide:
        """The benchmark as a plan needs it."""
        request = BenchmarkRegisterRequest.model_validate(self.benchmark_version.request)
        row = self.benchmark_version
        return BenchmarkSide(self.benchmark.name, row.number, request, row.observation)


@dataclass(frozen=True)
class Planned:
    """An eval as it would run: what was asked, made whole, and everything that follows from it."""

    request: EvalRequest
    sides: Sides
    plan: Plan
    estimate: Estimate
    stock: Stock
    rerun: Rerun | None


def submit(ctx: Context, account_id: str, request: EvalRequest, *, schedule_id: str | None = None) -> dict[str, Any]:
    """The answer to a dry run, which starts nothing, or to a real one, whose eval is then queued."""
    capacity = _capacity(ctx)
    with ctx.store.read() as session:
        found = _planned(ctx, session, account_id, request, capacity)
    line.refuse_beyond_limit(found.plan, found.stock)
    answer = {
        "gpus_granted": sum(found.plan.cards.values()),
        "estimate": found.estimate.wire(),
        "cards": line.cards_block(found.plan, found.stock),
        "layout": layout(found.plan),
        "planning": planning(found.plan.selection.distinct),
        "notes": [*found.plan.notes, *found.estimate.notes],
    }
    if request.dry_run:
        return answer
    row = _queue(ctx, account_id, found, schedule_id)
    started = {"eval_id": row.id, **answer, "arms": [arm.name for arm in found.plan.arms]}
    if row.status != "queued":
        return started
    wait = {**line.wait_block(row, ctx.clock.now()), "available": found.stock.free(row.cards)}
    return {**started, "status": "queued", "queue": wait}


def stock_of(ctx: Context, session: Session, account_id: str, there: dict[str, int]) -> Stock:
    """Cards there are and cards that are held, by everyone and by the account."""
    mine = workers.cards_of(session, account_id)
    serving = [(w.card, w.cards) for w, _ in workers.holding(session) if w.purpose != "eval" and w.card != "cpu"]
    evals = [(one.card, one.count) for one in rows.holdings(session)]
    held = line.held_by_kind([*serving, *evals])
    return Stock(there, held, ctx.settings.gpus_per_account, mine["serving"], mine["eval"])


def _planned(ctx: Context, session: Session, account_id: str, request: EvalRequest, capacity: Capacity) -> Planned:
    again = reruns.inherited(ctx, session, account_id, request)
    whole, rerun = again if again is not None else (request, None)
    sides = _sides(session, account_id, whole, rerun)
    plan = _plan(session, account_id, whole, sides, rerun, capacity)
    _refuse_too_small_a_bound(plan, whole.max_usd)
    past = past_evals(session, account_id, sides.benchmark.id, sides.benchmark.name)
    adapter = sides.adapter.adapter.name if sides.adapter else None
    estimate = make_estimate(plan, adapter, past, check_of(sides.benchmark_version), whole.max_usd)
    stock = stock_of(ctx, session, account_id, capacity.cards)
    return Planned(whole, sides, plan, estimate, stock, rerun)


def _refuse_too_small_a_bound(plan: Plan, max_usd: float | None) -> None:
    """Machines would start, and cost, but no episode."""
    minute = plan_usd(plan, MINUTE_S)
    if max_usd is not None and max_usd < minute:
        raise Refused(
            "invalid_request",
            f"max_usd is {max_usd:g}, and a minute of all its machines costs {minute:.2g}: no episode would start",
            hint=f"allow at least {minute:.2g}, or take fewer or smaller machines",
        )


def _capacity(ctx: Context) -> Capacity:
    try:
        return ctx.cluster.capacity()
    except ClusterLostError as lost:
        detail = "the platform's cluster does not answer; it is being started again"
        raise Refused("unavailable", detail, retry_after_s=5) from lost


def _sides(session: Session, account_id: str, request: EvalRequest, rerun: Rerun | None) -> Sides:
    if rerun is not None:
        return _sides_again(session, account_id, request, rerun)
    names = [request.model, *(request.compare or [])]
    benchmark, benchmark_version = _ready(session, account_id, request.benchmark)
    adapter = adapters.resolve(session, account_id, request.adapter) if request.adapter else None
    return Sides(tuple(_serving(session, account_id, name) for name in names), benchmark, benchmark_version, adapter)


def _sides_again(session: Session, account_id: str, request: EvalRequest, rerun: Rerun) -> Sides:
    """A completion runs the very versions of before; of another try at what was unsuccessful the policies are new."""
    earlier = rerun.earlier
    version = benchmarks.version(session, earlier.benchmark_version_id)
    benchmark = benchmarks.get(session, version.benchmark_id) if version is not None else None
    if version is None or benchmark is None:
        raise Refused("gone", f"the benchmark version of eval {earlier.id} is no longer there")
    adapter = adapters.pinned(session, earlier.adapter_version_id)
    if rerun.metric is not None:
        names = [request.model, *(request.compare or [])]
        policies = tuple(_serving(session, account_id, name) for name in names)
    else:
        policies = tuple(_version(session, earlier, version_id) for version_id in reruns.pinned(session, earlier))
    return Sides(policies, benchmark, version, adapter)


def _version(session: Session, earlier: Eval, version_id: str) -> tuple[Deployment, Version]:
    version = deployments.version(session, version_id)
    deployment = deployments.get(session, version.deployment_id) if version is not None else None
    if version is None or deployment is None:
        raise Refused("gone", f"a policy version of eval {earlier.id} is no longer there")
    return deployment, version


def _serving(session: Session, account_id: str, name: str) -> tuple[Deployment, Version]:
    found = deployments.serving(session, account_id, name)
    if found is not None:
        return found
    deployment = deployments.find(session, account_id, name)
    if deployment is None:
        raise no_such("deployment", name, deployments.names(session, account_id))
    newest = deployments.newest(session, deployment.id)
    raise _not_ready("deployment", name, newest.state if newest else "empty", newest.error if newest else None)


def _ready(session: Session, account_id: str, name: str) -> tuple[Benchmark, BenchmarkVersion]:
    found = benchmarks.latest_ready(session, account_id, name)
    if found is not None:
        return found
    benchmark = benchmarks.find(session, account_id, name)
    if benchmark is None:
        raise no_such("benchmark", name, benchmarks.names(session, account_id))
    newest = benchmarks.newest(session, benchmark.id)
    raise _not_ready("benchmark", name, newest.state if newest else "empty", newest.error if newest else None)


def _not_ready(kind: str, name: str, state: str, error: str | None) -> Refused:
    if state == "building":
        return Refused("conflict", f"{kind} {name} is still building", hint="wait until it is ready and run this again")
    reason = f": {error}" if error else ""
    return Refused("conflict", f"{kind} {name} has no version that works{reason}", hint="mend it and deploy it again")


def _plan(
    session: Session, account_id: str, request: EvalRequest, sides: Sides, rerun: Rerun | None, capacity: Capacity
) -> Plan:
    names = adapter_rows.names(session, account_id)
    before, _ = rows.history(session, account_id, benchmark=sides.benchmark.name, offset=0, limit=USED_LOOKED_AT)
    used = {row.plan["adapter"]["name"] for row in before if row.plan["adapter"]}
    known = Known(tuple(names), tuple(name for name in names if name in used))
    adapter = sides.adapter.side if sides.adapter else None
    record: Record = "none" if sides.bench.request.render is None else request.record or "per-task"
    selection = replace(rerun.selection, record=record) if rerun else select(sides.bench.request, request, record)
    arms = plan_arms(request, sides.policy_sides, sides.bench, adapter, selection)
    if rerun is not None:
        arms = tuple(replace(arm, todo=rerun.todo[number]) for number, arm in enumerate(arms))
    return make_plan(request, selection, arms, sides.bench, adapter, known, capacity)


def _queue(ctx: Context, account_id: str, found: Planned, schedule_id: str | None) -> Eval:
    """Rows of the eval and its arms, in one transaction; whether its cards are there is decided inside it."""
    plan, now = found.plan, ctx.clock.now()
    with ctx.store.write() as session:
        stock = stock_of(ctx, session, account_id, dict(found.stock.there))
        in_line = any(other.account_id == account_id for other in rows.queued(session))
        starts_now = not in_line and stock.lacks(plan.cards) is None
        row = _row(ctx, account_id, found, schedule_id, starts_now=starts_now or not plan.cards, now=now)
        rows.add(session, row, _arms(row.id, plan.arms, plan.selection))
    ctx.wake.set()
    return row


def _row(
    ctx: Context, account_id: str, found: Planned, schedule_id: str | None, *, starts_now: bool, now: float
) -> Eval:
    sides, plan = found.sides, found.plan
    return Eval(
        id=ctx.new_id(),
        account_id=account_id,
        status="pending" if starts_now else "queued",
        model=plan.arms[0].policy.name,
        version_id=plan.arms[0].policy.version_id,
        benchmark=sides.benchmark.name,
        benchmark_version_id=sides.benchmark_version.id,
        adapter_version_id=sides.adapter.version.id if sides.adapter else None,
        rerun_of=found.rerun.earlier.id if found.rerun is not None and found.rerun.metric is None else None,
        schedule_id=schedule_id,
        request=found.request.wire(),
        plan=_kept(found),
        selection=plan.selection.wire(),
        estimate=found.estimate.wire(),
        cards=plan.cards,
        timing={},
        events=[],
        total=plan.total,
        created_at=now,
        begun_at=now if starts_now else None,
    )


def _arms(eval_id: str, arms: tuple[ArmPlan, ...], selection: Selection) -> list[Arm]:
    return [
        Arm(
            eval_id=eval_id,
            number=number,
            name=arm.name,
            model=arm.policy.name,
            version_id=arm.policy.version_id,
            settings=arm.settings.wire(),
            first=number * len(selection),
            todo=[list(run) for run in arm.todo],
            planned=count(arm.todo),
        )
        for number, arm in enumerate(arms)
    ]


def _kept(found: Planned) -> dict[str, Any]:
    """The plan as its eval's row keeps it: whatever a report must still say when its sides are long gone."""
    sides, plan = found.sides, found.plan
    pinned = {version.id: version for _, version in sides.policies}
    policies = [
        {
            "model": policy.model,
            "version_id": policy.version_id,
            "version": pinned[policy.version_id].number,
            "sha256": pinned[policy.version_id].bundle,
            "image": pinned[policy.version_id].image_hash,
            "machines": asdict(policy.machines),
            "cards": list(policy.cards),
        }
        for policy in plan.policies
    ]
    first, benchmark = pinned[plan.arms[0].policy.version_id], sides.benchmark_version
    return {
        "policies": policies,
        "benchmark": asdict(plan.benchmark),
        "arms": len(plan.arms),
        "playing": plan.playing,
        "starts": len(plan.selection),
        "envs": plan.envs,
        "cores_each": plan.cores_each,
        "machine_cores": plan.machine_cores,
        "record": plan.record,
        "notes": list(plan.notes),
        "pretend": plan.pretend,
        "model_version": first.number,
        "benchmark_id": sides.benchmark.id,
        "benchmark_version": benchmark.number,
        "adapter": _adapter(sides.adapter),
        "sha256": {"model": first.bundle, "benchmark": benchmark.bundle, "benchmark_image": benchmark.image_hash},
        "score": sides.bench.request.score,
        "metric": found.rerun.metric if found.rerun else None,
        "platform": __version__,
    }


def _adapter(pinned: adapters.Pinned | None) -> dict[str, Any] | None:
    if pinned is None:
        return None
    side = pinned.side
    return {
        "name": side.name,
        "version": side.version,
        "sha256": side.sha256,
        "policy_io": side.policy_io,
        "lossy": [list(step) for step in side.lossy],
    }


def benchmark_cards(plan: dict[str, Any]) -> dict[str, int]:
    """The cards that the benchmark's instances of all arms hold, by kind, of a kept plan."""
    kind, each = card_of(plan["benchmark"]["card"])
    return {kind: each * plan["benchmark"]["instances"] * plan["playing"]} if each else {}
