"""Robots and slots through the door: who gets one, who waits where and why, and what happens when workers change."""

from __future__ import annotations

import pytest

from runner.cluster.fake import FakeCluster
from runner.fleet.reconcile import STUCK_AFTER
from runner.store.tables import Version
from runner.testing import add_account, first_key, make_client, make_context
from tests.runner.fleet.conftest import ROUTERS, Fleet

ONE = {"autoscaler": {"max_gpus": 1}}


def details(answer):
    return answer.json()["details"]


def test_two_robots_and_one_slot(fleet):
    """The second waits in line, told its place, since when, and why; the slot is its own once the first one leaves."""
    fleet.make_ready(**ONE)
    fleet.serve(session="a")
    assert "worker_url" in fleet.connect(session="a").json()
    answer = fleet.connect(session="b")
    assert (answer.status_code, answer.json()["code"], answer.json()["retry_after_s"]) == (503, "unavailable", 2)
    told = details(answer)
    assert (told["queue_position"], told["queued_s"], told["queue_timeout_s"]) == (1, 0, 120)
    assert (told["reason"], told["max_gpus"]) == ("deployment_full", 1)
    assert "eta_s" not in told
    fleet.release("a")
    assert "worker_url" in fleet.connect(session="b").json()
    assert details(fleet.connect(session="c"))["queue_position"] == 1


def test_the_line_knows_how_long_robots_drive(fleet):
    """Once a robot has driven for 40 s, the next in line is told about 40 s a place."""
    fleet.make_ready(**ONE)
    fleet.serve(session="a")
    fleet.connect(session="a")
    fleet.ctx.clock.sleep(40)
    fleet.release("a")
    fleet.connect(session="b")
    assert [details(fleet.connect(session=name))["eta_s"] for name in ("c", "d")] == [40, 80]


def test_a_robot_that_is_kept_waiting_for_its_answer_keeps_its_place(fleet):
    """Its question came in time: that the gateway is slow is not its silence. One that does not ask is given up."""
    fleet.make_ready(**ONE)
    fleet.serve(session="a")
    for name in ("a", "b", "c"):
        fleet.connect(session=name)
    with fleet.ctx.bell.asking("b"):
        fleet.ctx.clock.sleep(20)
        assert [place["session"] for place in fleet.block()["queue"]] == ["b"]
        assert details(fleet.connect(session="d"))["queue_position"] == 2
    fleet.ctx.clock.sleep(20)
    assert fleet.block()["queue"] == []


def test_the_fleet_block_shows_the_line(fleet):
    """Places in the order of arrival with their waiting times; a robot that gives up leaves it."""
    fleet.make_ready(**ONE)
    fleet.serve(session="a")
    fleet.connect(session="a")
    for name in ("b", "c"):
        fleet.connect(session=name)
        fleet.ctx.clock.sleep(1)
    assert fleet.block()["queue"] == [
        {"position": 1, "session": "b", "queued_s": 2.0},
        {"position": 2, "session": "c", "queued_s": 1.0},
    ]
    fleet.release("b")
    assert [place["session"] for place in fleet.block()["queue"]] == ["c"]


def test_waiting_in_line_ends_with_its_time(fleet):
    """After queue_timeout_s the answer has no place any more, says for how long it was waited, and is no `warming`."""
    fleet.make_ready(autoscaler={"max_gpus": 1, "queue_timeout_s": 5})
    fleet.serve(session="a")
    fleet.connect(session="a")
    for _ in range(3):
        assert details(fleet.connect(session="b"))["queue_position"] == 1
        fleet.ctx.clock.sleep(2)
    told = details(fleet.connect(session="b"))
    assert (told["reason"], told["waited_s"], "queue_position" in told) == ("queue_timeout", 6, False)


