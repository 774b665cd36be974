"""From a submitted policy to a version that serves, or to an error that says why not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from runner.cluster.fake import FakeCluster
from runner.fleet.door import DoorError
from runner.images import BuildError
from runner.store.tables import Version, Worker
from runner.testing import first_key, make_client

from .conftest import ROUTERS, Fleet


def rows(ctx, table):
    with ctx.store.read() as session:
        return session.query(table).order_by(table.created_at, table.id).all()


def status(fleet, name="arm"):
    return fleet.client.get(f"/v1/deployments/{name}").json()


def test_a_submit_answers_at_once_with_exactly_the_published_keys(fleet):
    """A submitted deployment is answered 202 with its name and `building`, and reads as building."""
    answer = fleet.deploy()
    assert (answer.status_code, answer.json()) == (202, {"deployment_id": "arm", "status": "building"})
    assert status(fleet) == {"status": "building", "model": "arm"}


def test_a_build_goes_through_its_phases_and_serves(fleet, door):
    """Code, image, load and one act on a synthetic observation; then the version serves and the check worker ends."""
    check = fleet.make_ready()
    build = fleet.client.get("/v1/deployments/arm/build").json()
    assert [phase["phase"] for phase in build["phases"]] == ["code", "image", "load", "act"]
    assert status(fleet) == {"status": "ready", "model": "arm"}
    assert len(door.acts) == 1
    assert fleet.cluster.killed == [check]
    assert "act: answered" in build["log"]


@pytest.mark.parametrize(("gpu", "says"), [("L4", True), ("cpu", False)])
def test_a_build_for_a_pretend_card_says_so(ctx, door, no_uv, gpu, says):
    """The log names the cards that are not there, where the policy asks for one."""
    cluster = FakeCluster(cards={"L4": 2}, pretend=True)
    cluster.ensure()
    ours = replace(ctx, cluster=cluster, settings=replace(ctx.settings, pretend={"L4": 2}))
    fleet = Fleet(ours, make_client(ours, first_key(), routers=ROUTERS), door)
    fleet.make_ready(resources={"gpu": [gpu]})
    assert ("pretend (2 x L4)" in fleet.client.get("/v1/deployments/arm/build").json()["log"]) == says


def test_the_synthetic_act_carries_what_the_contract_declares(fleet, door):
    """The one act has a frame of each camera, zero vectors of the declared lengths and an instruction."""
    fleet.make_ready()
    observation = door.acts[0]["observation"]
    assert [frame["view"] for frame in observation["images"]] == ["front"]
    assert observation["proprioception"]["joint_positions"] == [0.0, 0.0]
    assert observation["state"] == {"pose": [0.0, 0.0, 0.0]}
    assert observation["instruction"]


def test_a_policy_without_an_observation_contract_is_only_loaded(fleet, door):
    """Without `observation=` nothing valid could be sent, so no act is tried."""
    fleet.deploy(observation=False)
    fleet.load()
    fleet.tick()
    assert status(fleet)["status"] == "ready"
    assert door.acts == []


def test_the_worker_is_started_with_its_own_environment_alone(fleet, monkeypatch):
    """The worker's variables hold nothing of the platform's, and its start line everything it needs."""
    monkeypatch.setenv("SEQUENCES_API_KEY", "seq_live_x")
    fleet.deploy()
    fleet.tick(3)
    command = fleet.cluster.launched[-1]
    start = json.loads(command.stdin)
    assert "SEQUENCES_API_KEY" not in command.env
    assert command.env["SEQ_MANIFEST"] == "1"
    assert command.argv[1:] == ["-P", "-m", "runner.worker"]
    assert start["policy"]["handler_ref"] == "policy:Arm"
    assert start["code_dir"] in command.env["PYTHONPATH"].split(":")
    assert command.exit_url.endswith(f"/internal/workers/{command.name}/report")


def test_secrets_of_a_worker_are_not_kept_readable(fleet):
    """The store holds a worker's secret and key sealed, and its token hashed."""
    fleet.deploy()
    fleet.tick(3)
    _, start = fleet.started()
    kept = rows(fleet.ctx, Worker)[0]
    assert fleet.ctx.vault.decrypt(kept.secret) == start["secret"]
    assert start["secret"] not in kept.secret
    assert start["token"] not in kept.token_hash
    assert "PRIVATE KEY" not in kept.tls_key


