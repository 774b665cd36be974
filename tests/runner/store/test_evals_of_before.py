"""A home of the version before arms: its evals are read, go on, are rerun and are compared as if they were new."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine, text

from runner.clock import ManualClock
from runner.evals import queue
from runner.evals.reconcile import EvalController
from runner.store.migrations import config
from runner.store.queries import evals, instances
from runner.testing import first_key, make_client, make_context
from seq.contract.evals import ReportBody
from seq.contract.internal import EpisodeOutcome, LeaseRequest

DONE, RUNNING, CANCELED = "a" * 32, "b" * 32, "c" * 32
MACHINES = {"instances": 1, "card": "cpu", "cores": 2.0, "memory_gb": 4.0}
ACTION = {"robot": "panda", "action_space": "joint_absolute", "action_dim": 8, "control_frequency_hz": 20}
POLICY = {
    "name": "arm",
    "image": {"base": "debian:12-slim"},
    "resources": {"gpu": ["cpu"]},
    "policy": {"handler_ref": "policy:Arm", "action": ACTION, "params": {"k": {"type": "int", "default": 5}}},
}
BENCHMARK = {
    "name": "table",
    "image": {"base": "debian:12-slim"},
    "conditions": {
        "tasks": ["reach", "push"],
        "seeds": [3, 4, 5],
        "variants": [{"axis": "light", "values": ["day", "night"]}],
    },
    "suite_of": {"push": "hard"},
    "handler_ref": "benchmark:Table",
    "gpu": "cpu",
    "cpu": 2,
    "max_steps": 50,
    "render": {"camera": "front"},
    "action_contract": ACTION,
}
ADAPTER = {"name": "bridge", "version": 1, "sha256": "d" * 64, "policy_io": "own", "lossy": [["cut", "the last joint"]]}
PLAN = {
    "policy": MACHINES,
    "benchmark": MACHINES,
    "envs": 2,
    "cores_each": 2,
    "machine_cores": 4,
    "record": "per-task",
    "notes": ["a note"],
    "pretend": False,
    "model_version": 1,
    "benchmark_id": "bench",
    "benchmark_version": 1,
    "adapter": ADAPTER,
    "sha256": {"model": "e" * 64, "benchmark": "f" * 64},
    "seeds": [3, 4, 5],
    "score": False,
    "platform": "0.0.5",
}
STARTS = [
    {
        "index": 6 * (task == "push") + 3 * (light == "night") + seed - 3,
        "task": task,
        "seed": seed,
        "variation": [["light", light]],
        **({"suite": "hard"} if task == "push" else {}),
        "max_steps": 50,
        "record": (light, seed) == ("day", 3),
    }
    for task in ("reach", "push")
    for light in ("day", "night")
    for seed in (3, 4, 5)
]


def insert(connection, table, **row):
    """One row; what is a list or a dict is JSON."""
    values = {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in row.items()}
    names = ", ".join(f'"{name}"' for name in row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({', '.join(':' + n for n in row)})"), values)


def insert_eval(connection, eval_id, status, states, **more):
    """An eval whose episodes are in these states; a done one with `None` ended in an error."""
    named = {"account_id": "acc", "model": "arm", "version_id": "v1", "benchmark": "table"}
    insert(
        connection, "evals", id=eval_id, status=status, **named, benchmark_version_id="bv1", adapter_version_id="av1",
        request={"model": "arm", "benchmark": "table", "adapter": "bridge"}, plan=PLAN,
        estimate={"wall_clock_s": 9.0, "cost_usd": 0.01}, timing={"policy_s": 1.0}, events=[], total=len(STARTS),
        created_at=100.0, started_at=110.0, **more,
    )  # fmt: skip
    for condition, (state, value) in zip(STARTS, states, strict=True):
        done = state == "done"
        error = {"error": "ValueError: bad row", "traceback": "Traceback: mine"} if done and value is None else {}
        outcome = {"index": condition["index"], "attempt": 1, "steps": 7, "acts": 2, "terminated": True, "wall_s": 1.0}
        outcome |= error or {"metrics": {"success": value}, "recorded": condition["record"]}
        row = {"outcome": outcome, "failed": bool(error), "ended_at": 120.0} if done else {"failed": False}
        insert(
            connection, "episodes", eval_id=eval_id, index=condition["index"], condition=condition, state=state,
            attempt=int(state in ("done", "leased")), **row,
        )  # fmt: skip


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """A store as the version before left it: a completed, a running and a canceled eval."""
    engine = create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    with engine.begin() as connection:
        command.upgrade(config(connection), "0002")
        owned = {"account_id": "acc", "name": "arm", "created_at": 1.0}
        insert(connection, "accounts", id="acc", name="first", first=True, created_at=1.0)
        insert(connection, "deployments", id="dep", **owned, handler_ref="policy:Arm", serving=1, stopped=False)
        insert(connection, "benchmarks", id="bench", **{**owned, "name": "table"}, handler_ref="b:T", latest=1)
        insert(connection, "adapters", id="ada", **{**owned, "name": "bridge"}, handler_ref="a:B", latest=1)
        version = {"number": 1, "created_at": 1.0}
        ready = {**version, "state": "ready", "phases": [], "image_hash": "image"}
        insert(connection, "versions", id="v1", deployment_id="dep", **ready, request=POLICY, bundle="e" * 64)
        insert(connection, "benchmark_versions", id="bv1", benchmark_id="bench", **ready, request=BENCHMARK)
        insert(
            connection, "adapter_versions", id="av1", adapter_id="ada", **version, sha256="d" * 64, class_name="B",
            handler_ref="a:B", source="class B: pass", transforms=[], policy_io="own",
            params={"steps_per_query": {"type": "int", "default": 8}},
        )  # fmt: skip
        scored = [("done", float(number % 2)) for number in range(12)]
        insert_eval(connection, DONE, "completed", scored, ended_at=200.0)
        under_way = [("done", 1.0), ("leased", None), ("done", None), ("pending", None), ("leased", None)]
        insert_eval(connection, RUNNING, "running", [*under_way, *[("pending", None)] * 7])
        left = [*scored[:4], *[("not_run", None)] * 8]
        insert_eval(connection, CANCELED, "canceled", left, ended_at=150.0, stop_reason="canceled")
        for number in range(2):
            insert(
                connection, "instances", id=f"instance-{number}", eval_id=RUNNING, state="running", pids=[],
                lease_number=0, lease_indices=[], created_at=100.0 + number, token_hash=f"token {number}",
            )  # fmt: skip
        connection.execute(text("UPDATE episodes SET instance_id = 'instance-0' WHERE state = 'leased'"))
    engine.dispose()
    return tmp_path


@pytest.fixture
def ctx(old_home) -> Iterator:
    """Today's platform over that home."""
    made = make_context(old_home, clock=ManualClock(300.0))
    yield made
    made.store.close()


