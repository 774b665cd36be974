"""What a deploy may ask, what is read of it, and who may read it."""

from __future__ import annotations

import pytest

from runner.testing import add_account, make_client

REFUSED = [
    ({"resources": {"gpu": ["L4"]}}, ["gpu=L4", "it has: cpu"]),
    ({"weights": {"uri": "vol://w", "mount": "/data"}}, ["vol://w", "no volumes"]),
    ({"volumes": [{"uri": "vol://w", "mount": "/x"}]}, ["volumes="]),
    ({"resources": {"gpu": ["cpu"], "region": "eu"}}, ["region='eu'"]),
    ({"image": {"base": "nvidia/cuda:12.2.2", "steps": []}}, ["nvidia/cuda:12.2.2", "no container engine"]),
    ({"policy": {"handler_ref": "p:A", "secrets": [{"name": "hf"}]}}, ["no secret named 'hf'"]),
    ({"policy": {"handler_ref": "p:A", "models": ["m"]}}, ["no platform model named 'm'"]),
    ({"name": "no spaces please"}, ["name"]),
    ({"surprise": 1}, ["surprise: no such field"]),
]


@pytest.mark.parametrize(("asked", "words"), REFUSED, ids=[str(words) for _, words in REFUSED])
def test_what_this_platform_lacks_is_refused_in_a_sentence(fleet, asked, words):
    """A declaration that could not take effect is refused at submit, and no row is left."""
    answer = fleet.deploy(**asked)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    for word in words:
        assert word in answer.json()["detail"]
    assert fleet.client.get("/v1/deployments").json()["data"] == []


def test_a_submit_while_the_cluster_is_away_can_be_tried_again(fleet):
    """Between a lost head and its successor a submit is `unavailable` with a time to wait, not an error of ours."""
    fleet.cluster.lose_head()
    answer = fleet.deploy()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.json()["retry_after_s"] > 0


def test_what_the_published_client_sends_unasked_is_taken(fleet):
    """Its bodies carry `dynamic` and empty lists and dictionaries, which declare nothing."""
    assert fleet.deploy(concurrency={"dynamic": True}, volumes=[], autoscaler={"min_containers": 0}).status_code == 202


def test_a_name_held_by_another_handler_needs_replace(fleet):
    """Another class under a serving name is a conflict that names the holder; with replace it takes over when ready."""
    fleet.make_ready()
    answer = fleet.deploy(handler="other:Arm")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "policy:Arm" in answer.json()["detail"]
    claim = fleet.client.get("/v1/deployments/arm/claim?handler_ref=other:Arm").json()
    assert (claim["state"], claim["held_by"]) == ("replace", "policy:Arm")
    assert fleet.deploy(handler="other:Arm", replace=True).status_code == 202
    fleet.load()
    fleet.tick()
    assert fleet.client.get("/v1/deployments/arm/claim?handler_ref=other:Arm").json()["state"] == "version"


def test_a_name_whose_builds_all_failed_is_not_held(fleet):
    """After a failed first build another class may take the name without --replace."""
    fleet.deploy()
    fleet.tick(3)
    fleet.report(fleet.started()[0], "failed", error="ValueError: x")
    fleet.tick()
    assert fleet.deploy(handler="other:Arm").status_code == 202


def test_claim_of_a_free_name_is_new(fleet):
    """A name nobody uses is new."""
    assert fleet.client.get("/v1/deployments/free/claim?handler_ref=a:B").json() == {"state": "new"}


def test_io_tells_the_contracts(fleet):
    """The contracts of the serving version are read back as declared."""
    fleet.make_ready()
    told = fleet.client.get("/v1/deployments/arm/io").json()
    assert (told["name"], told["version"], told["action"]["action_dim"]) == ("arm", 1, 2)
    assert told["observation"]["state"] == {"pose": 3}


def test_fleet_lists_the_workers_there_are(fleet):
    """A serving worker is listed with its state; after its end it is not."""
    fleet.make_ready()
    name = fleet.serve()
    workers = fleet.client.get("/v1/deployments/arm/fleet").json()["workers"]
    assert [(worker["handle"], worker["state"], worker["gpu"]) for worker in workers] == [(name, "ready", "cpu")]


def test_removing_ends_its_workers_and_frees_the_name(fleet):
    """After a removal nothing of it lives, its name is not found, and it can be deployed anew as version 1."""
    fleet.make_ready()
    fleet.serve()
    assert fleet.client.delete("/v1/deployments/arm").json() == {"deleted": "arm", "workers_stopped": 1}
    fleet.tick(2)
    assert fleet.cluster.living() == {}
    assert fleet.client.get("/v1/deployments/arm").status_code == 404
    fleet.make_ready()
    assert fleet.client.get("/v1/deployments").json()["data"][0]["version"] == 1


def test_removing_while_a_build_goes_on_leaves_nothing_half_made(fleet):
    """The build is given up and its check worker ends."""
    fleet.deploy()
    name = fleet.load()
    fleet.client.delete("/v1/deployments/arm")
    fleet.tick(3)
    assert name in fleet.cluster.killed
    assert fleet.cluster.living() == {}


def test_removing_under_a_connected_robot_needs_force(fleet):
    """While a robot holds a lease the removal is refused; a released one is in nobody's way."""
    fleet.make_ready()
    fleet.serve()
    fleet.connect()
    assert fleet.client.delete("/v1/deployments/arm").status_code == 409
    fleet.client.post("/v1/act/release", json={"model": "arm", "session": "s" * 32})
    assert fleet.client.delete("/v1/deployments/arm").status_code == 200


def test_force_removes_under_a_connected_robot(fleet):
    """With force the robot loses its worker."""
    fleet.make_ready()
    fleet.serve()
    fleet.connect()
    assert fleet.client.delete("/v1/deployments/arm?force=true").json()["workers_stopped"] == 1


@pytest.mark.parametrize("path", ["", "/build", "/versions", "/io", "/fleet"])
def test_anothers_deployment_reads_as_not_there(fleet, path):
    """Every read of another account's deployment is answered exactly like one of a name nobody has."""
    fleet.make_ready()
    other = make_client(fleet.ctx, add_account(fleet.ctx, "other"), routers=("deployments", "act"))
    theirs = other.get(f"/v1/deployments/arm{path}").json()
    nobodys = other.get(f"/v1/deployments/none{path}").json()
    assert theirs["code"] == nobodys["code"] == "not_found"
    assert theirs["detail"].replace("arm", "none") == nobodys["detail"]


def test_another_account_neither_sees_nor_removes_nor_blocks_a_name(fleet):
    """Names are per account: the other's list is empty, its delete finds nothing, and the name is free to it."""
    fleet.make_ready()
    other = make_client(fleet.ctx, add_account(fleet.ctx, "other"), routers=("deployments", "act"))
    assert other.get("/v1/deployments").json()["data"] == []
    assert other.delete("/v1/deployments/arm").status_code == 404
    assert other.post("/v1/act/connect", json={"model": "arm", "session": "x"}).status_code == 404
    assert other.get("/v1/deployments/arm/claim?handler_ref=a:B").json() == {"state": "new"}


def test_a_list_comes_in_pages(fleet):
    """Rows come by name, a page at a time."""
    for name in ("b", "a", "c"):
        fleet.deploy(name=name)
    first = fleet.client.get("/v1/deployments?limit=2").json()
    assert [row["name"] for row in first["data"]] == ["a", "b"]
    assert first["total"] == 3
    rest = fleet.client.get(f"/v1/deployments?cursor={first['next_cursor']}").json()
    assert [row["name"] for row in rest["data"]] == ["c"]
