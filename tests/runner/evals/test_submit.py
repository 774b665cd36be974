"""Starting an eval, and what a dry run of it says."""

from __future__ import annotations

import pytest

from runner.evals import queue
from runner.store.queries import benchmarks, deployments, evals, instances, workers
from runner.testing import account_of, first_key
from seq.contract.internal import LeaseRequest

from .conftest import ADAPTER, BENCHMARK, POLICY, add_policy, add_sides, outcome

BODY = {"model": "arm", "benchmark": "table"}


def evals_of(ctx):
    with ctx.store.read() as session:
        return evals.history(session, account_of(ctx, first_key()), offset=0, limit=50)


def test_a_dry_run_starts_nothing(ctx, client, cluster, controller):
    """It answers layout, cards, estimate and notes; no eval, worker or instance is there afterwards."""
    body = client.post("/v1/eval", json={**BODY, "dry_run": True, "envs": 16, "policy_instances": 2}).json()
    controller.tick()
    assert evals_of(ctx) == ([], 0)
    assert cluster.launched == []
    assert "eval_id" not in body
    assert body["gpus_granted"] == body["cards"]["total"] == 0
    assert body["layout"]["policy"] == [{"model": "arm", "instances": 2, "gpu": "cpu", "cards_each": 0, "fallback": []}]
    assert body["layout"]["benchmark"] == {"gpu": "cpu", "envs": 16, "instances_per_arm": 1}
    assert body["layout"]["episodes_per_arm"] == 6
    assert body["estimate"]["wall_clock_s"] > 0
    assert body["estimate"]["default_timing"] is True
    assert "6 environments on 4 cores: they share" in body["notes"]
    assert "16 environments for 6 episodes: 10 would stay unused, so 6 are started" in body["notes"]


@pytest.mark.parametrize("cluster", [{"L4": 8}], indirect=True)
def test_a_dry_run_tells_what_the_account_holds(ctx, client, account):
    """The cards of its workers that serve and of its evals, and what is left of its limit."""
    add_policy(ctx, account, {**POLICY, "name": "card", "resources": {"gpu": ["L4"]}})
    client.post("/v1/eval", json={"model": "card", "benchmark": "table"})
    with ctx.store.write() as session:
        (_, version), now = deployments.all_serving(session)[0], ctx.clock.now()
        for name, purpose, card in (("worker-1", "serve", "L4:2"), ("worker-3", "serve", "cpu")):
            named = {"worker_id": name, "version_id": version.id, "purpose": purpose, "card": card}
            workers.want(session, eval_id=None, now=now, **named)
    told = client.post("/v1/eval", json={**BODY, "dry_run": True}).json()["cards"]
    assert (told["limit"], told["in_use"], told["available"]) == (8, {"serving": 2, "eval": 1}, 5)


def test_a_real_run_is_queued_with_everything_pinned(ctx, client):
    """The answer has the id and the same estimate; the row keeps versions, plan and estimate."""
    client.post("/v1/adapters", json=ADAPTER)
    asked = {**BODY, "adapter": "bridge@v1", "trials": 2, "tasks": ["push"]}
    body = client.post("/v1/eval", json=asked).json()
    (row,), total = evals_of(ctx)
    assert (row.id, row.status, row.total, total) == (body["eval_id"], "pending", 2, 1)
    assert row.estimate == body["estimate"]
    assert (row.plan["model_version"], row.plan["benchmark_version"], row.plan["adapter"]["version"]) == (1, 1, 1)
    assert ctx.wake.is_set()


