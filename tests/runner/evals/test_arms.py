"""Several policies, and one with several settings, on the same starts: planned, handed out, told apart and compared."""

from __future__ import annotations

import pytest

from runner.evals import queue
from runner.store.queries import evals, instances, workers
from runner.testing import make_client
from seq.contract.evals import ReportBody
from seq.contract.internal import InstanceSpec, LeaseRequest

from .conftest import ADAPTER, POLICY, ROUTERS, add_policy, failing, open_instances, outcome, play, run

PARAMS = {"k": {"type": "int", "default": 5}}
LEG = {**POLICY, "name": "leg"}
SWEPT = {**POLICY, "name": "swept", "policy": {**POLICY["policy"], "params": PARAMS}}


@pytest.fixture
def sides(ctx, account):
    """Two more policies: `leg`, and `swept` with a parameter."""
    return [add_policy(ctx, account, LEG), add_policy(ctx, account, SWEPT)]


@pytest.fixture
def compared(client, sides):
    """A queued eval of `arm` and `leg` on the same six starts."""
    return client.post("/v1/eval", json={"model": "arm", "benchmark": "table", "compare": ["leg"]}).json()["eval_id"]


def by_arm(*values):
    """An outcome whose success is a row of values by arm, then by start."""

    def result(leased):
        arm, start = divmod(leased.condition.index, len(values[0]))
        return outcome(leased, metrics={"success": float(values[arm][start])})

    return result


def test_the_answer_names_the_arms_with_every_value_and_its_source(client, sides):
    """A dry run shows the combinations of a sweep and what each is played with; a real one answers the same names."""
    body = {"model": "swept", "benchmark": "table", "compare": ["leg"], "sweep": {"eval.steps_per_query": [1, 4]}}
    told = client.post("/v1/eval", json={**body, "dry_run": True}).json()
    names = ["swept eval.steps_per_query=1", "swept eval.steps_per_query=4", "leg"]
    arms = told["layout"]["arms"]
    assert [one["arm"] for one in arms] == names
    assert arms[1]["params"] == {"eval.steps_per_query": 4}
    assert arms[1]["settings"]["eval"] == {"steps_per_query": {"value": 4, "source": "cli"}}
    assert arms[1]["settings"]["policy"] == {"k": {"value": 5, "source": "policy"}}
    assert arms[2]["settings"]["eval"] == {"steps_per_query": {"value": None, "source": "platform"}}
    assert {row["arm"]: row["episodes"] for row in told["estimate"]["breakdown"]} == dict.fromkeys(names, 3)
    assert client.post("/v1/eval", json=body).json()["arms"] == names


def test_every_arm_has_instances_of_its_own_and_arms_of_one_policy_share_its_workers(ctx, client, controller, sides):
    """Benchmark instances are an arm's; policy instances are a policy's, whatever it is set to."""
    body = {"model": "swept", "benchmark": "table", "compare": ["leg"], "sweep": {"k": [1, 2, 3]}}
    eval_id = client.post("/v1/eval", json={**body, "benchmark_instances": 2, "policy_instances": 2}).json()["eval_id"]
    for _ in range(3):
        controller.tick()
    assert [(row.arm, row.place) for row in open_instances(ctx, eval_id)] == [(a, p) for a in range(4) for p in (0, 1)]
    with ctx.store.read() as session:
        mine = workers.of_eval(session, eval_id)
    assert {version: [w.version_id for w in mine].count(version) for version in sides} == dict.fromkeys(sides, 2)


def test_an_instance_is_told_its_own_arms_settings(ctx, client, controller, cluster, sides, image):
    """Model, policy, adapter and benchmark parameters, the interval, and environments numbered through all arms."""
    client.post("/v1/adapters", json={**ADAPTER, "params": {"size": {"type": "int", "default": 96}}})
    body = {"model": "swept", "benchmark": "table", "adapter": "bridge", "compare": ["leg"], "envs": 2}
    body |= {"sweep": {"adapter.size": [32, 64]}, "params": {"eval.steps_per_query": 3}}
    client.post("/v1/eval", json={**body, "benchmark_instances": 2})
    controller.tick()
    specs = []
    for launched in cluster.launched:
        instance = make_client(ctx, launched.start["token"], routers=ROUTERS)
        specs.append(InstanceSpec.model_validate(instance.get(f"/internal/instances/{launched.name}/spec").json()))
    told = sorted((spec.first_env, spec.model, spec.adapter.params, spec.policy_params) for spec in specs)
    assert [(model, params["size"] if params else None) for _, model, params, _ in told] == [
        *[("swept", 32)] * 2,
        *[("swept", 64)] * 2,
        *[("leg", None)] * 2,
    ]
    assert [first for first, *_ in told] == [0, 2, 4, 6, 8, 10]
    assert {spec.steps_per_query for spec in specs} == {3}


