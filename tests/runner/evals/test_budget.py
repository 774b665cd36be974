"""The most an eval may cost: episodes start only while one more minute of all its machines fits in it."""

from __future__ import annotations

import pytest

from runner.evals import queue
from runner.evals.budget import minute_usd
from runner.evals.costs import machine_usd, worker_usd
from runner.pricing import MIN_BILLABLE_S
from runner.store.queries import evals, instances, workers
from seq.contract.internal import LeaseRequest

from .conftest import POLICY, add_policy, open_instances, outcome

BODY = {"model": "arm", "benchmark": "table"}


@pytest.fixture
def start(ctx, client, controller):
    """Submit an eval that may cost as much as so many minutes of all its machines, which then run; its id."""

    def begin(minutes, **what):
        probe = client.post("/v1/eval", json={**BODY, **what}).json()["eval_id"]
        with ctx.store.read() as session:
            most = minutes * minute_usd(evals.get(session, probe))
        client.post(f"/v1/eval/{probe}/cancel")
        controller.tick()
        eval_id = client.post("/v1/eval", json={**BODY, **what, "max_usd": most}).json()["eval_id"]
        controller.tick()
        with ctx.store.write() as session:
            for worker in workers.of_eval(session, eval_id):
                worker.state, worker.token_hash = "starting", "of a token"
        return eval_id

    return begin


def lease(ctx, eval_id, free, arm=0):
    name = open_instances(ctx, eval_id)[arm].id
    return name, queue.lease(ctx, name, LeaseRequest(free=free))


def row(ctx, eval_id):
    with ctx.store.read() as session:
        return evals.get(session, eval_id)


def test_episodes_start_while_another_minute_fits(ctx, client, clock, controller, start):
    """What runs when the bound comes near still finishes and counts; nothing more starts, and the report says so."""
    eval_id = start(3)
    name, answer = lease(ctx, eval_id, 2)
    assert len(answer.episodes) == 2
    clock.sleep(119)
    assert len(lease(ctx, eval_id, 1)[1].episodes) == 1
    clock.sleep(2)
    late = lease(ctx, eval_id, 3)[1]
    assert (late.episodes, late.drained, late.stop) == ([], True, False)
    controller.tick()
    assert row(ctx, eval_id).status == "running"
    queue.take_results(ctx, name, [outcome(one) for one in answer.episodes])
    clock.sleep(5)
    queue.give_back(ctx, name, [(2, 1)], "its environment died")
    assert lease(ctx, eval_id, 3)[1].episodes == []
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["stop_reason"], report["incomplete"]) == ("completed", "budget", True)
    assert report["metrics"]["success"]["n"] == 2
    assert report["cost_usd"] < row(ctx, eval_id).request["max_usd"]
    assert client.get(f"/v1/eval/{eval_id}/details").json()["counts"]["not_run"] == 4


def test_an_eval_within_its_bound_is_not_told_apart(ctx, client, controller, start):
    """One that ends in time has no stop reason."""
    eval_id = start(3)
    name, answer = lease(ctx, eval_id, 6)
    queue.take_results(ctx, name, [outcome(one) for one in answer.episodes])
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], "stop_reason" in report, report["incomplete"]) == ("completed", False, False)


def test_a_bound_that_no_minute_fits_in_is_refused(client):
    """Machines would cost something and no episode would start; a dry run says so, too."""
    for body in (BODY, {**BODY, "dry_run": True}):
        refused = client.post("/v1/eval", json={**body, "max_usd": 1e-9})
        assert refused.status_code == 400
        assert "a minute of all its machines costs" in refused.json()["detail"]
        assert "no episode would start" in refused.json()["detail"]
    assert client.get("/v1/deployments/arm/evals").json()["history"] == []


def test_a_bound_that_is_reached_before_an_episode_is_a_failure(ctx, client, clock, controller, start):
    """Nothing was learned for the money, so nobody may take it for a result."""
    eval_id = start(1.5)
    clock.sleep(40)
    assert lease(ctx, eval_id, 6)[1].episodes == []
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["metrics"]) == ("failed", {})
    assert "what max_usd allows before one could start" in report["errors"][0]


def test_nothing_is_wanted_again_once_the_bound_is_reached(ctx, clock, controller, start):
    """An instance that is lost then is not replaced; what it held is not run."""
    eval_id = start(2)
    name, _ = lease(ctx, eval_id, 1)
    clock.sleep(61)
    lease(ctx, eval_id, 1)
    with ctx.store.write() as session:
        instances.close(instances.get(session, name), "lost", now=clock.now())
        queue.put_back(ctx, evals.get(session, eval_id), queue.rows.leased_by(session, eval_id, name), "it was lost")
    controller.tick()
    assert open_instances(ctx, eval_id) == []
    assert row(ctx, eval_id).status == "failed"


def test_every_arms_machines_count(ctx, client, clock, controller, account, start):
    """A minute of two arms costs twice; each arm tells that the bound stopped it."""
    add_policy(ctx, account, {**POLICY, "name": "leg"})
    eval_id = start(2, compare=["leg"])
    one = start(2)
    assert minute_usd(row(ctx, eval_id)) == pytest.approx(2 * minute_usd(row(ctx, one)))
    name, answer = lease(ctx, eval_id, 6)
    queue.take_results(ctx, name, [outcome(e) for e in answer.episodes])
    clock.sleep(61)
    assert lease(ctx, eval_id, 6, arm=1)[1].episodes == []
    controller.tick()
    arms = client.get(f"/v1/eval/{eval_id}").json()["arms"]
    assert [(a["episodes"], a["not_run"], a["budget_stopped"]) for a in arms] == [(6, 0, False), (0, 6, True)]


def test_the_cost_is_that_of_real_machine_seconds(ctx, client, clock, controller, start):
    """Each machine from its start to its end, by the price list; one that never started costs nothing."""
    eval_id = start(100)
    clock.sleep(50)
    with ctx.store.write() as session:
        (worker,) = workers.of_eval(session, eval_id)
        workers.fail(worker, reason="crashed", error="gone", traceback=None, now=clock.now())
    controller.tick()
    clock.sleep(100)
    spent = worker_usd("cpu", 0.125, 0.125, 50) + machine_usd("cpu", 2.0, 4.0, 150)
    assert client.get(f"/v1/eval/{eval_id}").json()["cost_usd"] == pytest.approx(spent)
    client.post(f"/v1/eval/{eval_id}/cancel")
    controller.tick()
    clock.sleep(1000)
    assert client.get(f"/v1/eval/{eval_id}").json()["cost_usd"] == pytest.approx(spent)


def test_a_short_lived_worker_is_billed_its_least(ctx, client, clock, start):
    """The shortest time that is billed, as the price list has it."""
    eval_id = start(100)
    clock.sleep(1)
    least = worker_usd("cpu", 0.125, 0.125, MIN_BILLABLE_S) + machine_usd("cpu", 2.0, 4.0, 1)
    assert client.get(f"/v1/eval/{eval_id}").json()["cost_usd"] == pytest.approx(least)
