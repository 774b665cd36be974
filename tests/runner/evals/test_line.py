"""Evals that ask for cards: whole or not at all, in line while they are taken, refused where they never fit."""

from __future__ import annotations

import pytest

from runner.cluster.base import ClusterLostError
from runner.evals.line import TIMEOUT_S, Stock, choices
from runner.store.queries import deployments, evals, workers
from runner.testing import account_of, first_key, make_client

from .conftest import BENCHMARK, POLICY, ROUTERS, add_benchmark, add_policy, add_sides, open_instances, run

L4 = {**POLICY, "name": "card", "resources": {"gpu": ["L4"]}}
EITHER = {**POLICY, "name": "either", "resources": {"gpu": ["H100", "L4"]}}
BODY = {"model": "card", "benchmark": "table"}
cards = pytest.mark.parametrize("cluster", [{"L4": 2}], indirect=True)
both_kinds = pytest.mark.parametrize("cluster", [{"L4": 2, "H100": 1}], indirect=True)
many = pytest.mark.parametrize("cluster", [{"L4": 40}], indirect=True)


@pytest.fixture
def sides(ctx, account):
    """A policy on an L4, and one that prefers an H100."""
    add_policy(ctx, account, L4)
    add_policy(ctx, account, EITHER)


@pytest.fixture
def start(client, sides):
    """Submit an eval of `card`; the answer."""

    def begin(as_=None, **what):
        answer = (as_ or client).post("/v1/eval", json={**BODY, **what})
        assert answer.status_code == 200, answer.json()
        return answer.json()

    return begin


def row(ctx, eval_id):
    with ctx.store.read() as session:
        return evals.get(session, eval_id)


def workers_of(ctx, eval_id):
    with ctx.store.read() as session:
        return [(worker.card, worker.state) for worker in workers.of_eval(session, eval_id)]


@cards
def test_an_eval_whose_cards_are_free_holds_them_from_its_submission(ctx, client, start):
    """It is no longer in line, and what it will start counts at once, before any machine runs."""
    answer = start(policy_instances=2)
    assert "queue" not in answer
    assert answer["gpus_granted"] == 2
    assert (row(ctx, answer["eval_id"]).status, row(ctx, answer["eval_id"]).cards) == ("pending", {"L4": 2})
    gpus = client.get("/v1/account").json()["gpus"]
    assert gpus["in_use"] == {"serving": 0, "eval": 2, "total": 2}
    assert (gpus["available"], gpus["waiting_evals"]) == (6, [])


@cards
def test_an_eval_without_its_cards_waits_whole(ctx, client, clock, cluster, controller, start):
    """Nothing of it starts, is held or is billed; the answer and the details tell its wait."""
    start()
    waiting = start(policy_instances=2)
    assert waiting["status"] == "queued"
    assert waiting["queue"] == {"cards": 2, "available": 1, "waited_s": 0.0, "gives_up_at": "1970-01-12T13:56:40.000Z"}
    clock.sleep(40)
    for _ in range(2):
        controller.tick()
    eval_id = waiting["eval_id"]
    assert (workers_of(ctx, eval_id), open_instances(ctx, eval_id)) == ([], [])
    assert client.get(f"/v1/eval/{eval_id}").json()["cost_usd"] == 0
    told = client.get(f"/v1/eval/{eval_id}/details").json()["queue"]
    assert (told["cards"], told["available"], told["waited_s"]) == (2, 1, 40.0)
    gpus = client.get("/v1/account").json()["gpus"]
    assert gpus["in_use"]["eval"] == 1
    assert gpus["waiting_evals"] == [
        {"eval_id": eval_id, "cards": 2, "waited_s": 40.0, "gives_up_at": "1970-01-12T13:56:40.000Z"}
    ]


@cards
def test_it_begins_once_its_cards_are_free(ctx, client, clock, controller, start):
    """The wait is no part of its time, and its report says nothing of it afterwards."""
    first, second = start(policy_instances=2)["eval_id"], start()["eval_id"]
    clock.sleep(100)
    controller.tick()
    assert row(ctx, second).status == "queued"
    client.post(f"/v1/eval/{first}/cancel")
    controller.tick()
    controller.tick()
    assert (row(ctx, second).status, row(ctx, second).begun_at, row(ctx, second).cards) == (
        "pending",
        clock.now(),
        {"L4": 1},
    )
    assert workers_of(ctx, second) == [("L4", "wanted")]
    run(ctx, controller, second)
    details = client.get(f"/v1/eval/{second}/details").json()
    assert (details["actual"]["wall_clock_s"], "queue" in details) == (10.0, False)