def test_nobody_waits_where_the_deployment_rejects(fleet):
    """on_full="reject" answers at once, with the reason and without a place."""
    fleet.make_ready(autoscaler={"max_gpus": 1, "on_full": "reject"})
    fleet.serve(session="a")
    fleet.connect(session="a")
    answer = fleet.connect(session="b")
    assert (answer.status_code, details(answer)["reason"]) == (503, "deployment_full")
    assert "queue_position" not in details(answer)
    assert fleet.block()["queue"] == []


def test_a_silent_robot_loses_its_place_and_its_slot(fleet):
    """A place is kept for a few polls, a slot for its lease: the loop gives both up without anybody asking."""
    fleet.make_ready(**ONE)
    fleet.serve(session="a")
    fleet.connect(session="a")
    fleet.connect(session="b")
    fleet.ctx.clock.sleep(10)
    fleet.tick()
    assert fleet.block()["queue"] == []
    fleet.ctx.clock.sleep(fleet.ctx.settings.lease_s)
    fleet.tick()
    assert fleet.block()["robots"] == 0


def test_a_start_is_foretold_from_the_last_one(fleet):
    """The first start is of unknown length; later ones are told by how long it took, less what has passed."""
    fleet.make_ready(autoscaler={"scaledown_window": 60})
    fleet.ctx.clock.sleep(1)
    with fleet.ctx.store.write() as session:
        session.query(Version).one().load_s = None
    first = fleet.connect(session="a").json()
    assert (first["retry_after_s"], "eta_s" in first["details"]) == (1, False)
    fleet.ctx.clock.sleep(12)
    fleet.started_up()
    fleet.release("a")
    fleet.ctx.clock.sleep(70)
    fleet.tick(3)
    again = fleet.connect(session="a").json()
    assert (again["code"], again["retry_after_s"], again["details"]["eta_s"]) == ("warming", 12, 12)
    fleet.ctx.clock.sleep(5)
    assert fleet.connect(session="a").json()["retry_after_s"] == 7


def test_workers_grow_with_the_robots_up_to_the_limit(fleet):
    """Two slots a worker, at most three workers: nine robots start three, and the rest stand in line."""
    fleet.make_ready(concurrency={"replicas_per_gpu": 2}, autoscaler={"max_gpus": 3})
    launched = len(fleet.cluster.launched)
    codes = [fleet.connect(session=f"s{number}").json()["code"] for number in range(9)]
    assert codes == ["warming"] * 6 + ["unavailable"] * 3
    fleet.tick(3)
    started = [command.name for command in fleet.cluster.launched[launched:]]
    assert len(started) == 3
    for name in started:
        fleet.report(name, "ready", url=f"https://127.0.0.1:1/{name}")
    urls = [fleet.connect(session=f"s{number}").json()["worker_url"] for number in range(6)]
    assert sorted(urls.count(url) for url in set(urls)) == [2, 2, 2]
    assert details(fleet.connect(session="s6"))["queue_position"] == 1


def test_a_spare_worker_is_kept_while_robots_are_connected(fleet):
    """buffer_workers=1: one more than the robots need, and none when nobody is there."""
    fleet.make_ready(autoscaler={"buffer_containers": 1, "max_gpus": 4, "scaledown_window": 60})
    launched = len(fleet.cluster.launched)
    fleet.connect(session="a")
    fleet.tick(2)
    assert len(fleet.cluster.launched) == launched + 2


def test_a_worker_that_dies_is_replaced_before_its_robots_ask(fleet):
    """Its robots hold leases, so the loop starts another at once, and they keep their turn before newer ones."""
    fleet.make_ready(**ONE)
    name = fleet.serve(session="a")
    fleet.connect(session="a")
    fleet.ctx.clock.sleep(1)
    fleet.connect(session="b")
    fleet.report(name, "exited", error="killed by signal 9")
    launched = len(fleet.cluster.launched)
    fleet.tick(2)
    assert len(fleet.cluster.launched) == launched + 1
    assert fleet.connect(session="a").json()["code"] == "warming"
    fleet.report(fleet.started()[0], "ready", url="https://127.0.0.1:1/new")
    assert details(fleet.connect(session="b"))["queue_position"] == 2
    assert fleet.connect(session="a").json()["worker_url"].endswith("/new")