@pytest.fixture
def client(ctx):
    return make_client(ctx, first_key())


def details(client, eval_id):
    return client.get(f"/v1/eval/{eval_id}/details").json()


def test_a_completed_eval_is_reported_as_before(client):
    """Means, intervals by task, suite and variant, videos, adapter, and what ran."""
    report = ReportBody.model_validate(client.get(f"/v1/eval/{DONE}").json())
    success = report.metrics["success"]
    assert (report.status, report.incomplete, success.overall, success.n) == ("completed", False, 0.5, 12)
    assert [(one.task, one.n) for one in success.per_task] == [("reach", 6), ("push", 6)]
    assert [(one.suite, one.n) for one in success.per_suite] == [("hard", 6)]
    assert [link.rpartition("/")[2] for link in report.videos] == ["0.mp4", "6.mp4"]
    assert [one.transform for one in report.adapter_lossy] == ["cut"]
    (params,) = report.arm_params
    assert (params.policy["k"].value, params.policy["k"].source) == (5, "policy")
    assert (params.eval["steps_per_query"].value, params.eval["steps_per_query"].source) == (8, "adapter")
    told = details(client, DONE)
    assert list(told["intervals"]["success"]["per_variant"]) == ["light=day", "light=night"]
    assert told["distinct_starts"] == {"planned": 6, "seen": 6}
    manifest = told["manifest"]
    assert (manifest["seeds"], manifest["episodes"], manifest["record"]) == ([3, 4, 5], 12, "per-task")
    assert manifest["models"] == [{"model": "arm", "version": 1, "sha256": "e" * 64, "image": "image"}]
    assert manifest["sha256"] == {"model": "e" * 64, "benchmark": "f" * 64, "benchmark_image": "image"}
    assert told["actual"]["wall_clock_s"] == 100.0


def test_its_episodes_are_those_it_had(client):
    """Task, seed, suite and variation of every row, now from the eval's own starts."""
    rows = client.get(f"/v1/eval/{DONE}/episodes", params={"limit": 200}).json()["episodes"]
    told = [{key: row.get(key) for key in ("index", "task", "seed", "suite", "variation")} for row in rows]
    assert told == [{"suite": None, **{key: s[key] for key in s if key in told[0]}} for s in STARTS]
    assert [row["metrics"]["success"] for row in rows] == [float(number % 2) for number in range(12)]
    assert details(client, DONE)["episodes"] == rows


