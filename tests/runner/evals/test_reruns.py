"""Evals of what an earlier one left: errors and unplayed episodes completed in one report, failures tried anew."""

from __future__ import annotations

import pytest

from runner.store.queries import evals

from .conftest import BENCHMARK, POLICY, add_benchmark, add_policy, failing, open_instances, outcome, play, run

BODY = {"model": "arm", "benchmark": "table"}


@pytest.fixture
def start(client):
    """Queue an eval; its id."""

    def begin(**what):
        return client.post("/v1/eval", json={**BODY, **what}).json()["eval_id"]

    return begin


def by_index(values, **errors):
    """An outcome with its start's value, or an error where that is None."""

    def result(leased):
        value = values[leased.condition.index]
        return outcome(leased, **failing()) if value is None else outcome(leased, metrics={"success": float(value)})

    return result


def report(client, eval_id):
    return client.get(f"/v1/eval/{eval_id}").json()


def details(client, eval_id):
    return client.get(f"/v1/eval/{eval_id}/details").json()


def played(ctx, eval_id):
    """Indices that an eval handed out itself."""
    with ctx.store.read() as session:
        return [first + n for arm in evals.arms(session, eval_id) for first, size in arm.todo for n in range(size)]


def test_a_rerun_plays_all_that_failed_though_it_fails_again(ctx, client, controller, start):
    """It is known that they fail: that the first of them do is no reason to give the others up."""
    first = start()
    run(ctx, controller, first, by_index([1, None, None, None, None, None]))
    second = start(rerun_of=first)
    run(ctx, controller, second, by_index({1: None, 2: None, 3: None, 4: None, 5: 1}))
    assert played(ctx, second) == [1, 2, 3, 4, 5]
    assert (report(client, second)["status"], report(client, second)["metrics"]["success"]["n"]) == ("completed", 2)


def test_a_rerun_plays_errors_alone_and_its_report_covers_both(ctx, client, controller, start):
    """What was scored stays as it was, failures too: only an error may be tried again."""
    first = start()
    run(ctx, controller, first, by_index([1, None, 0, 1, None, 0]))
    second = start(rerun_of=first)
    run(ctx, controller, second, by_index({1: 0, 4: 1}))
    assert played(ctx, second) == [1, 4]
    body, told = report(client, second), details(client, second)
    assert (body["status"], body["incomplete"], body["errors"]) == ("completed", False, [])
    assert (body["metrics"]["success"]["n"], body["metrics"]["success"]["overall"]) == (6, 0.5)
    assert [row["metrics"]["success"] for row in told["episodes"]] == [1, 0, 0, 1, 1, 0]
    assert told["manifest"]["rerun_of"] == first
    assert told["manifest"]["episodes"] == 6
    assert (told["progress"]["done"], told["progress"]["total"]) == (6, 6)
    assert told["manifest"]["earlier_cost_usd"] == pytest.approx(report(client, first)["cost_usd"])
    assert report(client, first)["incomplete"] is True


def test_errors_that_end_in_errors_again_leave_the_report_as_good_as_it_was(ctx, client, controller, start):
    """A rerun has not failed because what it was made for failed again: it is complete but for those."""
    first = start()
    run(ctx, controller, first, by_index([1, 1, 1, 1, 1, None]))
    second = start(rerun_of=first)
    run(ctx, controller, second, by_index({5: None}))
    body = report(client, second)
    assert (body["status"], body["incomplete"], body["metrics"]["success"]["n"]) == ("completed", True, 5)
    assert body["errors"] == ["ValueError: bad row (1 of 6 episodes)\nTraceback: ValueError: bad row"]


def test_reruns_may_follow_each_other(ctx, client, controller, start):
    """Each plays what none before it has scored; the last one's report covers all of them, and so does its cost."""
    first = start()
    run(ctx, controller, first, by_index([1, None, None, None, 0, 1]))
    second = start(rerun_of=first)
    run(ctx, controller, second, by_index({1: 1, 2: None, 3: None}))
    third = start(rerun_of=second)
    run(ctx, controller, third, by_index({2: 0, 3: None}))
    fourth = start(rerun_of=third)
    run(ctx, controller, fourth, by_index({3: 1}))
    assert [played(ctx, one) for one in (second, third, fourth)] == [[1, 2, 3], [2, 3], [3]]
    body = report(client, fourth)
    assert (body["incomplete"], body["metrics"]["success"]["n"]) == (False, 6)
    rows = details(client, fourth)["episodes"]
    assert [row["metrics"]["success"] for row in rows] == [1, 1, 0, 1, 0, 1]
    before = sum(report(client, one)["cost_usd"] for one in (first, second, third))
    assert details(client, fourth)["manifest"]["earlier_cost_usd"] == pytest.approx(before)
    refused = client.post("/v1/eval", json={**BODY, "rerun_of": fourth}).json()
    assert (refused["code"], "nothing to run again" in refused["detail"]) == ("conflict", True)


