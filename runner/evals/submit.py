"""`POST /v1/eval`: both sides looked up and pinned, planned, estimated; then told (a dry run) or queued."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from runner.cluster.base import Capacity, ClusterLostError
from runner.context import Context
from runner.errors import Refused, no_such
from runner.evals import adapters
from runner.evals.estimate import Estimate, make_estimate
from runner.evals.history import check_of, past_evals
from runner.evals.plan import BenchmarkSide, Known, Plan, PolicySide, cards, cards_in_all, layout, make_plan
from runner.store.db import Session
from runner.store.queries import adapters as adapter_rows
from runner.store.queries import benchmarks, deployments, workers
from runner.store.queries import episodes as episode_rows
from runner.store.queries import evals as rows
from runner.store.tables import Benchmark, BenchmarkVersion, Deployment, Eval, Version
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.evals import EvalRequest
from sequence_ai import __version__

USED_LOOKED_AT = 100


@dataclass(frozen=True)
class Sides:
    """The rows an eval pins."""

    deployment: Deployment
    version: Version
    benchmark: Benchmark
    benchmark_version: BenchmarkVersion
    adapter: adapters.Pinned | None

    @property
    def policy(self) -> PolicySide:
        """The policy as a plan needs it."""
        request = DeploymentRequest.model_validate(self.version.request)
        return PolicySide(self.deployment.name, self.version.number, request)

    @property
    def bench(self) -> BenchmarkSide:
        """The benchmark as a plan needs it."""
        request = BenchmarkRegisterRequest.model_validate(self.benchmark_version.request)
        row = self.benchmark_version
        return BenchmarkSide(self.benchmark.name, row.number, request, row.observation)


def submit(ctx: Context, account_id: str, request: EvalRequest) -> dict[str, Any]:
    """The answer to a dry run, which starts nothing, or to a real one, whose eval is then queued."""
    capacity = _capacity(ctx)
    with ctx.store.read() as session:
        sides = _sides(session, account_id, request)
        plan = _plan(session, account_id, request, sides, capacity)
        past = past_evals(session, account_id, sides.benchmark.id, sides.benchmark.name)
        in_use = workers.cards_of(session, account_id)
    adapter = sides.adapter.adapter.name if sides.adapter else None
    estimate = make_estimate(plan, sides.policy.name, adapter, past, check_of(sides.benchmark_version))
    answer = {
        "gpus_granted": cards_in_all(plan),
        "estimate": estimate.wire(),
        "cards": cards(plan, ctx.settings.gpus_per_account, in_use),
        "layout": layout(plan, sides.policy),
        "notes": [*plan.notes, *estimate.notes],
    }
    return answer if request.dry_run else {"eval_id": _queue(ctx, account_id, request, sides, plan, estimate), **answer}


def _capacity(ctx: Context) -> Capacity:
    try:
        return ctx.cluster.capacity()
    except ClusterLostError as lost:
        detail = "the platform's cluster does not answer; it is being started again"
        raise Refused("unavailable", detail, retry_after_s=5) from lost


def _sides(session: Session, account_id: str, request: EvalRequest) -> Sides:
    deployment, version = _serving(session, account_id, request.model)
    benchmark, benchmark_version = _ready(session, account_id, request.benchmark)
    adapter = adapters.resolve(session, account_id, request.adapter) if request.adapter else None
    return Sides(deployment, version, benchmark, benchmark_version, adapter)


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


def _plan(session: Session, account_id: str, request: EvalRequest, sides: Sides, capacity: Capacity) -> Plan:
    names = adapter_rows.names(session, account_id)
    before, _ = rows.history(session, account_id, benchmark=sides.benchmark.name, offset=0, limit=USED_LOOKED_AT)
    used = {row.plan["adapter"]["name"] for row in before if row.plan["adapter"]}
    known = Known(tuple(names), tuple(name for name in names if name in used))
    adapter = sides.adapter.side if sides.adapter else None
    return make_plan(request, sides.policy, sides.bench, adapter, known, capacity)


def _queue(ctx: Context, account_id: str, request: EvalRequest, sides: Sides, plan: Plan, estimate: Estimate) -> str:
    """Rows of the eval and all its episodes, in one transaction; its id."""
    row = Eval(
        id=ctx.new_id(),
        account_id=account_id,
        status="pending",
        model=sides.deployment.name,
        version_id=sides.version.id,
        benchmark=sides.benchmark.name,
        benchmark_version_id=sides.benchmark_version.id,
        adapter_version_id=sides.adapter.version.id if sides.adapter else None,
        request=request.wire(),
        plan=_kept(sides, plan),
        estimate=estimate.wire(),
        timing={},
        events=[],
        total=len(plan.episodes),
        created_at=ctx.clock.now(),
    )
    with ctx.store.write() as session:
        rows.add(session, row)
        episode_rows.add(session, row.id, (episode.wire() for episode in plan.episodes))
    ctx.wake.set()
    return row.id


def _kept(sides: Sides, plan: Plan) -> dict[str, Any]:
    """The plan as its eval's row keeps it: whatever a report must still say when its sides are long gone."""
    adapter = asdict(sides.adapter.side) if sides.adapter else None
    return {
        "policy": asdict(plan.policy),
        "benchmark": asdict(plan.benchmark),
        "envs": plan.envs,
        "cores_each": plan.cores_each,
        "machine_cores": plan.machine_cores,
        "record": plan.record,
        "notes": list(plan.notes),
        "pretend": plan.pretend,
        "model_version": sides.version.number,
        "benchmark_id": sides.benchmark.id,
        "benchmark_version": sides.benchmark_version.number,
        "adapter": adapter,
        "sha256": {"model": sides.version.bundle, "benchmark": sides.benchmark_version.bundle},
        "seeds": sorted({episode.seed for episode in plan.episodes}),
        "score": sides.bench.request.score,
        "platform": __version__,
    }