def test_an_instance_is_handed_its_own_arms_episodes(ctx, controller, compared):
    """The starts are the same, the numbers go through; an arm that is done says so while another one runs."""
    controller.tick()
    first, second = open_instances(ctx, compared)
    leased = [queue.lease(ctx, one.id, LeaseRequest(free=9)).episodes for one in (first, second)]
    assert [[e.condition.index for e in mine] for mine in leased] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    starts = [[(e.condition.task, e.condition.seed, e.condition.record) for e in mine] for mine in leased]
    assert starts[0] == starts[1]
    queue.take_results(ctx, first.id, [outcome(episode) for episode in leased[0]])
    assert queue.lease(ctx, first.id, LeaseRequest(free=9)).drained
    assert not queue.lease(ctx, second.id, LeaseRequest(free=9)).drained


def test_an_arm_that_is_done_wants_nothing_more(ctx, controller, compared, sides):
    """Its worker and its instance are not replaced when they go; those of the arm that runs are."""
    controller.tick()
    first, second = open_instances(ctx, compared)
    queue.take_results(ctx, first.id, [outcome(e) for e in queue.lease(ctx, first.id, LeaseRequest(free=6)).episodes])
    with ctx.store.write() as session:
        for row in (first, second):
            instances.close(instances.get(session, row.id), "lost", now=ctx.clock.now())
        for worker in workers.of_eval(session, compared):
            workers.fail(worker, reason="crashed", error="gone", traceback=None, now=ctx.clock.now())
    controller.tick()
    assert [row.arm for row in open_instances(ctx, compared)] == [1]
    with ctx.store.read() as session:
        wanted = [worker.version_id for worker in workers.usable(workers.of_eval(session, compared))]
    assert wanted == [sides[0]]


def test_the_report_tells_the_arms_apart(ctx, client, controller, compared):
    """Each with its own means and counts, never pooled; the first is the report's own; exactly the published shape."""
    run(ctx, controller, compared, by_arm([1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0]))
    body = client.get(f"/v1/eval/{compared}").json()
    report = ReportBody.model_validate(body)
    assert (report.status, report.incomplete) == ("completed", False)
    assert report.metrics["success"].overall == pytest.approx(1 / 3)
    assert [(one.arm, one.model, one.episodes, one.failed, one.not_run) for one in report.arms] == [
        ("arm", "arm", 6, 0, 0),
        ("leg", "leg", 6, 0, 0),
    ]
    assert [one.metrics["success"] for one in report.arms] == pytest.approx([1 / 3, 2 / 3])
    assert all(
        one.intervals["success"][0] < one.metrics["success"] < one.intervals["success"][1] for one in report.arms
    )
    (pair,) = report.paired
    assert (pair.metric, pair.arm_a, pair.arm_b, pair.n) == ("success", "arm", "leg", 6)
    assert pair.mean_diff == pytest.approx(1 / 3)
    assert [(one.arm, one.queries, one.steps) for one in report.arm_params] == [("arm", 12, 60), ("leg", 12, 60)]
    assert body["arm_params"][0]["eval"]["steps_per_query"] == {"value": None, "source": "platform"}


def test_one_arm_alone_is_no_comparison(ctx, client, controller):
    """A plain eval's report has neither arms nor pairs, as it always was."""
    eval_id = client.post("/v1/eval", json={"model": "arm", "benchmark": "table"}).json()["eval_id"]
    run(ctx, controller, eval_id)
    body = client.get(f"/v1/eval/{eval_id}").json()
    assert {"arms", "paired"}.isdisjoint(body)
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    assert ([one["arm"] for one in details["arms"]], details["paired"]) == (["arm"], [])


def test_the_details_tell_pairs_with_won_and_lost_and_adjust_for_all_comparisons(ctx, client, controller, sides):
    """Every arm against the first by every metric; a family is one metric's comparisons."""
    body = {"model": "swept", "benchmark": "table", "compare": ["leg"], "sweep": {"k": [1, 2]}}
    eval_id = client.post("/v1/eval", json=body).json()["eval_id"]
    run(ctx, controller, eval_id, by_arm([0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0]))
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    first, second = details["paired"]
    assert (first["arm_a"], first["arm_b"]) == ("swept k=1", "swept k=2")
    assert (first["won"], first["lost"], first["n"]) == (5, 0, 6)
    assert first["mean_diff"] == pytest.approx(5 / 6)
    assert first["p"] == pytest.approx(0.0625)
    assert [one["comparisons"] for one in (first, second)] == [2, 2]
    assert first["p_adjusted"] == pytest.approx(0.125)
    assert second["p_adjusted"] == second["p"] == 1.0
    assert [one["counts"]["succeeded"] for one in details["arms"]] == [0, 5, 1]
    assert [one["params"] for one in details["arms"]] == [{"policy.k": 1}, {"policy.k": 2}, {}]


