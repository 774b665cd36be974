"""Bounds changed without a redeploy, and what the fleet block tells of them."""

from __future__ import annotations

import pytest

from runner.testing import first_key, make_client

PATH = "/v1/deployments/arm/scaling"
DECLARED = {
    "min_workers": 0,
    "buffer_workers": 0,
    "max_gpus": None,
    "idle_timeout": 600,
    "on_full": "queue",
    "queue_timeout_s": 120,
}


@pytest.fixture
def put(ctx):
    """Send a scaling body, get the answer."""
    client = make_client(ctx, first_key(), routers=("scaling",))
    return lambda body: client.put(PATH, json=body)


def fleet_block(fleet):
    """The deployment's fleet block."""
    return fleet.client.get("/v1/deployments/arm/fleet").json()


def test_a_floor_starts_workers_at_once_and_without_a_redeploy(fleet, put):
    """min_workers=2 starts two workers, and the answer is the whole block."""
    fleet.make_ready()
    launched = len(fleet.cluster.launched)
    assert put({"min_workers": 2}).json() == DECLARED | {"min_workers": 2}
    fleet.tick(4)
    assert len(fleet.cluster.launched) == launched + 2
    assert len(fleet_block(fleet)["workers"]) == 2


def test_an_idle_timeout_ends_an_idle_worker_sooner(ctx, fleet, put):
    """A worker that nobody used for longer than the new time ends; before the change it stayed."""
    fleet.make_ready()
    name = fleet.serve()
    ctx.clock.sleep(60)
    fleet.tick(2)
    assert fleet_block(fleet)["workers"][0]["state"] == "ready"
    assert put({"idle_timeout": 30}).json() == DECLARED | {"idle_timeout": 30}
    fleet.tick(3)
    assert name not in fleet.cluster.living()


def test_what_is_not_sent_stays(fleet, put):
    """A second change keeps the first."""
    fleet.make_ready()
    put({"min_workers": 1})
    assert put({"idle_timeout": 30}).json() == DECLARED | {"min_workers": 1, "idle_timeout": 30}


def test_a_version_that_is_being_built_is_scaled_too(ctx, fleet, put):
    """A change made during a build holds when that version serves; a deploy after it declares its own."""
    fleet.make_ready()
    fleet.deploy()
    put({"idle_timeout": 30})
    fleet.load()
    fleet.tick(2)
    assert put({"min_workers": 0}).json()["idle_timeout"] == 30
    fleet.make_ready()
    assert put({"min_workers": 0}).json()["idle_timeout"] == 600


def test_every_bound_is_changed_at_once(fleet, put):
    """What is sent holds for the next robot: the line becomes a refusal, the only worker the last one."""
    fleet.make_ready()
    fleet.serve(session="a")
    changed = {"max_gpus": 1, "on_full": "reject", "queue_timeout_s": 9, "buffer_workers": 1}
    assert put(changed).json() == DECLARED | changed
    answer = fleet.connect(session="b").json()
    assert (answer["code"], answer["details"]["reason"]) == ("unavailable", "deployment_full")
    put({"max_gpus": None})
    assert fleet.connect(session="b").json()["code"] == "warming"


def test_a_knob_without_effect_is_refused_and_nothing_changes(fleet, put):
    """The refusal names the knob and those that can be changed; what was sent beside it is not changed either."""
    fleet.make_ready()
    answer = put({"rotate_after_s": 600, "min_workers": 3})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert "rotate_after_s: changing this has no effect" in answer.json()["detail"]
    assert "queue_timeout_s can be changed" in answer.json()["hint"]
    assert put({"min_workers": 0}).json() == DECLARED


def test_a_lower_limit_ends_idle_workers_at_once(fleet, put):
    """Those beyond it that nobody drives do not wait for their idle time."""
    fleet.make_ready(autoscaler={"max_gpus": 3})
    names = []
    for session in "abc":
        names.append(fleet.serve(session=session))
        fleet.connect(session=session)
    for session in "bc":
        fleet.release(session)
    fleet.tick(2)
    assert len(fleet.cluster.living()) == 3
    put({"max_gpus": 1})
    fleet.tick(3)
    assert list(fleet.cluster.living()) == names[:1]


def test_more_workers_than_may_be_held_are_refused(fleet, put):
    """A floor above max_gpus could never be met; whichever of the two is changed."""
    fleet.make_ready()
    answer = put({"min_workers": 3, "max_gpus": 1})
    assert (answer.status_code, "min_workers=3" in answer.json()["detail"]) == (400, True)
    put({"min_workers": 2})
    assert put({"max_gpus": 1}).status_code == 400
    assert put({"idle_timeout": 600}).json() == DECLARED | {"min_workers": 2}


def test_a_knob_may_be_set_to_what_it_is(fleet, put):
    """Saying again what holds is no change, so it is not refused."""
    fleet.make_ready()
    assert put({"max_gpus": None, "on_full": "queue", "min_workers": 0}).json() == DECLARED


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "nothing to change"),
        ({"min_workers": -1}, "min_workers"),
        ({"min_workers": None}, "min_workers"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"on_full": "drop"}, "on_full"),
        ({"min_containers": 1}, "min_containers"),
    ],
)
def test_a_body_that_cannot_be_right_is_refused_by_name(fleet, put, body, named):
    """Nothing to change, a value out of range, a name that is no knob."""
    fleet.make_ready()
    answer = put(body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert named in answer.json()["detail"]


def test_the_fleet_tells_the_robots_on_each_worker(ctx, fleet):
    """A worker's sessions are the robots that hold a lease of it: connected, renewed, released, run out."""
    fleet.make_ready(concurrency={"target_inputs": 3})
    name = fleet.serve()
    for session in ("s" * 32, "a" * 32, "b" * 32, "b" * 32):
        fleet.connect(session=session)
    block = fleet_block(fleet)
    assert [(worker["handle"], worker["slots"], worker["sessions"]) for worker in block["workers"]] == [(name, 3, 3)]
    assert (block["robots"], block["queue"], block["workers"][0]["cards"]) == (3, [], 0)
    fleet.client.post("/v1/act/release", json={"model": "arm", "session": "a" * 32})
    assert fleet_block(fleet)["workers"][0]["sessions"] == 2
    ctx.clock.sleep(ctx.settings.lease_s + 1)
    assert fleet_block(fleet)["robots"] == 0