def test_episodes_that_never_ran_are_played_too(ctx, client, controller, start):
    """After a cancel, a rerun takes up what was under way and what was still to come."""
    first = start()
    controller.tick()
    play(ctx, first, lambda e: outcome(e) if e.condition.index != 1 else None, most=3)
    client.post(f"/v1/eval/{first}/cancel")
    controller.tick()
    second = start(rerun_of=first)
    assert played(ctx, second) == [1, 3, 4, 5]
    progress = details(client, second)["progress"]
    assert (progress["done"], progress["pending"], progress["total"]) == (2, 4, 6)
    run(ctx, controller, second)
    assert (report(client, second)["incomplete"], report(client, second)["metrics"]["success"]["n"]) == (False, 6)


def test_of_a_rerun_that_was_canceled_nothing_is_lost(ctx, client, controller, start):
    """What it did not play is not run, what it did counts, and the next rerun goes on from there."""
    first = start()
    run(ctx, controller, first, by_index([1, None, None, 1, 1, 1]))
    second = start(rerun_of=first)
    controller.tick()
    play(ctx, second, most=1)
    client.post(f"/v1/eval/{second}/cancel")
    body = report(client, second)
    assert (body["status"], body["incomplete"], body["metrics"]["success"]["n"]) == ("canceled", True, 5)
    assert details(client, second)["counts"]["not_run"] == 1
    controller.tick()
    third = start(rerun_of=second)
    run(ctx, controller, third)
    assert played(ctx, third) == [2]
    assert report(client, third)["metrics"]["success"]["n"] == 6


def test_a_rerun_pins_what_the_earlier_eval_ran(ctx, client, controller, account, start):
    """New versions of policy and benchmark do not slip into a report that is half the old ones'."""
    first = start()
    run(ctx, controller, first, by_index([1, None, 1, 1, 1, 1]))
    add_policy(ctx, account, POLICY)
    add_benchmark(ctx, account, {**BENCHMARK, "conditions": {"tasks": ["reach"], "seeds": [9]}})
    second = start(rerun_of=first)
    manifest = details(client, second)["manifest"]
    assert (manifest["model_version"], manifest["benchmark_version"], manifest["seeds"]) == (1, 1, [0, 1, 2])
    assert details(client, second)["differs"] == []


def test_arms_are_rerun_where_they_lack_something(ctx, client, controller, account):
    """Each arm plays its own missing starts; one that lacks none has no instance and is still compared."""
    add_policy(ctx, account, {**POLICY, "name": "leg"})
    first = client.post("/v1/eval", json={**BODY, "compare": ["leg"]}).json()["eval_id"]
    run(ctx, controller, first, by_index([1, 0, 1, 0, 1, 0, *[1] * 5, None]))
    second = client.post("/v1/eval", json={**BODY, "rerun_of": first}).json()
    assert second["arms"] == ["arm", "leg"]
    controller.tick()
    assert [row.arm for row in open_instances(ctx, second["eval_id"])] == [1]
    run(ctx, controller, second["eval_id"])
    body = report(client, second["eval_id"])
    assert (body["incomplete"], body["paired"][0]["n"]) == (False, 6)
    assert body["paired"][0]["mean_diff"] == 0.5
    assert [one["metrics"]["success"] for one in body["arms"]] == [0.5, 1.0]


