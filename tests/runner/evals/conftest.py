"""A platform without a cluster: deployment `arm`, benchmark `table` (2 tasks x 3 seeds), a controller."""

from __future__ import annotations

import json

import pytest

from runner.clock import ManualClock
from runner.cluster.fake import FakeCluster
from runner.evals import queue
from runner.evals.reconcile import EvalController
from runner.store.queries import benchmarks, deployments, instances
from runner.testing import account_of, add_account, first_key, make_client, make_context
from seq.contract.internal import EpisodeOutcome, LeaseRequest

ROUTERS = ("evals", "adapters", "internal_instances", "internal_evals", "account")
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
def cluster(request):
    """Four cores, and no card unless a test is given some; nothing really runs."""
    made = FakeCluster(cores=4, cards=getattr(request, "param", None))
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
def account(ctx):
    """The first account's id."""
    return account_of(ctx, first_key())


@pytest.fixture
def image(ctx, account):
    """The benchmark's environment, as if built."""
    root = ctx.settings.envs / "made"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").touch()
    (root / ".ready").write_text(json.dumps({"variables": {"MUJOCO_GL": "egl"}}))
    with ctx.store.write() as session:
        _, version = benchmarks.latest_ready(session, account, "table")
        version.image_hash = "made"


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
    add_policy(ctx, account_id, policy)
    add_benchmark(ctx, account_id, benchmark)


def add_policy(ctx, account_id, policy=POLICY):
    """A serving deployment, or its next version; the version's id."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        named = {"account_id": account_id, "name": policy["name"], "handler_ref": "policy:Arm", "now": now}
        deployment = deployments.find(session, account_id, policy["name"])
        deployment = deployment or deployments.add(session, deployment_id=ctx.new_id(), **named)
        version = deployments.add_version(
            session, deployment, version_id=ctx.new_id(), request=policy, bundle=None, now=now
        )
        version.state, deployment.serving = "ready", version.number
    return version.id


def add_benchmark(ctx, account_id, benchmark=BENCHMARK):
    """A ready benchmark, or its next version; the version's id."""
    now = ctx.clock.now()
    with ctx.store.write() as session:
        named = {"account_id": account_id, "name": benchmark["name"], "handler_ref": "benchmark:Table", "now": now}
        bench = benchmarks.find(session, account_id, benchmark["name"])
        bench = bench or benchmarks.add(session, benchmark_id=ctx.new_id(), **named)
        version = benchmarks.add_version(
            session, bench, version_id=ctx.new_id(), request=benchmark, bundle=None, now=now
        )
        version.state, bench.latest = "ready", version.number
    return version.id


def outcome(leased, **what):
    """A finished episode, successful unless said otherwise."""
    told = {"steps": 10, "acts": 2, "terminated": True, "metrics": {"success": 1.0}, "wall_s": 1.0, "env_cpu_s": 0.5}
    body = {"index": leased.condition.index, "attempt": leased.attempt, **told, **what}
    return EpisodeOutcome.model_validate(body)


def open_instances(ctx, eval_id):
    """The instances that an eval has, by arm and place."""
    with ctx.store.read() as session:
        mine = [row for row in instances.of_eval(session, eval_id) if row.state in instances.OPEN]
    return sorted(mine, key=lambda row: (row.arm, row.place))


def play(ctx, eval_id, result=outcome, *, most=None):
    """Play what the eval's instances are handed out, arm by arm, `most` episodes an instance (all: until none is left).

    `result` makes an outcome of a leased episode; where it makes None, the episode stays under way.
    """
    for instance in open_instances(ctx, eval_id):
        left = most
        while left is None or left > 0:
            free = 64 if left is None else min(64, left)
            leased = queue.lease(ctx, instance.id, LeaseRequest(free=free)).episodes
            if not leased:
                break
            done = [told for one in leased if (told := result(one)) is not None]
            queue.take_results(ctx, instance.id, done)
            left = None if left is None else left - len(leased)


def run(ctx, controller, eval_id, result=outcome):
    """Play an eval to its end."""
    controller.tick()
    play(ctx, eval_id, result)
    ctx.clock.sleep(10)
    controller.tick()


def failing(text="ValueError: bad row"):
    """What an outcome of an episode that ended in an error has."""
    return {"error": text, "traceback": f"Traceback: {text}", "metrics": {}}