def test_its_starts_are_kept_as_blocks(ctx):
    """Consecutive conditions that differ in their seed alone are one, with their seeds as ranges."""
    with ctx.store.read() as session:
        kept = evals.selection(session, DONE)
        (arm,) = evals.arms(session, DONE)
        row = evals.get(session, DONE)
    assert kept["record"] == "per-task"
    assert [(b["task"], b["suite"], b["variation"], b["seeds"]) for b in kept["blocks"]] == [
        ("reach", None, [["light", "day"]], [[3, 3]]),
        ("reach", None, [["light", "night"]], [[3, 3]]),
        ("push", "hard", [["light", "day"]], [[3, 3]]),
        ("push", "hard", [["light", "night"]], [[3, 3]]),
    ]
    assert (arm.name, arm.first, arm.todo, arm.planned, arm.next) == ("arm", 0, [[0, 12]], 12, 12)
    assert (row.recorded, row.begun_at, row.cards, row.rerun_of) == (True, 100.0, {}, None)


def test_a_canceled_eval_keeps_what_finished(client):
    """And says of the rest that it was not run."""
    report = client.get(f"/v1/eval/{CANCELED}").json()
    assert (report["status"], report["stop_reason"], report["metrics"]["success"]["n"]) == ("canceled", "canceled", 4)
    told = details(client, CANCELED)
    assert (told["counts"]["ran"], told["counts"]["not_run"], told["progress"]["not_run"]) == (4, 8, 8)
    assert [row["attempts"] for row in told["episodes"]] == [1] * 4 + [0] * 8


def test_a_running_eval_goes_on_to_its_end(ctx, client):
    """What was leased is still held, what waits is handed out once, and its instances keep a place each."""
    progress = details(client, RUNNING)["progress"]
    told = {name: progress[name] for name in ("done", "failed", "running", "pending", "total")}
    assert told == {"done": 2, "failed": 1, "running": 2, "pending": 8, "total": 12}
    with ctx.store.read() as session:
        assert [row.place for row in instances.of_eval(session, RUNNING)] == [0, 1]
    leased = queue.lease(ctx, "instance-1", LeaseRequest(free=20)).episodes
    assert [(one.condition.index, one.attempt) for one in leased] == [(n, 1) for n in (3, 5, 6, 7, 8, 9, 10, 11)]
    assert [one.condition.model_dump(mode="json", exclude_none=True) for one in leased] == [
        STARTS[one.condition.index] for one in leased
    ]
    finished = [(one.condition.index, one.attempt) for one in leased] + [(1, 1), (4, 1)]
    outcomes = [
        EpisodeOutcome(index=index, attempt=attempt, steps=7, acts=2, metrics={"success": 1.0})
        for index, attempt in finished
    ]
    assert queue.take_results(ctx, "instance-1", outcomes) == 10
    EvalController(ctx, spawn=lambda work: work()).tick()
    report = client.get(f"/v1/eval/{RUNNING}").json()
    assert (report["status"], report["incomplete"], report["metrics"]["success"]["n"]) == ("completed", True, 11)
    assert "ValueError: bad row (1 of 12 episodes)" in report["errors"][0]


def test_old_evals_are_rerun_compared_and_listed(client):
    """Everything that asks for the eval before finds it whole."""
    body = {"model": "arm", "benchmark": "table"}
    again = client.post("/v1/eval", json={**body, "rerun_of": CANCELED, "dry_run": True}).json()
    assert again["layout"]["episodes_per_arm"] == 8
    missed = client.post("/v1/eval", json={**body, "rerun_unsuccessful_of": DONE, "dry_run": True}).json()
    assert missed["layout"]["episodes_per_arm"] == 6
    found = client.get(f"/v1/eval/{DONE}/compare/{CANCELED}").json()
    assert (found["paired"][0]["n"], found["differs"]) == (4, [])
    rows = client.get("/v1/deployments/arm/evals").json()["history"]
    values = {row["eval_id"]: (row["status"], row["value"]) for row in rows}
    assert values == {DONE: ("completed", 0.5), RUNNING: ("running", 1.0), CANCELED: ("canceled", 0.5)}


def test_the_estimate_still_learns_from_them(client):
    """A completed eval of before is an eval of this policy, benchmark and adapter."""
    told = client.post("/v1/eval", json={"model": "arm", "benchmark": "table", "adapter": "bridge", "dry_run": True})
    assert told.json()["estimate"]["default_timing"] is False


def test_an_empty_store_goes_back_and_forth(tmp_path):
    """Down to the version before and up again."""
    engine = create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    for revision, step in (("0003", command.upgrade), ("0002", command.downgrade), ("0003", command.upgrade)):
        with engine.begin() as connection:
            step(config(connection), revision)
    with engine.begin() as connection:
        command.downgrade(config(connection), "base")
    engine.dispose()


def test_a_store_with_evals_does_not_go_back(old_home):
    """The version before could not read them, so nothing is changed and the error says so."""
    engine = create_engine(f"sqlite:///{old_home / 'store.db'}")
    with engine.begin() as connection:
        command.upgrade(config(connection), "0003")
    with pytest.raises(RuntimeError, match="cannot read the evals"), engine.begin() as connection:
        command.downgrade(config(connection), "0002")
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM evals")).scalar() == 3
    engine.dispose()