def test_a_load_that_raises_fails_the_build_with_the_policys_own_error(fleet):
    """A worker that reports a failure fails its build: type, message and the user's frames are the error."""
    fleet.deploy()
    fleet.tick(3)
    name, _ = fleet.started()
    fleet.report(name, "failed", error="ValueError: no such file", traceback='File "policy.py", line 3, in load')
    fleet.tick(2)
    told = status(fleet)
    assert told["status"] == "failed"
    assert told["error"].startswith("ValueError: no such file\n")
    assert "policy.py" in told["error"]
    assert fleet.cluster.living() == {}


def test_a_load_that_hangs_is_ended_at_its_time_out(fleet):
    """Past `timeouts.startup` the build fails with a sentence and the process is gone."""
    fleet.deploy(timeouts={"startup": 60})
    fleet.tick(3)
    fleet.ctx.clock.sleep(59)
    fleet.tick()
    assert status(fleet)["status"] == "building"
    fleet.ctx.clock.sleep(2)
    fleet.tick(3)
    assert "60 s (timeouts.startup)" in status(fleet)["error"]
    assert fleet.cluster.living() == {}


def test_a_worker_killed_while_loading_fails_the_build_naming_the_signal(fleet):
    """What the process's host says of its end is the build's error."""
    fleet.deploy()
    fleet.tick(3)
    name, _ = fleet.started()
    fleet.report(name, "exited", error="the worker process was killed by signal 9 (SIGKILL)")
    fleet.cluster.lose(name)
    fleet.tick()
    assert "SIGKILL" in status(fleet)["error"]


def test_a_failing_first_act_fails_the_build(fleet, door):
    """A policy that cannot answer the synthetic observation fails its build with its own error and frames."""
    door.refusal = DoorError("KeyError: 'wrist'", traceback='File "policy.py", line 9, in infer')
    fleet.make_ready()
    told = status(fleet)
    assert told["status"] == "failed"
    assert "KeyError: 'wrist'" in told["error"]
    assert "line 9" in told["error"]
    assert fleet.cluster.living() == {}


def test_a_failed_image_fails_the_build_and_starts_nothing(fleet, monkeypatch):
    """An image step that fails is the build's error; no worker is started."""

    def fail(*_):
        raise BuildError("the image step `uv pip install nosuch` failed (exit 1): no such package")

    monkeypatch.setattr("runner.images.build", fail)
    fleet.deploy()
    fleet.tick(2)
    assert "no such package" in status(fleet)["error"]
    assert fleet.cluster.launched == []


def test_a_fault_of_the_platform_ends_the_build_too(fleet, monkeypatch):
    """An unexpected exception in a build closes the version, so that nobody waits for ever."""

    def fail(*_):
        raise RuntimeError("disk")

    monkeypatch.setattr("runner.images.build", fail)
    fleet.deploy()
    fleet.tick()
    assert "RuntimeError: disk" in status(fleet)["error"]


def test_a_failed_build_changes_nothing_of_what_serves(fleet):
    """The second version fails; the first goes on serving, and the list says both."""
    fleet.make_ready()
    fleet.deploy()
    fleet.tick(3)
    fleet.report(fleet.started()[0], "failed", error="ValueError: worse")
    fleet.tick()
    row = fleet.client.get("/v1/deployments").json()["data"][0]
    assert (row["status"], row["version"], row["latest"]["status"]) == ("ready", 1, "failed")
    states = [version["state"] for version in fleet.client.get("/v1/deployments/arm/versions").json()["data"]]
    assert states == ["failed", "serving"]
    assert fleet.connect().json()["code"] == "warming"