def test_a_new_version_of_a_side_changes_no_queued_eval(ctx, client):
    """What was pinned at submission is what runs."""
    client.post("/v1/adapters", json=ADAPTER)
    client.post("/v1/eval", json={**BODY, "adapter": "bridge"})
    client.post("/v1/adapters", json={**ADAPTER, "source": ADAPTER["source"] + "# more\n"})
    (row,), _ = evals_of(ctx)
    assert row.plan["adapter"]["version"] == 1
    client.post("/v1/eval", json={**BODY, "adapter": "bridge"})
    assert {row.plan["adapter"]["version"] for row in evals_of(ctx)[0]} == {1, 2}


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"model": "leg", "benchmark": "table"}, "not_found", "'leg'"),
        ({"model": "arm", "benchmark": "chair"}, "not_found", "'chair'"),
        ({**BODY, "adapter": "nothing"}, "not_found", "'nothing'"),
        ({**BODY, "tasks": ["fly"]}, "invalid_request", "no task 'fly'"),
        ({**BODY, "trials": 0}, "invalid_request", "trials"),
        ({**BODY, "envs": 0}, "invalid_request", "envs"),
        ({**BODY, "compare": ["leg"]}, "not_found", "'leg'"),
        ({**BODY, "compare": ["arm"]}, "invalid_request", "two arms"),
        ({**BODY, "params": {"speed": 2}}, "invalid_request", "'speed'"),
        ({**BODY, "sweep": {"eval.steps_per_query": [0, 1]}}, "invalid_request", "at least 1"),
        ({**BODY, "max_usd": -1}, "invalid_request", "max_usd"),
        ({**BODY, "region": "eu"}, "invalid_request", "region"),
        ({**BODY, "metric": "success"}, "invalid_request", "rerun_unsuccessful_of"),
        ({**BODY, "rerun_of": "0" * 32}, "not_found", "no eval"),
        ({**BODY, "speed": 2}, "invalid_request", "speed"),
    ],
)
def test_what_cannot_run_is_refused_and_leaves_nothing(ctx, client, body, code, said):
    """A refused eval has no row, whatever was wrong with it, and the sentence names what was."""
    for dry_run in ({}, {"dry_run": True}):
        refused = client.post("/v1/eval", json={**body, **dry_run})
        assert refused.json()["code"] == code
        assert said in refused.json()["detail"]
    assert evals_of(ctx) == ([], 0)


def test_a_missing_adapter_is_asked_for_by_name(ctx, client):
    """Contracts that differ without an adapter are refused; the account's adapters are listed."""
    seven = {**BENCHMARK, "name": "seven", "action_contract": {**BENCHMARK["action_contract"], "action_dim": 7}}
    add_sides(ctx, account_of(ctx, first_key()), {**POLICY, "name": "second"}, seven)
    client.post("/v1/adapters", json=ADAPTER)
    refused = client.post("/v1/eval", json={"model": "arm", "benchmark": "seven"}).json()
    assert refused["code"] == "invalid_request"
    assert "of 8 dimensions" in refused["detail"]
    assert "bridge" in refused["hint"]
    assert client.post("/v1/eval", json={"model": "arm", "benchmark": "seven", "adapter": "bridge"}).status_code == 200


@pytest.mark.parametrize("side", ["model", "benchmark"])
@pytest.mark.parametrize(("state", "said"), [("building", "still building"), ("failed", "no module named sim")])
def test_a_side_that_is_not_ready_is_a_conflict(ctx, client, side, state, said):
    """A side that builds or failed to is told apart from one that does not exist."""
    with ctx.store.write() as session:
        queries, name = (deployments, "arm") if side == "model" else (benchmarks, "table")
        owner = queries.find(session, account_of(ctx, first_key()), name)
        owner.serving = owner.latest = None
        version = queries.newest(session, owner.id)
        version.state, version.error = state, "no module named sim" if state == "failed" else None
    refused = client.post("/v1/eval", json=BODY)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert said in refused.json()["detail"]


def test_a_lost_cluster_is_told_as_something_to_retry(client, cluster):
    """While the cluster comes back, an eval cannot be planned, and the answer says when to ask again."""
    cluster.lose_head()
    refused = client.post("/v1/eval", json=BODY)
    assert (refused.status_code, refused.json()["retryable"], refused.json()["retry_after_s"]) == (503, True, 5)


def test_a_completed_eval_teaches_the_next_estimate(ctx, client, controller, clock):
    """The second dry run is learned from the first run, for other trials and environments, and says so."""
    eval_id = client.post("/v1/eval", json=BODY).json()["eval_id"]
    controller.tick()
    with ctx.store.write() as session:
        (instance,) = instances.of_eval(session, eval_id)
    clock.sleep(5)
    for _ in range(6):
        (leased,) = queue.lease(ctx, instance.id, LeaseRequest(free=1)).episodes
        clock.sleep(10)
        queue.take_results(ctx, instance.id, [outcome(leased, env_cpu_s=8.0, wall_s=10.0)])
    controller.tick()
    body = client.post("/v1/eval", json={**BODY, "dry_run": True, "trials": 1, "envs": 1}).json()
    assert body["estimate"]["default_timing"] is False
    assert any("learned from 1 earlier eval(s) of this policy" in note for note in body["notes"])
    assert pytest.approx(body["estimate"]["wall_clock_s"], rel=0.05) == 5 + 2 * 10