@cards
def test_cards_of_workers_that_are_still_being_ended_are_not_free(ctx, client, controller, start):
    """An eval that has ended gives its cards back when its workers are gone, not before."""
    first = start(policy_instances=2)["eval_id"]
    controller.tick()
    with ctx.store.write() as session:
        for worker in workers.of_eval(session, first):
            worker.state = "ready"
    client.post(f"/v1/eval/{first}/cancel")
    controller.tick()
    second = start()["eval_id"]
    controller.tick()
    assert row(ctx, second).status == "queued"
    with ctx.store.write() as session:
        for worker in workers.of_eval(session, first):
            worker.state = "stopped"
    controller.tick()
    assert row(ctx, second).status == "pending"


@cards
def test_an_account_keeps_its_order(ctx, client, controller, start, clock):
    """A small eval does not overtake a large one of its own account; one without cards does not wait at all."""
    first = start()["eval_id"]
    large = start(policy_instances=2)["eval_id"]
    clock.sleep(1)
    small = start()
    assert small["status"] == "queued"
    assert "status" not in start(model="arm")
    controller.tick()
    assert [row(ctx, one).status for one in (large, small["eval_id"])] == ["queued", "queued"]
    client.post(f"/v1/eval/{first}/cancel")
    controller.tick()
    controller.tick()
    assert [row(ctx, one).status for one in (large, small["eval_id"])] == ["pending", "queued"]


@cards
def test_another_accounts_eval_takes_what_is_free(ctx, other, controller, start):
    """A line is an account's own."""
    theirs = account_of(ctx, other.headers["Authorization"].removeprefix("Bearer "))
    add_sides(ctx, theirs, L4, BENCHMARK)
    start()
    start(policy_instances=2)
    assert "status" not in start(as_=other)


@cards
def test_a_wait_ends_after_ten_minutes(ctx, client, clock, controller, start):
    """Canceled with its reason; nothing ran, nothing is owed."""
    start(policy_instances=2)
    eval_id = start()["eval_id"]
    clock.sleep(TIMEOUT_S - 1)
    controller.tick()
    assert row(ctx, eval_id).status == "queued"
    clock.sleep(1)
    controller.tick()
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["stop_reason"], report["cost_usd"]) == ("canceled", "queue_timeout", 0)
    assert report["errors"] == ["its 1 card(s) did not become free within 600 s; nothing was run"]


@cards
def test_a_canceled_eval_leaves_the_line(ctx, client, controller, start):
    """And the next one takes its turn."""
    first = start(policy_instances=2)["eval_id"]
    second, third = start()["eval_id"], start()["eval_id"]
    client.post(f"/v1/eval/{second}/cancel")
    client.post(f"/v1/eval/{first}/cancel")
    controller.tick()
    assert [row(ctx, one).status for one in (second, third)] == ["canceled", "pending"]
    assert client.get("/v1/account").json()["gpus"]["waiting_evals"] == []


@both_kinds
def test_after_a_minute_the_next_card_of_the_list_will_do(ctx, client, clock, controller, start):
    """An H100 that stays taken is waited for one minute, then an L4 is taken, held, wanted and told."""
    start(model="either")
    second = start(model="either")["eval_id"]
    clock.sleep(59)
    controller.tick()
    assert row(ctx, second).status == "queued"
    clock.sleep(1)
    controller.tick()
    assert (row(ctx, second).status, row(ctx, second).cards) == ("pending", {"L4": 1})
    assert workers_of(ctx, second) == [("L4", "wanted")]
    manifest = client.get(f"/v1/eval/{second}/details").json()["manifest"]
    assert manifest["layout"]["policies"][0]["machines"]["card"] == "L4"


@many
def test_more_than_the_account_may_hold_is_refused(ctx, client, sides):
    """It would wait for ever: a dry run and a real one say so, with the numbers."""
    for asked in ({}, {"dry_run": True}):
        refused = client.post("/v1/eval", json={**BODY, "policy_instances": 9, **asked})
        told = refused.json()
        assert (refused.status_code, told["code"]) == (409, "conflict")
        assert "needs 9 cards at once and the account may hold 8" in told["detail"]
        assert {name: told["details"][name] for name in ("reason", "limit", "requested", "short")} == {
            "reason": "gpu_limit_reached",
            "limit": 8,
            "requested": 9,
            "short": 1,
        }


