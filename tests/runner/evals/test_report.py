"""What an eval says while it runs and at its end, through its routes."""

from __future__ import annotations

import random

import pytest

from runner.evals import queue
from runner.evals import table as table_module
from runner.store.queries import benchmarks, evals, instances
from runner.testing import account_of, first_key, make_client
from seq.contract.evals import ReportBody
from seq.contract.internal import OUTPUT_FOLLOWS, LeaseRequest

from .conftest import ADAPTER, ROUTERS, outcome

FAILING = {"error": "ValueError: bad row", "traceback": "Traceback: mine", "metrics": {}}


@pytest.fixture
def start(client):
    """Queue an eval of six episodes with the lossy adapter."""

    def begin(**what):
        client.post("/v1/adapters", json=ADAPTER)
        body = {"model": "arm", "benchmark": "table", "adapter": "bridge", **what}
        return client.post("/v1/eval", json=body).json()["eval_id"]

    return begin


@pytest.fixture
def lease(ctx):
    """Every waiting episode, handed to a running instance of that name."""

    def take(eval_id, name="instance-1", free=6):
        with ctx.store.write() as session:
            if instances.get(session, name) is None:
                row = instances.want(session, instance_id=name, eval_id=eval_id, now=ctx.clock.now())
                row.state, row.token_hash = "running", "of a token"
        return queue.lease(ctx, name, LeaseRequest(free=free)).episodes

    return take


def finish(ctx, controller, outcomes, name="instance-1"):
    queue.take_results(ctx, name, outcomes)
    ctx.clock.sleep(10)
    controller.tick()


def table(client, eval_id):
    """The columns of the CSV."""
    rows = client.get(f"/v1/eval/{eval_id}/details").json()["episodes"]
    return [{key: value for key, value in row.items() if key != "attempts"} for row in rows]


def test_the_report_of_a_completed_eval(ctx, client, controller, start, lease):
    """Means overall, by task and suite, lossy steps, links, phases and cost, in exactly the published shape."""
    eval_id = start()
    timing = {"phase_s": {"step": 0.5, "act": 0.1}, "phase_n": {"step": 10, "act": 2}}
    done = [
        outcome(e, metrics={"success": float(e.condition.index % 2)}, recorded=e.condition.record, **timing)
        for e in lease(eval_id)
    ]
    finish(ctx, controller, done)
    body = client.get(f"/v1/eval/{eval_id}").json()
    report = ReportBody.model_validate(body)
    success = report.metrics["success"]
    assert (report.status, report.incomplete, report.errors) == ("completed", False, [])
    assert (success.overall, success.n) == (0.5, 6)
    assert [(row.task, row.n) for row in success.per_task] == [("reach", 3), ("push", 3)]
    assert [row.value for row in success.per_task] == [1 / 3, 2 / 3]
    assert body["adapter_lossy"] == [{"transform": "custom(cut)", "reason": "cuts the last joint"}]
    base = str(client.base_url).rstrip("/")
    assert report.videos == [f"{base}/v1/eval/{eval_id}/videos/{k}.mp4" for k in (0, 3)]
    assert report.timing is not None
    assert report.timing.step_ms == pytest.approx({"act": 50.0, "step": 50.0})
    assert report.timing.steps == 60
    assert report.cost_usd > 0


def test_the_details_say_exactly_what_ran(ctx, client, controller, start, lease):
    """Versions, hashes, seeds, layout, intervals, counts, and the estimate beside what it took."""
    eval_id = start(envs=3)
    finish(ctx, controller, [outcome(e) for e in lease(eval_id)])
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    manifest = details["manifest"]
    assert (manifest["model"], manifest["model_version"]) == ("arm", 1)
    assert (manifest["benchmark"], manifest["benchmark_version"]) == ("table", 1)
    assert manifest["adapter"].keys() == {"name", "version", "sha256"}
    assert (manifest["episodes"], manifest["seeds"], manifest["layout"]["envs"]) == (6, [0, 1, 2], 3)
    assert manifest["pretend"] is False
    interval = details["intervals"]["success"]["overall"]
    assert (interval["mean"], interval["n"], interval["small_n"]) == (1.0, 6, True)
    assert interval["low"] == pytest.approx(0.6097, abs=1e-4)
    assert details["actual"]["wall_clock_s"] == 10.0
    assert details["estimate"]["wall_clock_s"] > 0
    assert details["counts"] == {
        "planned": 6,
        "ran": 6,
        "scored": 6,
        "errored": 0,
        "not_run": 0,
        "succeeded": 6,
        "unsuccessful": 0,
        "at_reset": 0,
    }


