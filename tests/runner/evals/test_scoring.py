"""A benchmark's own score: run once over all episodes, in a process that proves itself, and never in the eval's way."""

from __future__ import annotations

import pytest

from runner.evals import scoring
from runner.store.queries import evals
from runner.testing import first_key, make_client
from seq.contract.evals import ReportBody
from seq.contract.internal import ScoreStart

from .conftest import BENCHMARK, POLICY, ROUTERS, add_benchmark, add_policy, failing, outcome, play, run

SUITES = {"reach": "easy", "push": "hard"}
PARAMS = {"level": {"type": "int", "default": 1}}
SCORED = {**BENCHMARK, "score": True, "suite_of": SUITES, "params": PARAMS}
BODY = {"model": "arm", "benchmark": "table"}
SIZES = {"overall": 6, "per_task": {"reach": 3, "push": 3}, "per_suite": {"easy": 3, "hard": 3}}


@pytest.fixture
def scored(ctx, account, image):
    """The benchmark's next version has a score of its own; its environment is built."""
    version_id = add_benchmark(ctx, account, SCORED)
    with ctx.store.write() as session:
        scoring.benchmarks.version(session, version_id).image_hash = "made"


@pytest.fixture
def start(client, scored):
    """Submit an eval; its id."""

    def begin(**what):
        return client.post("/v1/eval", json={**BODY, **what}).json()["eval_id"]

    return begin


@pytest.fixture
def process(ctx, cluster):
    """The score's process as it was started last: what it was told, and a client that has its token."""

    def find():
        command = cluster.launched[-1]
        told = ScoreStart.model_validate_json(command.stdin)
        return command, told, make_client(ctx, told.token, routers=ROUTERS)

    return find


def half(leased):
    return outcome(leased, metrics={"success": float(leased.condition.index % 2)}, steps=7)


def status(ctx, eval_id):
    with ctx.store.read() as session:
        return evals.get(session, eval_id).status


def test_it_runs_once_all_episodes_are_there(ctx, controller, cluster, start, process):
    """One process, in the benchmark's own Python, told where to ask; the eval ends only after it has answered."""
    eval_id = start(params={"level": 3})
    run(ctx, controller, eval_id, half)
    command, told, client = process()
    assert command.name == f"score-{eval_id}"
    assert command.argv[0] == str(ctx.settings.envs / "made" / "bin" / "python")
    assert command.argv[-1] == "runner.engine.score"
    assert first_key() not in str(command.env)
    assert (told.eval_id, told.handler_ref, told.batched, told.arms) == (eval_id, "benchmark:Table", False, 1)
    assert told.setup_params == [{"level": 3}]
    for _ in range(3):
        controller.tick()
    assert [run_.name for run_ in cluster.launched].count(command.name) == 1
    assert status(ctx, eval_id) == "running"
    client.post(f"/internal/evals/{eval_id}/score", json={"arms": {"0": {"overall": {"success": 0.9}}}})
    assert ctx.wake.is_set()
    controller.tick()
    assert status(ctx, eval_id) == "completed"
    assert command.name not in cluster.living()


def test_it_is_given_what_was_scored_page_by_page(ctx, controller, start, process, monkeypatch):
    """Episodes by arm, in order, without errors, until `next` is none; each with what `score` needs."""
    monkeypatch.setattr(scoring, "PAGE", 4)
    eval_id = start()
    run(ctx, controller, eval_id, lambda e: outcome(e, **failing()) if e.condition.index == 1 else half(e))
    _, _, client = process()
    path = f"/internal/evals/{eval_id}/score/episodes"
    first = client.get(path, params={"arm": 0, "offset": 0}).json()
    second = client.get(path, params={"arm": 0, "offset": first["next"]}).json()
    assert [row["index"] for row in first["episodes"]] == [0, 2, 3]
    assert ([row["index"] for row in second["episodes"]], second["next"]) == ([4, 5], None)
    row = second["episodes"][0]
    told = {name: row[name] for name in ("task", "seed", "suite", "steps", "metrics")}
    assert told == {"task": "push", "seed": 1, "suite": "hard", "steps": 7, "metrics": {"success": 0.0}}