def test_a_new_version_takes_over_without_a_gap(fleet):
    """A robot is asked to move, moves to the new version's check worker between episodes, and the old worker ends."""
    fleet.make_ready()
    old = fleet.serve()
    assert "rotate" not in fleet.connect().json()
    new = fleet.make_ready()
    stays = fleet.connect().json()
    assert stays["worker_url"].endswith(old)
    assert stays["rotate"] == {"reason": "version-retired"}
    fleet.tick(2)
    assert old in fleet.cluster.living()
    moved = fleet.connect(move=True).json()
    assert (moved["worker_url"].endswith(new), "rotate" in moved) == (True, False)
    assert moved["lease"]["epoch"] != stays["lease"]["epoch"]
    fleet.tick(3)
    assert old not in fleet.cluster.living()
    assert new in fleet.cluster.living()


def test_a_client_that_knows_no_rotation_moves_at_its_renewal(fleet):
    """It is not asked, since it would never answer."""
    fleet.make_ready()
    fleet.serve()
    new = fleet.make_ready()
    assert fleet.connect(moves=False).json()["worker_url"].endswith(new)


def test_the_later_of_two_deploys_at_once_serves_whichever_is_built_first(fleet):
    """Two builds of one name run beside each other; the later number serves even where the earlier ends last."""
    fleet.deploy()
    fleet.deploy()
    fleet.tick(3)
    first, second = [command.name for command in fleet.cluster.launched]
    versions = {row.id: row.number for row in rows(fleet.ctx, Version)}
    numbers = {row.id: versions[row.version_id] for row in rows(fleet.ctx, Worker)}
    later, earlier = sorted((first, second), key=lambda name: -numbers[name])
    for name in (later, earlier):
        fleet.report(name, "ready", url=f"https://127.0.0.1:1/{name}")
        fleet.tick(2)
    assert fleet.client.get("/v1/deployments").json()["data"][0]["version"] == 2
    assert fleet.cluster.living() == {}


def test_only_the_serving_version_and_four_earlier_ready_ones_are_kept(fleet):
    """A sixth ready version pushes the oldest out."""
    for _ in range(6):
        fleet.make_ready()
    kept = [version["version"] for version in fleet.client.get("/v1/deployments/arm/versions").json()["data"]]
    assert kept == [6, 5, 4, 3, 2]


def test_a_build_whose_gateway_died_before_the_image_starts_over(fleet, no_uv):
    """After a restart a version without an environment is built from the beginning."""
    fleet.deploy()
    fleet.restart()
    fleet.load()
    fleet.tick()
    assert status(fleet)["status"] == "ready"
    assert len(no_uv) == 1


def test_a_check_worker_that_outlived_its_gateway_is_adopted(fleet):
    """After a restart a living check worker is waited for, not started a second time."""
    fleet.deploy()
    fleet.tick(3)
    name, _ = fleet.started()
    fleet.restart()
    fleet.tick(3)
    assert [command.name for command in fleet.cluster.launched] == [name]
    fleet.report(name, "ready", url="https://127.0.0.1:1")
    fleet.tick()
    assert status(fleet)["status"] == "ready"


def test_a_lost_head_starts_the_check_again_and_at_most_thrice(fleet):
    """A check worker lost with its cluster is started anew; three losses fail the build."""
    fleet.deploy()
    fleet.tick(3)
    for _ in range(3):
        fleet.cluster.lose_head()
        fleet.cluster.ensure()
        fleet.tick(3)
    assert len(fleet.cluster.launched) == 3
    assert status(fleet)["status"] == "failed"


def test_a_report_without_the_workers_token_changes_nothing(fleet):
    """Another token is answered 401, and the worker stays as it was."""
    fleet.deploy()
    fleet.tick(3)
    name, _ = fleet.started()
    assert fleet.report(name, "ready", token="wrong", url="https://evil").status_code == 401
    assert rows(fleet.ctx, Worker)[0].state == "starting"


@pytest.mark.parametrize("code", [{"data": "!!", "sha256": "0"}, {"data": "aGVsbG8=", "sha256": "00"}])
def test_a_damaged_bundle_is_refused_and_leaves_nothing(fleet, code):
    """A bundle that is not what its hash says is refused before any row is made."""
    answer = fleet.deploy(code={"format": "tar.gz"} | code)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert fleet.client.get("/v1/deployments").json()["data"] == []
