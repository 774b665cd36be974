"""Workers of more than one machine: launched as one, refused in a sentence, told machine by machine."""

from __future__ import annotations

import json

import pytest

from runner.cluster.fake import FakeCluster
from runner.testing import make_context
from seq.contract.deployments import Concurrency, machines
from seq.contract.internal import GroupMember, WorkerPing

LARGE = {"resources": {"gpu": ["H100:16"]}, "observation": False}


@pytest.fixture
def ctx(tmp_path):
    cluster = FakeCluster(cards={"H100": 64, "L4": 64}, pretend=True)
    cluster.ensure()
    made = make_context(tmp_path, cluster=cluster, gpus_per_account=16)
    yield made
    made.store.close()


def serving(fleet):
    """The name of a group that serves a robot."""
    fleet.make_ready(**LARGE)
    fleet.tick(2)
    name = fleet.serve()
    assert fleet.connect().status_code == 200
    return name


def test_a_group_is_launched_as_one_unit(fleet):
    """Machine 0 runs the worker, the others members without the certificate's key, each with a log of its own."""
    name = serving(fleet)
    commands = fleet.cluster.groups[name]
    first, second = commands
    assert (first.name, second.name) == (name, f"{name}.1")
    assert [command.argv[-1] for command in commands] == ["runner.worker", "runner.worker.member"]
    starts = [json.loads(command.stdin) for command in commands]
    assert [(start["group"], start["cards"], start["secret"]) for start in starts] == [(2, 16, starts[0]["secret"])] * 2
    assert (bool(starts[0]["tls_key"]), starts[1]["tls_key"]) == (True, "")
    assert (second.exit_url, second.token, first.log_path == second.log_path) == (None, None, False)


def test_no_machine_of_a_group_is_a_stray(fleet):
    """What the loop finds living is left alone for as long as the worker's row is open."""
    name = serving(fleet)
    fleet.tick(3)
    assert name not in fleet.cluster.killed
    assert name in fleet.cluster.living()


def test_a_lost_machine_is_the_reason_of_the_worker_and_the_next_robot_gets_a_new_group(fleet):
    """The fleet block says so, with the machines; the next connect starts another group."""
    name = serving(fleet)
    told = "machine 1 of the group was lost: its line was closed"
    assert fleet.report(name, "failed", reason="group_member_lost", error=told).status_code == 200
    fleet.cluster.lose(name)
    fleet.tick(2)
    fleet.connect()
    fleet.tick()
    assert list(fleet.cluster.groups)[-1] != name
    (failed,) = [one for one in fleet.block()["workers"] if one["state"] == "failed"]
    assert (failed["reason"], failed["group"]["failure"]) == ("group_member_lost", told)


def test_a_group_whose_worker_just_ends_lost_a_machine(fleet):
    """Its host tells only how the process ended."""
    name = serving(fleet)
    fleet.report(name, "exited", error="the worker process was killed by signal 9 (SIGKILL)")
    assert fleet.block()["last_failure"]["cause"] == "group_member_lost"


def test_the_machines_of_a_group_are_told(fleet, monkeypatch):
    """As it says of itself while it serves; as its row says while it does not answer."""
    name = serving(fleet)
    monkeypatch.setattr("runner.fleet.block.PinnedDoor", lambda: fleet.door)
    listed = [GroupMember(rank=0, state="ready", beat_age_s=0.0), GroupMember(rank=1, state="ready", beat_age_s=0.4)]
    url = f"https://127.0.0.1:1/{name}"
    fleet.door.pings[url] = WorkerPing(pid=7, acts=0, errors=0, group=listed)
    (told,) = fleet.block()["workers"]
    assert told["group"] == {"size": 2, "members": [one.model_dump() for one in listed]}
    assert (told["slots"], told["cards"]) == (1, 16)
    fleet.door.silent.add(url)
    (told,) = fleet.block()["workers"]
    assert told["group"]["members"] == [{"rank": rank, "state": "ready", "beat_age_s": None} for rank in (0, 1)]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"gpu": ["H100:12"]}, "whole machines of 8"),
        ({"gpu": ["H100:264"]}, "at most 256"),
        ({"gpu": ["H100:16", "L4:16"]}, "one card type"),
        ({"gpu": ["H100:16"], "gpus_per_replica": 8}, "gpus_per_replica=8"),
        ({"gpu": ["H100:16"], "replicas_per_gpu": 1}, "replicas_per_gpu=1"),
        ({"gpu": ["H100:16"], "target_inputs": 2}, "one robot at a time"),
        ({"gpu": ["H100:16"], "max_inputs": 2}, "one robot at a time"),
    ],
)
def test_what_a_group_cannot_be_is_refused_at_submit(fleet, request_, says):
    """In a sentence that names what was given and what would be right."""
    gpu = request_["gpu"]
    concurrency = {name: value for name, value in request_.items() if name != "gpu"}
    answer = fleet.deploy(resources={"gpu": gpu}, concurrency=concurrency)
    assert answer.status_code == 400
    assert says in f"{answer.json()['detail']} {answer.json().get('hint')}"


@pytest.mark.parametrize(("cards", "count"), [(1, 1), (8, 1), (16, 2), (256, 32)])
def test_past_eight_cards_a_worker_is_whole_machines_and_one_copy(cards, count):
    """Up to there it has the copies that it declares."""
    assert machines(cards) == count
    assert Concurrency().copies(cards) == (cards if count == 1 else 1)