def test_every_arm_tells_its_tasks_though_they_have_no_interval(ctx, client, controller, sides):
    """Of the first the report itself does; of the others nothing else would."""
    body = {"model": "arm", "benchmark": "table", "compare": ["leg"], "trials": 1}
    eval_id = client.post("/v1/eval", json=body).json()["eval_id"]
    run(ctx, controller, eval_id, lambda leased: outcome(leased, metrics={"speed": 2.5}))
    first, second = client.get(f"/v1/eval/{eval_id}/details").json()["arms"]
    tasks = second["intervals"]["speed"]["per_task"]
    assert tasks
    assert {(one["mean"], one["n"], one["low"]) for one in tasks.values()} == {(2.5, 1, None)}
    assert (first["model_version"], second["model_version"]) == (1, 1)


def test_only_starts_that_both_scored_are_paired(ctx, client, controller, compared):
    """An error of one arm leaves its start out of the difference and in neither's mean."""

    def result(leased):
        return outcome(leased, **failing()) if leased.condition.index in (0, 7) else outcome(leased)

    run(ctx, controller, compared, result)
    report = client.get(f"/v1/eval/{compared}").json()
    assert (report["status"], report["incomplete"]) == ("completed", True)
    assert report["paired"][0]["n"] == 4
    assert [(one["episodes"], one["failed"]) for one in report["arms"]] == [(6, 1), (6, 1)]
    assert report["errors"] == [
        "ValueError: bad row (1 of 6 episodes of arm)\nTraceback: ValueError: bad row",
        "ValueError: bad row (1 of 6 episodes of leg)\nTraceback: ValueError: bad row",
    ]
    causes = client.get(f"/v1/eval/{compared}/details").json()["errors"]
    assert [(one["arm"], one["count"], one["episodes"]) for one in causes] == [("arm", 1, [0]), ("leg", 1, [7])]


def test_episodes_are_listed_through_all_arms(ctx, client, controller, compared):
    """Each row names its arm; pages go on from one arm into the next."""
    run(ctx, controller, compared)
    rows = client.get(f"/v1/eval/{compared}/episodes", params={"limit": 7}).json()
    assert [(row["index"], row["arm"]) for row in rows["episodes"]] == [*((i, "arm") for i in range(6)), (6, "leg")]
    more = client.get(f"/v1/eval/{compared}/episodes", params={"limit": 7, "cursor": rows["next_cursor"]}).json()
    assert [row["index"] for row in more["episodes"]] == [7, 8, 9, 10, 11]
    assert (more["total"], more["next_cursor"]) == (12, None)
    details = client.get(f"/v1/eval/{compared}/details").json()
    assert details["episodes"] == [*rows["episodes"], *more["episodes"]]
    assert [arm["done"] for arm in details["progress"]["arms"]] == [6, 6]
    assert details["progress"]["total"] == 12


def test_one_arm_of_errors_does_not_end_the_others(ctx, client, controller, compared):
    """While one arm works the eval is worth going on with; where none does it ends at once, naming the most common."""
    held = []
    controller.tick()
    play(ctx, compared, lambda e: outcome(e, **failing()) if e.condition.index < 6 else held.append(e))
    controller.tick()
    with ctx.store.read() as session:
        assert evals.get(session, compared).status == "running"
    second = open_instances(ctx, compared)[-1]
    queue.take_results(ctx, second.id, [outcome(e, **failing("TypeError: other")) for e in held])
    controller.tick()
    report = client.get(f"/v1/eval/{compared}").json()
    assert report["status"] == "failed"
    assert report["errors"][0].startswith("the first episodes of all 2 arms all ended in an error")


def test_a_deployments_list_shows_the_arm_it_was(ctx, client, controller, compared):
    """A compared policy finds the eval among its own, with its own arm's value."""
    run(ctx, controller, compared, by_arm([0] * 6, [1] * 6))
    mine = client.get("/v1/deployments/arm/evals").json()["history"]
    its = client.get("/v1/deployments/leg/evals").json()["history"]
    assert [(row["eval_id"], row["arm"], row["value"]) for row in mine + its] == [
        (compared, "arm", 0.0),
        (compared, "leg", 1.0),
    ]
    assert its[0]["model_version"] == 1