def test_errors_are_grouped_by_cause_and_score_nothing(ctx, client, controller, start, lease):
    """An error is no failure: left out of the means, counted by cause with one traceback; the report is incomplete."""
    eval_id = start()
    leased = lease(eval_id)
    results = [outcome(e) for e in leased[:3]] + [outcome(e, **FAILING) for e in leased[3:5]]
    finish(ctx, controller, [*results, outcome(leased[5], error="TypeError: other", metrics={})])
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["incomplete"]) == ("completed", True)
    assert (report["metrics"]["success"]["overall"], report["metrics"]["success"]["n"]) == (1.0, 3)
    first, second = report["errors"]
    assert first == "ValueError: bad row (2 of 6 episodes)\nTraceback: mine"
    assert second == "TypeError: other (1 of 6 episodes)"


def test_what_a_process_printed_last_is_no_part_of_the_cause(ctx, client, controller, start, lease):
    """It differs from time to time; the first is told where a traceback would be."""
    died = "the environment's process ended with exit code 3"
    leased = lease(start())
    printed = [{"error": f"{died}{OUTPUT_FOLLOWS}{e.condition.index}", "metrics": {}} for e in leased[:3]]
    results = [outcome(e, **how) for e, how in zip(leased, printed, strict=False)]
    finish(ctx, controller, [*results, *(outcome(e) for e in leased[3:])])
    (row,) = client.get("/v1/deployments/arm/evals").json()["history"]
    assert client.get(f"/v1/eval/{row['eval_id']}").json()["errors"] == [f"{died} (3 of 6 episodes)\n0"]


def test_a_recording_that_failed_leaves_the_score(ctx, client, controller, start, lease):
    """No link for what is not there, a line that says so, and the episode counts."""
    eval_id = start()
    finish(ctx, controller, [outcome(e, record_error="the disk is full") for e in lease(eval_id)])
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert report["videos"] == []
    assert report["metrics"]["success"]["n"] == 6
    assert report["errors"] == ["recording failed: the disk is full (6 episodes; their scores stand)"]


def test_a_metric_that_scored_episodes_lack_is_told(ctx, client, controller, start, lease):
    """An episode without a metric counts in no mean of it, so the report names the metric and is incomplete."""
    eval_id = start()
    results = [outcome(e, metrics={"success": 1.0, "time": 2.0}) for e in lease(eval_id)]
    for lacking in results[3:]:
        del lacking.metrics["success"]
    finish(ctx, controller, results)
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["incomplete"]) == ("completed", True)
    assert report["errors"] == ["success: missing in 3 of 6 scored episodes"]
    assert (report["metrics"]["success"]["n"], report["metrics"]["time"]["n"]) == (3, 6)


def test_what_happened_again_is_told_once(ctx, client, start):
    """Equal sentences are one, with how often; the order is that of the first time."""
    eval_id = start()
    with ctx.store.write() as session:
        row = evals.get(session, eval_id)
        for kind in ("gateway_restarted", "instance_lost", *["gateway_restarted"] * 4):
            evals.note(row, kind, at=0.0)
    assert client.get(f"/v1/eval/{eval_id}/details").json()["happened"] == [
        "the gateway was started again while the eval ran (5 times)",
        "a benchmark instance was lost and replaced",
    ]


def test_a_failed_eval_says_why(ctx, client, controller, start, lease):
    """The first line of the errors is the eval's own, with the author's traceback."""
    eval_id = start()
    finish(ctx, controller, [outcome(e, **FAILING) for e in lease(eval_id)])
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["metrics"]) == ("failed", {})
    assert report["errors"][0].startswith("the first 6 episodes all ended in an error")
    assert report["errors"][0].endswith("Traceback: mine")


def test_the_same_outcomes_give_the_same_bytes_whoever_played_them(ctx, client, controller, start, lease):
    """Layout, order, losses and attempts leave no trace in the episodes' columns or in the metrics."""
    calm, shaken = start(envs=1), start(envs=2, benchmark_instances=2)
    values = [0.1, 0.7, 0.3, 0.9, 0.2, 0.4]

    def result(episode):
        return outcome(episode, metrics={"score": values[episode.condition.index]})

    for episode in lease(calm, free=6):
        queue.take_results(ctx, "instance-1", [result(episode)])
    first = lease(shaken, "instance-2", free=4)
    queue.give_back(ctx, "instance-2", [(e.condition.index, e.attempt) for e in first[1:]], "lost")
    second = lease(shaken, "instance-3", free=6)
    random.Random(7).shuffle(second)
    for episode in [*second, first[0]]:
        queue.take_results(ctx, "instance-3", [result(episode)])
    controller.tick()
    assert table(client, calm) == table(client, shaken)
    reports = [client.get(f"/v1/eval/{eval_id}").json() for eval_id in (calm, shaken)]
    assert reports[0]["metrics"] == reports[1]["metrics"]
    happened = client.get(f"/v1/eval/{shaken}/details").json()["happened"]
    assert happened == ["episode(s) 1, 2, 3 went back to the queue: lost"]


