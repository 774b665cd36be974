"""What an instance is told and tells, through the routes it uses."""

from __future__ import annotations

import json

import pytest

from runner.store.queries import accounts, deployments, evals
from runner.store.queries import instances as rows
from runner.testing import account_of, first_key, make_client
from seq.contract.adapters import content_hash
from seq.contract.internal import InstanceSpec

from .conftest import ADAPTER, ROUTERS, SOURCE


@pytest.fixture
def launched(ctx, client, controller, cluster, image):
    """An eval's one instance, launched: its EngineRun and a client with its token."""
    client.post("/v1/adapters", json=ADAPTER)
    client.post("/v1/eval", json={"model": "arm", "benchmark": "table", "adapter": "bridge", "envs": 3})
    controller.tick()
    (run,) = cluster.launched
    return run, make_client(ctx, run.start["token"], routers=ROUTERS)


def test_the_spec_tells_everything(ctx, launched):
    """Interpreter, variables, code, adapter content, dimensions and folders; the instance counts as running."""
    run, client = launched
    answer = client.get(f"/internal/instances/{run.name}/spec")
    spec = InstanceSpec.model_validate(answer.json())
    assert (spec.eval_id, spec.model, spec.handler_ref) == (run.start["eval_id"], "arm", "benchmark:Table")
    assert (spec.envs, spec.cores, spec.record) == (3, 3, "per-task")
    assert (spec.action_dim, spec.policy_action_dim) == (8, 8)
    assert spec.python == str(ctx.settings.envs / "made" / "bin" / "python")
    assert spec.env_vars["MUJOCO_GL"] == "egl"
    assert first_key() not in json.dumps(answer.json())
    assert spec.adapter is not None
    assert (spec.adapter.source, spec.adapter.sha256) == (SOURCE, content_hash("Bridge", SOURCE))
    assert spec.blob_dir == str(ctx.blobs.folder(f"eval/{spec.eval_id}"))
    with ctx.store.read() as session:
        assert rows.get(session, run.name).state == "running"


def test_the_key_opens_this_eval_alone_and_is_replaced_when_asked_again(ctx, launched):
    """A key of kind `eval`; asking for the spec again makes a new one and the old one stops working."""
    run, client = launched
    first, second = (client.get(f"/internal/instances/{run.name}/spec").json()["connect_token"] for _ in range(2))
    with ctx.store.read() as session:
        assert accounts.key_owner(session, first) is None
        key, account = accounts.key_owner(session, second)
        assert deployments.find(session, account.id, "arm") is not None
    assert (key.kind, key.eval_id, account.id) == ("eval", run.start["eval_id"], account_of(ctx, first_key()))


def test_keys_end_with_the_eval(ctx, launched, controller, client):
    """Once the eval has ended nothing of it can connect."""
    run, instance = launched
    token = instance.get(f"/internal/instances/{run.name}/spec").json()["connect_token"]
    client.post(f"/v1/eval/{run.start['eval_id']}/cancel")
    controller.tick()
    with ctx.store.read() as session:
        assert accounts.key_owner(session, token) is None
    assert instance.get(f"/internal/instances/{run.name}/spec").status_code == 410


def test_a_whole_conversation(ctx, launched, controller):
    """Lease, hand in, give back, tell: what an instance does until its eval is completed."""
    run, client = launched
    base = f"/internal/instances/{run.name}"
    client.get(f"{base}/spec")
    client.post(f"{base}/event", json={"kind": "started", "setup_s": 1.5})
    leased = client.post(f"{base}/lease", json={"free": 3, "pids": [7, 8]}).json()["episodes"]
    assert [episode["condition"]["index"] for episode in leased] == [0, 1, 2]
    with ctx.store.read() as session:
        assert rows.get(session, run.name).pids == [7, 8]
    body = {"episodes": [[2, 1]], "reason": "killed by signal 9 (SIGKILL)"}
    assert client.post(f"{base}/requeue", json=body).status_code == 200
    client.post(f"{base}/event", json={"kind": "moved", "count": 2, "message": "the worker was lost"})
    again = client.post(f"{base}/lease", json={"free": 6}).json()["episodes"]
    assert (again[0]["condition"]["index"], again[0]["attempt"]) == (2, 2)
    outcomes = [
        {"index": e["condition"]["index"], "attempt": e["attempt"], "steps": 5, "acts": 1, "metrics": {"success": 1.0}}
        for e in [*leased[:2], *again]
    ]
    assert client.post(f"{base}/results", json={"outcomes": outcomes}).json() == {"accepted": 6}
    controller.tick()
    answer = client.post(f"{base}/lease", json={"free": 6}).json()
    assert (answer["drained"], answer["stop"]) == (True, False)
    with ctx.store.read() as session:
        row = evals.get(session, run.start["eval_id"])
    assert row.status == "completed"
    assert [event["kind"] for event in row.events] == ["run_again", "moved"]


def test_a_successor_finds_what_a_dead_instance_left(ctx, launched, controller, cluster):
    """Outcomes in a dead instance's outbox are moved to its successor's; a living instance keeps its own."""
    run, client = launched
    left = client.get(f"/internal/instances/{run.name}/spec").json()["outbox_dir"]
    file = ctx.settings.outbox / run.start["eval_id"] / run.name / f"{run.name}.jsonl"
    assert str(file.parent) == left
    file.write_text("{}\n")
    cluster.lose(run.name)
    controller.tick()
    successor = cluster.launched[-1]
    other = make_client(ctx, successor.start["token"], routers=ROUTERS)
    spec = other.get(f"/internal/instances/{successor.name}/spec").json()
    assert spec["outbox_dir"] != left
    assert not file.exists()
    moved = ctx.settings.outbox / run.start["eval_id"] / successor.name / file.name
    assert moved.read_text() == "{}\n"


def test_only_the_instance_itself_is_heard(ctx, launched):
    """Another token, the account's key or none: unauthenticated, on every route."""
    run, _ = launched
    for key in (first_key(), "nonsense", None):
        stranger = make_client(ctx, key, routers=ROUTERS)
        base = f"/internal/instances/{run.name}"
        assert stranger.get(f"{base}/spec").status_code == 401
        assert stranger.post(f"{base}/lease", json={"free": 1}).status_code == 401
        assert stranger.post(f"{base}/results", json={"outcomes": []}).status_code == 401
        assert stranger.post(f"{base}/requeue", json={"episodes": [], "reason": ""}).status_code == 401
        assert stranger.post(f"{base}/event", json={"kind": "ended"}).status_code == 401


def test_an_image_that_is_gone_dismisses_the_instance(ctx, launched):
    """A benchmark whose environment is no longer there cannot start, and the answer says what to do."""
    run, client = launched
    (ctx.settings.envs / "made" / ".ready").unlink()
    refused = client.get(f"/internal/instances/{run.name}/spec")
    assert refused.status_code == 409
    assert "deploy it again" in refused.json()["detail"]