def test_its_values_stand_in_place_of_the_means(ctx, client, controller, start, process):
    """Overall, by suite and by task; a metric of its own is added; what it replaced has no interval."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    _, _, inside = process()
    groups = {
        "overall": {"success": 0.9, "spl": 0.25},
        "per_suite": {"easy": {"success": 0.8, "spl": 0.5}},
        "per_task": {"push": {"success": 0.7, "spl": 0.125}},
        "sizes": SIZES,
    }
    inside.post(f"/internal/evals/{eval_id}/score", json={"arms": {"0": groups}})
    controller.tick()
    report = ReportBody.model_validate(client.get(f"/v1/eval/{eval_id}").json())
    success, spl = report.metrics["success"], report.metrics["spl"]
    assert (success.overall, success.n, spl.overall, spl.n) == (0.9, 6, 0.25, 6)
    assert [(one.task, one.value, one.n) for one in success.per_task] == [("reach", 1 / 3, 3), ("push", 0.7, 3)]
    assert [(one.suite, one.value, one.n) for one in success.per_suite] == [("easy", 0.8, 3), ("hard", 2 / 3, 3)]
    assert [(one.task, one.value, one.n) for one in spl.per_task] == [("push", 0.125, 3)]
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    assert details["arms"][0]["scored_by"] == ["spl", "success"]
    assert "overall" not in details["intervals"]["success"]
    assert list(details["intervals"]["success"]["per_task"]) == ["reach"]
    assert list(details["intervals"]["success"]["per_suite"]) == ["hard"]
    (line,) = client.get("/v1/deployments/arm/evals").json()["history"]
    assert (line["metric"], line["value"], line["low"]) == ("success", 0.9, None)


def test_a_value_of_some_groups_alone_is_told_and_not_listed(ctx, client, controller, start, process):
    """A metric without a value over all episodes would be listed with one that nobody gave."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    _, _, inside = process()
    inside.post(f"/internal/evals/{eval_id}/score", json={"arms": {"0": {"per_task": {"push": {"odd": 1.0}}}}})
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert list(report["metrics"]) == ["success"]
    assert report["errors"] == ["score: odd was returned of some groups and not of all episodes, so it is not listed"]


def test_a_score_that_raises_keeps_the_means(ctx, client, controller, start, process):
    """The eval still completes; a line that begins with `score:` says what was wrong."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    _, _, inside = process()
    told = {"arms": {"0": {"overall": {}, "errors": ["score: task push: KeyError: 'depth'"]}}}
    inside.post(f"/internal/evals/{eval_id}/score", json=told)
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["metrics"]["success"]["overall"]) == ("completed", 0.5)
    assert report["errors"] == ["score: task push: KeyError: 'depth'"]
    assert client.get(f"/v1/eval/{eval_id}/details").json()["intervals"]["success"]["overall"]["n"] == 6


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("", {"error": "score: ModuleNotFoundError: sim"}, "score: ModuleNotFoundError: sim"),
        ("/exited", {"phase": "exited", "error": "killed by signal 9"}, "score: its process ended before"),
    ],
)
def test_a_process_that_cannot_score_leaves_its_reason(ctx, client, controller, start, process, path, body, said):
    """Whether it says so itself or only ends."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    _, _, inside = process()
    assert inside.post(f"/internal/evals/{eval_id}/score{path}", json=body).status_code == 200
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["metrics"]["success"]["overall"]) == ("completed", 0.5)
    assert report["errors"][0].startswith(said)


def test_what_is_told_again_changes_nothing(ctx, client, controller, start, process):
    """The first answer counts, whatever comes after it; its host's word that it ended is no failure then."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    _, _, inside = process()
    for value in (0.9, 0.1):
        inside.post(f"/internal/evals/{eval_id}/score", json={"arms": {"0": {"overall": {"success": value}}}})
    inside.post(f"/internal/evals/{eval_id}/score/exited", json={"phase": "exited", "error": "exit code 0"})
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["metrics"]["success"]["overall"], report["errors"]) == (0.9, [])


def test_a_lost_process_is_started_again_three_times_at_most(ctx, client, cluster, controller, start):
    """Where nobody could tell that it ended; then the means stand."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    name = f"score-{eval_id}"
    for _ in range(scoring.MOST_STARTS):
        assert name in cluster.living()
        cluster.lose(name)
        controller.tick()
    controller.tick()
    assert [one.name for one in cluster.launched].count(name) == scoring.MOST_STARTS
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert report["status"] == "completed"
    assert report["errors"] == ["score: its process was lost 3 times"]