def test_a_worker_that_answers_nothing_is_ended_and_replaced(fleet, door):
    """Frozen, not dead: after a few pings without an answer it is killed, and why is told."""
    fleet.make_ready(**ONE)
    name = fleet.serve(session="a")
    fleet.connect(session="a")
    door.silent.add(f"https://127.0.0.1:1/{name}")
    fleet.ctx.clock.sleep(5)
    fleet.tick(STUCK_AFTER - 1)
    door.silent.clear()
    fleet.tick()
    door.silent.add(f"https://127.0.0.1:1/{name}")
    fleet.ctx.clock.sleep(5)
    fleet.tick(STUCK_AFTER)
    assert name in fleet.cluster.living()
    fleet.tick(2)
    assert name not in fleet.cluster.living()
    assert f"!{name}" in fleet.cluster.killed
    assert fleet.block()["last_failure"]["cause"] == "stuck"
    assert len(fleet.cluster.living()) == 1


def test_a_cause_of_death_is_kept(fleet):
    """What the worker says of why it died is what the fleet block tells."""
    fleet.make_ready()
    name = fleet.serve()
    told = "2 of 4 copies came up"
    fleet.report(name, "failed", error=told, reason="gpu_out_of_memory")
    failed = next(worker for worker in fleet.block()["workers"] if worker["handle"] == name)
    assert (failed["state"], failed["reason"], failed["error"]) == ("failed", "gpu_out_of_memory", told)
    assert fleet.block()["last_failure"] | {"at": ""} == {
        "cause": "gpu_out_of_memory", "version": 1, "at": "", "error": told, "details": {}
    }  # fmt: skip


def test_a_robot_that_comes_as_an_idle_worker_is_ended_is_not_cut_off(fleet, monkeypatch):
    """The decision to end it is taken anew with the right to write: a lease given in between keeps the worker."""
    fleet.make_ready(autoscaler={"scaledown_window": 60})
    name = fleet.serve(session="a")
    fleet.ctx.clock.sleep(61)
    change = fleet.controller._change

    def a_robot_comes_first(*planned):
        assert "worker_url" in fleet.connect(session="b").json()
        change(*planned)

    monkeypatch.setattr(fleet.controller, "_change", a_robot_comes_first)
    fleet.tick(2)
    assert name in fleet.cluster.living()
    assert "worker_url" in fleet.connect(session="b").json()


def test_removing_a_deployment_sends_its_line_away(fleet):
    """Robots that wait, or drive, hold it unless it is forced; then they are told that it is gone."""
    fleet.make_ready(**ONE)
    fleet.serve(session="a")
    fleet.connect(session="a")
    fleet.connect(session="b")
    answer = fleet.client.delete("/v1/deployments/arm")
    assert (answer.status_code, details(answer)["robots"]) == (409, 1)
    assert fleet.client.delete("/v1/deployments/arm?force=true").status_code == 200
    assert fleet.connect(session="b").json()["code"] == "not_found"


def test_a_redeploy_holds_max_gpus(fleet):
    """The new version's worker waits until the robot of the old one has left; then it serves who waits."""
    fleet.make_ready(**ONE)
    old = fleet.serve(session="a")
    fleet.connect(session="a")
    fleet.make_ready(**ONE)
    fleet.tick(2)
    assert list(fleet.cluster.living()) == [old]
    assert "rotate" in fleet.connect(session="a", move=True).json()
    assert details(fleet.connect(session="b"))["reason"] == "deployment_full"
    fleet.release("a")
    fleet.tick(3)
    assert old not in fleet.cluster.living()
    assert fleet.connect(session="b").json()["code"] == "warming"