def test_a_recording_is_fetched_from_the_eval_that_made_it(ctx, client, controller, start):
    """Files and rows of what was taken over are the earlier eval's, under the new eval's address."""
    first = start()
    ctx.blobs.put(f"eval/{first}/0/1/video.mp4", b"old")
    values = by_index([1, 1, 1, None, 1, 1])
    run(ctx, controller, first, lambda e: values(e).model_copy(update={"recorded": e.condition.index == 0}))
    second = start(rerun_of=first)
    ctx.blobs.put(f"eval/{second}/3/1/video.mp4", b"new")
    run(ctx, controller, second, lambda e: outcome(e, recorded=True))
    links = [link.rpartition("/v1/")[2] for link in report(client, second)["videos"]]
    assert links == [f"eval/{second}/videos/0.mp4", f"eval/{second}/videos/3.mp4"]
    assert [client.get(f"/v1/{link}").content for link in links] == [b"old", b"new"]


def test_unsuccessful_starts_are_an_eval_of_their_own(ctx, client, controller, account, start):
    """By the metric asked for; with today's policy, in a report that has nothing of the earlier one's."""
    first = start()
    run(ctx, controller, first, by_index([1, 0, 0, None, 1, 0]))
    add_policy(ctx, account, POLICY)
    second = start(rerun_unsuccessful_of=first)
    run(ctx, controller, second)
    body, told = report(client, second), details(client, second)
    assert [(row["task"], row["seed"]) for row in told["episodes"]] == [("reach", 1), ("reach", 2), ("push", 2)]
    assert (body["metrics"]["success"]["n"], body["metrics"]["success"]["overall"]) == (3, 1.0)
    assert (told["manifest"]["rerun_unsuccessful_of"], told["manifest"]["metric"]) == (first, "success")
    assert told["manifest"]["model_version"] == 2
    assert "rerun_of" not in told["manifest"]


def test_what_is_unsuccessful_is_said_by_any_metric(ctx, client, controller, start):
    """Zero by the metric named; a metric that is not there is answered with those that are."""
    first = start()
    run(ctx, controller, first, lambda e: outcome(e, metrics={"grasped": float(e.condition.index > 3)}))
    refused = client.post("/v1/eval", json={**BODY, "rerun_unsuccessful_of": first}).json()
    assert (refused["code"], refused["hint"]) == ("invalid_request", "it has: grasped; name one with --metric")
    second = start(rerun_unsuccessful_of=first, metric="grasped")
    assert details(client, second)["manifest"]["episodes"] == 4


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ({"rerun_unsuccessful_of": True}, "invalid_request", "not both"),
        ({"metric": "success"}, "invalid_request", "asks no metric"),
        ({"compare": ["arm"]}, "invalid_request", "leave out compare"),
        ({"sweep": {"eval.steps_per_query": [1, 2]}}, "invalid_request", "leave out sweep"),
        ({"tasks": ["reach"], "trials": 1}, "invalid_request", "leave out tasks, trials"),
        ({"adapter": "bridge"}, "invalid_request", "leave out adapter"),
        ({"params": {"eval.steps_per_query": 1}}, "invalid_request", "leave out params"),
        ({"model": "leg"}, "invalid_request", "ran arm on table"),
    ],
)
def test_a_rerun_takes_over_and_is_told_nothing_else(ctx, client, controller, start, what, code, said):
    """What would make it another eval is refused by name."""
    first = start()
    run(ctx, controller, first, by_index([1, None, 1, 1, 1, 1]))
    asked = {name: first if value is True else value for name, value in what.items()}
    refused = client.post("/v1/eval", json={**BODY, "rerun_of": first, **asked}).json()
    assert (refused["code"], said in refused["detail"]) == (code, True)


def test_an_eval_that_still_runs_is_not_rerun(client, other, start):
    """Its own queue has what is left; another account's is not there."""
    first = start()
    refused = client.post("/v1/eval", json={**BODY, "rerun_of": first}).json()
    assert (refused["code"], "still pending" in refused["detail"]) == ("conflict", True)
    assert other.post("/v1/eval", json={**BODY, "rerun_of": first}).json()["code"] == "not_found"


def test_a_layout_may_differ_in_a_rerun(ctx, client, controller, start):
    """Instances, environments, recording and the bound are asked for anew."""
    first = start(record="none", envs=1)
    run(ctx, controller, first, by_index([1, None, 1, 1, None, 1]))
    second = start(rerun_of=first, envs=5, record="all", benchmark_instances=2)
    controller.tick()
    assert len(open_instances(ctx, second)) == 2
    recorded = []
    play(ctx, second, lambda e: recorded.append(e.condition.record))
    assert recorded == [True, True]
    assert details(client, second)["manifest"]["layout"]["envs"] == 1