@many
def test_every_arm_and_both_sides_count(ctx, client, account, sides):
    """Two policies and a benchmark on cards, once for each arm."""
    add_benchmark(ctx, account, {**BENCHMARK, "name": "drawn", "gpu": "L4", "cpu": None})
    body = {"model": "card", "benchmark": "drawn", "compare": ["either"], "policy_gpu": "L4", "dry_run": True}
    told = client.post("/v1/eval", json={**body, "benchmark_instances": 2, "policy_instances": 2}).json()["cards"]
    assert told["policy"] == {"instances": 4, "gpu": "L4", "cards_each": 1}
    assert told["benchmark"] == {"instances": 4, "gpu": "L4", "cards_each": 1}
    assert (told["total"], told["short"], told["would_queue"]) == (8, 0, False)


@pytest.mark.parametrize(
    ("cluster", "serving", "reason"),
    [
        ({"L4": 2}, "L4:2", "gpu_busy"),
        ({"L4": 2, "H100": 1}, "L4:2", "gpu_low_stock"),
        ({"L4": 40}, "L4:8", "gpu_limit_reached"),
    ],
    indirect=["cluster"],
)
def test_a_dry_run_says_why_it_would_wait(ctx, client, sides, account, serving, reason):
    """Every card is busy, this kind is, or the account's limit is reached; and for how long it would wait."""
    with ctx.store.write() as session:
        version = deployments.serving(session, account, "card")[1]
        named = {"worker_id": "worker-1", "version_id": version.id, "purpose": "serve", "card": serving}
        workers.want(session, eval_id=None, now=0.0, **named)
    told = client.post("/v1/eval", json={**BODY, "dry_run": True}).json()["cards"]
    assert (told["reason"], told["would_queue"], told["short"], told["queue_timeout_s"]) == (reason, True, 1, 600)
    assert told["in_use"] == {"serving": int(serving[-1]), "eval": 0}


@cards
def test_while_the_cluster_is_gone_nobody_knows_what_is_free(ctx, client, cluster, start, monkeypatch):
    """The details still come, and the count that could not be read is none, not 0."""
    start(policy_instances=2)
    eval_id = start()["eval_id"]

    def lost():
        raise ClusterLostError("no answer")

    monkeypatch.setattr(cluster, "capacity", lost)
    told = client.get(f"/v1/eval/{eval_id}/details").json()["queue"]
    assert (told["cards"], told["available"]) == (1, None)


@cards
def test_a_robot_does_not_get_the_cards_that_an_eval_holds(ctx, controller, start):
    """From the eval's submission on, before its workers are wanted; afterwards it does."""
    client = make_client(ctx, first_key(), routers=(*ROUTERS, "act"))

    def connect():
        return client.post("/v1/act/connect", json={"model": "card", "session": "s" * 32, "moves": True}).json()

    eval_id = start(policy_instances=2)["eval_id"]
    assert (connect()["code"], connect()["details"]["reason"]) == ("unavailable", "gpu_busy")
    controller.tick()
    assert connect()["details"]["reason"] == "gpu_busy"
    client.post(f"/v1/eval/{eval_id}/cancel")
    controller.tick()
    assert connect()["code"] == "warming"


def test_what_an_eval_may_be_laid_out_on_grows_with_its_wait():
    """Every policy moves on to the next card of its own list each minute, and stays with its last."""
    policies = [
        {"cards": ["H100", "L4"], "machines": {"instances": 2}},
        {"cards": ["L4:2"], "machines": {"instances": 1}},
        {"cards": ["H100"], "machines": {"instances": 0}},
    ]
    found = choices(policies, {"L4": 3}, 0.0)
    assert [(one.cards, one.held) for one in found] == [(("H100", "L4:2", "H100"), {"L4": 5, "H100": 2})]
    assert choices(policies, {}, 59.9) == choices(policies, {}, 0.0)
    assert [one.held for one in choices(policies, {"L4": 3}, 60.0)] == [{"L4": 5, "H100": 2}, {"L4": 7}]
    assert len(choices(policies, {}, 6000.0)) == 2


def test_a_stock_lacks_the_limit_first_then_the_kind():
    """What an account may hold is asked before what is there."""
    stock = Stock({"L4": 4, "H100": 1}, {"L4": 3}, limit=4, serving=1, evals=1)
    assert (stock.available, stock.free(["L4"]), stock.free(["L4", "H100"])) == (2, 1, 2)
    assert stock.lacks({"L4": 1, "H100": 1}) is None
    assert stock.lacks({"L4": 2}) == "gpu_low_stock"
    assert stock.lacks({"L4": 3}) == "gpu_limit_reached"
    assert stock.lacks({}) is None