def test_progress_while_it_runs(ctx, client, controller, start, lease):
    """Done, running, pending and the metrics so far."""
    eval_id = start()
    first, _second = lease(eval_id, free=2)
    queue.take_results(ctx, "instance-1", [outcome(first)])
    progress = client.get(f"/v1/eval/{eval_id}/details").json()["progress"]
    counted = {key: progress[key] for key in ("done", "total", "failed", "running", "pending", "not_run")}
    assert counted == {"done": 1, "total": 6, "failed": 0, "running": 1, "pending": 4, "not_run": 0}
    assert progress["arms"][0]["metrics"]["success"]["n"] == 1
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["incomplete"]) == ("running", True)


def test_a_canceled_eval_keeps_what_finished(ctx, client, controller, start, lease):
    """Its report has the finished episodes and says that it was stopped."""
    eval_id = start()
    first, _second = lease(eval_id, free=2)
    queue.take_results(ctx, "instance-1", [outcome(first)])
    client.post(f"/v1/eval/{eval_id}/cancel")
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["stop_reason"], report["metrics"]["success"]["n"]) == ("canceled", "canceled", 1)
    assert client.get(f"/v1/eval/{eval_id}/details").json()["progress"]["not_run"] == 5


def test_episodes_come_in_pages(ctx, client, controller, start, lease):
    """Every episode once, by index, however small the page."""
    eval_id = start()
    finish(ctx, controller, [outcome(e) for e in lease(eval_id)])
    seen, cursor = [], None
    while True:
        asked = {"limit": 4, **({"cursor": cursor} if cursor else {})}
        body = client.get(f"/v1/eval/{eval_id}/episodes", params=asked).json()
        seen += [row["index"] for row in body["episodes"]]
        cursor = body["next_cursor"]
        if cursor is None:
            break
    assert (seen, body["total"]) == (list(range(6)), 6)


def test_a_recording_is_fetched_by_the_link_in_the_report(ctx, client, controller, start, lease):
    """The bytes of the attempt that counted; an episode without one is not found."""
    eval_id = start()
    ctx.blobs.put(f"eval/{eval_id}/0/1/video.mp4", b"mp4")
    finish(ctx, controller, [outcome(e, recorded=e.condition.index in (0, 3)) for e in lease(eval_id)])
    there = client.get(f"/v1/eval/{eval_id}/videos/0.mp4")
    assert (there.content, there.headers["content-type"]) == (b"mp4", "video/mp4")
    assert client.get(f"/v1/eval/{eval_id}/videos/1.mp4").status_code == 404
    assert client.get(f"/v1/eval/{eval_id}/videos/3.mp4").status_code == 404
    assert client.get(f"/v1/eval/{eval_id}/videos/99.mp4").status_code == 404


@pytest.mark.parametrize("index", ["-1", "6", "9" * 23, "9" * 5000, "first"])
def test_an_index_beyond_the_evals_episodes_is_refused(client, start, index):
    """However long the number is, no store is asked for it."""
    answer = client.get(f"/v1/eval/{start()}/videos/{index}.mp4")
    assert answer.status_code == (404 if len(index) < 100 and index != "first" else 400)


def test_an_id_may_be_shortened_to_its_unique_start(client, start):
    """Eight digits or more that begin one id mean it; fewer, or another's, are not found."""
    eval_id = start()
    assert client.get(f"/v1/eval/{eval_id[:8]}").status_code == 200
    assert client.get(f"/v1/eval/{eval_id[:7]}").status_code == 404
    assert client.get("/v1/eval/ffffffff").status_code == 404


def test_a_start_that_begins_two_ids_is_refused(ctx, client, start):
    """Nobody guesses which was meant: both are named."""
    eval_id = start()
    twin = eval_id[:8] + "0" * 24
    with ctx.store.write() as session:
        row = evals.get(session, eval_id)
        columns = {column.name: getattr(row, column.name) for column in row.__table__.columns}
        session.add(type(row)(**{**columns, "id": twin}))
    refused = client.get(f"/v1/eval/{eval_id[:8]}").json()
    assert refused["code"] == "invalid_request"
    assert sorted(refused["details"]["evals"]) == sorted([eval_id, twin])