def test_a_score_that_takes_too_long_is_ended(ctx, client, clock, cluster, controller, start):
    """Ten minutes are the most; it gets no time to wind up."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    clock.sleep(scoring.LIMIT_S)
    controller.tick()
    assert status(ctx, eval_id) == "running"
    clock.sleep(1)
    controller.tick()
    assert f"!score-{eval_id}" in cluster.killed
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert report["errors"] == ["score: it did not return within 600 s and was ended"]
    assert f"score-{eval_id}" not in cluster.living()


def test_only_the_process_itself_is_heard(ctx, controller, start, process):
    """Another eval's token, the account's key, or none: unauthenticated, and nothing is told or kept."""
    first, second = start(), start()
    run(ctx, controller, first, half)
    _, _, its = process()
    run(ctx, controller, second, half)
    for client in (its, make_client(ctx, first_key(), routers=ROUTERS), make_client(ctx, None, routers=ROUTERS)):
        base = f"/internal/evals/{second}/score"
        assert client.get(f"{base}/episodes", params={"arm": 0, "offset": 0}).status_code == 401
        assert client.post(base, json={"error": "no"}).status_code == 401
        assert client.post(f"{base}/exited", json={"phase": "exited"}).status_code == 401
    controller.tick()
    assert status(ctx, second) == "running"


def test_a_benchmark_whose_environment_is_gone_is_not_scored(ctx, client, controller, start):
    """The means stand and the line says what to do."""
    eval_id = start()
    (ctx.settings.envs / "made" / ".ready").unlink()
    run(ctx, controller, eval_id, half)
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert report["status"] == "completed"
    assert report["errors"][0].startswith("score: ")
    assert "deploy it again" in report["errors"][0]


def test_a_canceled_eval_ends_its_score(ctx, client, cluster, controller, start):
    """Nothing of it is left to run."""
    eval_id = start()
    run(ctx, controller, eval_id, half)
    assert f"score-{eval_id}" in cluster.living()
    client.post(f"/v1/eval/{eval_id}/cancel")
    controller.tick()
    assert cluster.living().keys().isdisjoint({f"score-{eval_id}"})
    assert status(ctx, eval_id) == "canceled"


def test_each_arm_is_scored_by_itself(ctx, client, controller, account, start, process):
    """Its own episodes, its own setup parameters, its own values; the arms' intervals leave out what was replaced."""
    add_policy(ctx, account, {**POLICY, "name": "leg"})
    eval_id = start(sweep={"benchmark.level": [1, 2]})
    run(ctx, controller, eval_id, half)
    _, told, inside = process()
    assert (told.arms, told.setup_params) == (2, [{"level": 1}, {"level": 2}])
    rows = inside.get(f"/internal/evals/{eval_id}/score/episodes", params={"arm": 1, "offset": 0}).json()["episodes"]
    assert {row["arm"] for row in rows} == {"arm benchmark.level=2"}
    arms = {"0": {"overall": {"success": 0.2}}, "1": {"overall": {"success": 0.3}}}
    inside.post(f"/internal/evals/{eval_id}/score", json={"arms": arms})
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert [(one["metrics"], one["intervals"]) for one in report["arms"]] == [
        ({"success": 0.2}, {}),
        ({"success": 0.3}, {}),
    ]


def test_a_rerun_is_scored_over_both(ctx, client, controller, start, process):
    """What was taken over is among the episodes that its score is given."""
    first = start()
    run(ctx, controller, first, lambda e: outcome(e, **failing()) if e.condition.index == 2 else half(e))
    process()[2].post(f"/internal/evals/{first}/score", json={"arms": {"0": {"overall": {"success": 0.9}}}})
    controller.tick()
    second = start(rerun_of=first)
    run(ctx, controller, second, half)
    _, _, inside = process()
    rows = inside.get(f"/internal/evals/{second}/score/episodes", params={"arm": 0, "offset": 0}).json()["episodes"]
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4, 5]
    inside.post(f"/internal/evals/{second}/score", json={"arms": {"0": {"overall": {"success": 0.8}}}})
    controller.tick()
    assert client.get(f"/v1/eval/{second}").json()["metrics"]["success"]["overall"] == 0.8


def test_an_eval_with_nothing_scored_is_not_scored(ctx, client, cluster, controller, start):
    """Only errors: it fails as any other, and no process is started."""
    eval_id = start()
    run(ctx, controller, eval_id, lambda e: outcome(e, **failing()))
    assert client.get(f"/v1/eval/{eval_id}").json()["status"] == "failed"
    assert not [one for one in cluster.launched if one.name.startswith("score-")]


def test_while_episodes_are_under_way_nothing_is_scored(ctx, cluster, controller, start):
    """It would judge a part as the whole."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, lambda e: half(e) if e.condition.index else None)
    controller.tick()
    assert not [one for one in cluster.launched if one.name.startswith("score-")]
    assert status(ctx, eval_id) == "running"