def test_a_stop_during_a_cold_start_ends_it(fleet):
    """The worker on its way ends, whoever waits is told that the deployment is stopped, and a start lets robots in."""
    fleet.make_ready(autoscaler={"min_containers": 1})
    fleet.connect(session="a")
    fleet.connect(session="b")
    fleet.tick()
    assert fleet.client.post("/v1/deployments/arm/stop").json() == {"name": "arm", "workers_stopped": 2}
    fleet.tick(3)
    assert fleet.cluster.living() == {}
    told = fleet.connect(session="a")
    assert (told.status_code, details(told)["state"]) == (409, "stopped")
    assert fleet.client.get("/v1/deployments").json()["data"][0]["stopped"] is True
    assert fleet.block()["stopped"] is True
    assert fleet.client.post("/v1/deployments/arm/start").json() == {"name": "arm", "version": 1}
    fleet.tick(2)
    assert len(fleet.cluster.living()) == 1
    assert fleet.connect(session="a").json()["code"] == "warming"


def test_a_restarted_gateway_knows_its_robots(fleet):
    """Slots and places are in the store: nothing is forgotten, and no slot is given twice."""
    fleet.make_ready(autoscaler={"max_gpus": 1, "queue_timeout_s": 3600})
    fleet.serve(session="a")
    fleet.connect(session="a")
    fleet.connect(session="b")
    fleet.ctx.clock.sleep(fleet.ctx.settings.lease_s + 1)  # nobody could renew meanwhile
    fleet.restart()
    fleet.tick()
    fleet.client = make_client(fleet.ctx, first_key(), routers=("act", "deployments"))
    assert details(fleet.connect(session="b"))["queue_position"] == 1
    assert "worker_url" in fleet.connect(session="a").json()


@pytest.fixture
def two_cards(tmp_path, door, no_uv):
    """A fleet on two pretend cards of one kind, of which an account may hold one."""
    cluster = FakeCluster(cards={"L4": 2}, pretend=True)
    cluster.ensure()
    ctx = make_context(tmp_path / "cards", cluster=cluster, gpus_per_account=1, pretend={"L4": 2})
    yield Fleet(ctx, make_client(ctx, first_key(), routers=(*ROUTERS, "account")), door)
    ctx.store.close()


def test_cards_are_counted_for_the_account(two_cards):
    """The account's one card is taken, so the next robot waits and is told by whom; nothing is over the limit."""
    fleet = two_cards
    fleet.make_ready(resources={"gpu": ["L4"]})
    fleet.serve(session="a")
    fleet.connect(session="a")
    told = details(fleet.connect(session="b"))
    assert (told["reason"], told["limit"], told["in_use"]) == ("gpu_limit_reached", 1, {"serving": 1, "eval": 0})
    held = fleet.client.get("/v1/account").json()["gpus"]
    assert (held["in_use"], held["available"]) == ({"serving": 1, "eval": 0, "total": 1}, 0)
    block = fleet.block()
    assert (block["pretend"], block["workers"][0]["gpu"], block["workers"][0]["cards"]) == (True, "L4", 1)


def test_another_accounts_robots_are_served_from_its_own_limit(two_cards):
    """What one account holds takes nothing from another's limit, and the platform's last card is its own."""
    fleet = two_cards
    fleet.make_ready(resources={"gpu": ["L4"]})
    fleet.serve(session="a")
    fleet.client = make_client(fleet.ctx, add_account(fleet.ctx, "theirs"), routers=ROUTERS)
    fleet.make_ready(name="theirs", resources={"gpu": ["L4"]})
    assert fleet.connect("theirs", session="b").json()["code"] == "warming"


def test_an_account_limit_is_a_conflict_where_nobody_waits(two_cards):
    """on_full="reject" tells an account's own limit from a busy platform."""
    fleet = two_cards
    fleet.make_ready(resources={"gpu": ["L4"]}, autoscaler={"on_full": "reject"})
    fleet.serve(session="a")
    fleet.connect(session="a")
    answer = fleet.connect(session="b")
    assert (answer.status_code, details(answer)["reason"]) == (409, "gpu_limit_reached")