def test_a_deployments_evals_are_listed_newest_first(ctx, client, controller, start, lease):
    """Each with its primary metric and interval; one not yet scored has none."""
    older = start()
    finish(ctx, controller, [outcome(e) for e in lease(older)])
    newer = start()
    body = client.get("/v1/deployments/arm/evals").json()
    assert [row["eval_id"] for row in body["history"]] == [newer, older]
    assert (body["deployment"], body["schedules"], body["total"]) == ("arm", [], 2)
    scored = body["history"][1]
    assert (scored["metric"], scored["value"], scored["incomplete"]) == ("success", 1.0, False)
    assert body["history"][0]["metric"] is None


def test_an_eval_that_has_ended_is_read_once_for_the_list(ctx, client, controller, start, lease, monkeypatch):
    """Nothing of it can change, and a list of evals of many thousand episodes must come in a moment."""
    ended, running = start(), start()
    finish(ctx, controller, [outcome(e) for e in lease(ended)])
    first = client.get("/v1/deployments/arm/evals").json()["history"]
    read = []

    def counted(session, blobs, row, now, read_=table_module.read):
        read.append(row.id)
        return read_(session, blobs, row, now)

    monkeypatch.setattr(table_module, "read", counted)
    assert client.get("/v1/deployments/arm/evals").json()["history"] == first
    assert read == [running]


def test_a_history_on_a_benchmark_that_never_was_is_not_found(ctx, client, start):
    """The answer names the benchmarks there are; one that was removed is still known by its evals."""

    def history(name):
        return client.get("/v1/deployments/arm/evals", params={"benchmark": name})

    assert history("table").json()["history"] == []
    start()
    assert len(history("table").json()["history"]) == 1
    refused = history("nope").json()
    assert (refused["code"], "'nope'" in refused["detail"], refused["hint"]) == ("not_found", True, "yours: table")
    with ctx.store.write() as session:
        bench = benchmarks.find(session, account_of(ctx, first_key()), "table")
        benchmarks.remove(bench, [])
    assert len(history("table").json()["history"]) == 1


def test_an_eval_whose_benchmark_was_removed_says_so(ctx, start):
    """Removing a benchmark with force cancels what runs on it, and the report tells why."""
    eval_id = start()
    client = make_client(ctx, first_key(), routers=(*ROUTERS, "benchmarks"))
    assert client.delete("/v1/benchmarks/table", params={"force": True}).json()["evals_canceled"] == [eval_id]
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["stop_reason"]) == ("canceled", "canceled")
    assert "its benchmark 'table' was removed" in report["errors"][0]


def test_another_accounts_eval_is_not_found(client, other, start):
    """Every route answers another account's eval and deployment exactly as one that does not exist."""
    eval_id = start()
    routes = ["", "/details", "/episodes", "/videos/0.mp4"]
    calls = [("GET", f"/v1/eval/{{}}{route}") for route in routes] + [("POST", "/v1/eval/{}/cancel")]
    for method, path in calls:
        theirs = other.request(method, path.format(eval_id))
        missing = other.request(method, path.format("0" * 32))
        assert theirs.status_code == missing.status_code == 404
        assert theirs.json()["detail"].replace(eval_id, "0" * 32) == missing.json()["detail"]
    assert other.get("/v1/deployments/arm/evals").status_code == 404
    body = {"model": "arm", "benchmark": "table"}
    assert other.post("/v1/eval", json=body).json()["code"] == "not_found"


def test_reading_needs_a_key(ctx, start):
    """Without a key nothing of an eval is told."""
    eval_id = start()
    assert make_client(ctx, None, routers=ROUTERS).get(f"/v1/eval/{eval_id}").status_code == 401
    assert make_client(ctx, first_key(), routers=ROUTERS).get(f"/v1/eval/{eval_id}").status_code == 200


def test_a_group_without_an_interval_is_left_out(ctx, client, controller, start, lease):
    """A metric that never varies has a mean and no interval; no leaf of the details has a bound that is null."""
    eval_id = start()
    finish(ctx, controller, [outcome(e, metrics={"success": 1.0, "dist": 0.25}) for e in lease(eval_id)])
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    assert details["intervals"]["dist"] == {"per_task": {}, "per_suite": {}, "per_variant": {}}
    assert details["intervals"]["success"]["overall"]["low"] > 0
    assert list(details["progress"]["arms"][0]["metrics"]) == ["success"]
