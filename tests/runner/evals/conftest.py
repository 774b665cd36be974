"""A platform without a cluster: deployment `arm`, benchmark `table` (2 tasks x 3 seeds), a controller."""

from __future__ import annotations

import pytest

from runner.clock import ManualClock
from runner.cluster.fake import FakeCluster
from runner.evals.reconcile import EvalController
from runner.store.queries import benchmarks, deployments
from runner.testing import account_of, add_account, first_key, make_client, make_context
from seq.contract.internal import EpisodeOutcome

ROUTERS = ("evals", "adapters", "internal_instances")
SOURCE = "class Bridge:\n    pass\n"
ADAPTER = {
    "name": "bridge",
    "class_name": "Bridge",
    "handler_ref": "adapter:Bridge",
    "source": SOURCE,
    "transforms": [
        {"pipeline": "obs", "transform": "rename(a->b)", "kind": "lossless"},
        {"pipeline": "action", "transform": "custom(cut)", "kind": "lossy", "reason": "cuts the last joint"},
    ],
}
ACTION = {"robot": "panda", "action_space": "joint_absolute", "action_dim": 8, "control_frequency_hz": 20}
POLICY = {
    "name": "arm",
    "image": {"base": "debian:12-slim"},
    "resources": {"gpu": ["cpu"]},
    "policy": {"handler_ref": "policy:Arm", "action": ACTION},
}
BENCHMARK = {
    "name": "table",
    "image": {"base": "debian:12-slim"},
    "conditions": {"tasks": ["reach", "push"], "seeds": [0, 1, 2]},
    "handler_ref": "benchmark:Table",
    "gpu": "cpu",
    "cpu": 2,
    "max_steps": 50,
    "render": {"camera": "front"},
    "action_contract": ACTION,
}


@pytest.fixture
def clock():
    """Time, moved by hand."""
    return ManualClock()


@pytest.fixture
def cluster():
    """Four cores, no card; nothing really runs."""
    made = FakeCluster(cores=4)
    made.ensure()
    return made


@pytest.fixture
def ctx(tmp_path, clock, cluster):
    """The platform's context with both sides in place."""
    made = make_context(tmp_path, clock=clock, cluster=cluster)
    add_sides(made, account_of(made, first_key()))
    yield made
    made.store.close()


@pytest.fixture
def client(ctx):
    """The first account's client."""
    return make_client(ctx, first_key(), routers=ROUTERS)


@pytest.fixture
def other(ctx):
    """Another account's client."""
    return make_client(ctx, add_account(ctx, "other"), routers=ROUTERS)


@pytest.fixture
def controller(ctx):
    """The controller of evals; what it launches, it launches in place."""
    return EvalController(ctx, spawn=lambda work: work())


def add_sides(ctx, account_id, policy=POLICY, benchmark=BENCHMARK):
    """A serving deployment and a ready benchmark."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        named = {"account_id": account_id, "name": policy["name"], "handler_ref": "policy:Arm", "now": now}
        deployment = deployments.add(session, deployment_id=ctx.new_id(), **named)
        version = deployments.add_version(
            session, deployment, version_id=ctx.new_id(), request=policy, bundle=None, now=now
        )
        version.state, deployment.serving = "ready", version.number
        named = {"account_id": account_id, "name": benchmark["name"], "handler_ref": "benchmark:Table", "now": now}
        bench = benchmarks.add(session, benchmark_id=ctx.new_id(), **named)
        bench_version = benchmarks.add_version(
            session, bench, version_id=ctx.new_id(), request=benchmark, bundle=None, now=now
        )
        bench_version.state, bench.latest = "ready", bench_version.number


def outcome(leased, **what):
    """A finished episode, successful unless said otherwise."""
    told = {"steps": 10, "acts": 2, "terminated": True, "metrics": {"success": 1.0}, "wall_s": 1.0, "env_cpu_s": 0.5}
    body = {"index": leased.condition.index, "attempt": leased.attempt, **told, **what}
    return EpisodeOutcome.model_validate(body)
