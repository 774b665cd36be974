"""From a registered benchmark to one that evals can use."""

from __future__ import annotations

import json

import pytest

from runner.testing import add_account, make_client


def register(fleet, **request):
    return fleet.client.post("/v1/benchmarks", json=fleet.benchmark(**request))


def report(fleet, *, ok=True, token=None, path="check", **told):
    command = fleet.cluster.launched[-1]
    version_id = command.name.removeprefix("check-")
    client = make_client(fleet.ctx, token or json.loads(command.stdin)["token"], routers=("internal_workers",))
    body = {"ok": ok} | told if path == "check" else told
    return client.post(f"/internal/benchmarks/{version_id}/{path}", json=body)


def make_ready(fleet, **request):
    register(fleet, **request)
    fleet.tick(2)
    report(fleet, observation={"dict": {}}, metrics=["success"], steps=1)
    fleet.cluster.lose(fleet.cluster.launched[-1].name)
    fleet.tick()


def status(fleet):
    return fleet.client.get("/v1/benchmarks/line").json()


def test_registering_answers_with_exactly_the_published_keys(fleet):
    """A registration is answered 202 with name and status alone."""
    answer = register(fleet)
    assert (answer.status_code, answer.json()) == (202, {"name": "line", "status": "building"})
    assert status(fleet) == {"name": "line", "status": "building"}


def test_the_check_runs_the_first_condition_in_the_benchmarks_environment(fleet):
    """One process is started with the first condition, the action's size and nothing of the platform's."""
    register(fleet)
    fleet.tick(2)
    command = fleet.cluster.launched[-1]
    start = json.loads(command.stdin)
    assert command.argv[1:] == ["-P", "-m", "runner.engine.check"]
    assert start["condition"] == {
        "index": 0, "task": "reach", "seed": 3, "variation": [["surface", "dry"]], "suite": "easy", "max_steps": 300,
        "record": False,
    }  # fmt: skip
    assert start["action_dim"] == 2


def test_a_list_of_conditions_is_checked_by_its_first(fleet):
    """Listed conditions win over the axes, with their own caps."""
    register(fleet, condition_list=[{"task": "push", "seed": 9, "variant": {"light": "dim"}, "max_steps": 5}])
    fleet.tick(2)
    condition = json.loads(fleet.cluster.launched[-1].stdin)["condition"]
    assert (condition["task"], condition["seed"], condition["max_steps"]) == ("push", 9, 5)
    assert condition["variation"] == [["light", "dim"]]


def test_a_good_check_makes_it_ready_and_io_tells_what_it_saw(fleet):
    """The first observation's description is kept, and the action contract is told beside it."""
    make_ready(fleet)
    assert status(fleet) == {"name": "line", "status": "ready"}
    told = fleet.client.get("/v1/benchmarks/line/io").json()
    assert (told["version"], told["observation"], told["action_contract"]["action_dim"]) == (1, {"dict": {}}, 2)
    logs = fleet.client.get("/v1/benchmarks/line/logs").json()
    assert [phase["phase"] for phase in logs["phases"]] == ["code", "image", "check"]
    assert logs["check"]["ok"]


def test_a_failing_check_tells_the_benchmarks_own_error(fleet):
    """The error is the author's own, its frames below; the process is ended."""
    register(fleet)
    fleet.tick(2)
    report(fleet, ok=False, error="KeyError: 'cube'", traceback='File "benchmark.py", line 4, in reset')
    fleet.tick()
    assert status(fleet)["status"] == "failed"
    assert status(fleet)["error"].startswith("KeyError: 'cube'\nFile")
    assert fleet.cluster.living() == {}


def test_a_check_that_dies_fails_the_registration(fleet):
    """A process that ends without a report is told of by its host, and that is the error."""
    register(fleet)
    fleet.tick(2)
    report(fleet, path="exited", phase="exited", error="it was killed by signal 11 (SIGSEGV)")
    assert "SIGSEGV" in status(fleet)["error"]


def test_an_exit_after_the_report_changes_nothing(fleet):
    """The check ends after it has reported; the version stays ready."""
    register(fleet)
    fleet.tick(2)
    report(fleet, observation={"dict": {}})
    assert report(fleet, path="exited", phase="exited", error="exit 0").status_code == 200
    assert status(fleet)["status"] == "ready"


def test_a_check_that_hangs_is_ended(fleet):
    """Past its limit the registration fails and the process is gone."""
    register(fleet)
    fleet.tick(2)
    fleet.ctx.clock.sleep(1801)
    fleet.tick(2)
    assert "1800 s" in status(fleet)["error"]
    assert fleet.cluster.living() == {}


def test_a_check_lost_with_the_cluster_is_started_again_and_at_most_thrice(fleet):
    """Losses of the cluster are not the benchmark's fault, but there is an end."""
    register(fleet)
    fleet.tick(2)
    for _ in range(3):
        fleet.cluster.lose_head()
        fleet.cluster.ensure()
        fleet.tick()
    assert len(fleet.cluster.launched) == 3
    assert status(fleet)["status"] == "failed"


def test_a_check_that_outlived_its_gateway_is_adopted(fleet):
    """After a restart the living check is waited for."""
    register(fleet)
    fleet.tick(2)
    fleet.restart()
    fleet.tick(2)
    assert len(fleet.cluster.launched) == 1
    report(fleet, observation={"dict": {}})
    assert status(fleet)["status"] == "ready"


def test_a_second_class_under_a_taken_name_is_a_conflict(fleet):
    """Another `module:Class` is refused naming the holder; the same one makes the next version."""
    make_ready(fleet)
    answer = register(fleet, handler="other:Line")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "benchmark:Line" in answer.json()["detail"]
    make_ready(fleet)
    row = fleet.client.get("/v1/benchmarks").json()["benchmarks"][0]
    assert (row["version"], row["versions"], row["status"]) == (2, 2, "ready")


def test_a_failed_next_version_leaves_the_usable_one(fleet):
    """Evals go on with the version that was ready."""
    make_ready(fleet)
    register(fleet)
    fleet.tick(2)
    report(fleet, ok=False, error="ValueError: x")
    row = fleet.client.get("/v1/benchmarks").json()["benchmarks"][0]
    assert (row["version"], row["status"], row["error"]) == (1, "ready", "ValueError: x")


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"gpu": "L4"}, "it has: cpu"),
        ({"gpu": None}, "gpu=L4"),
        ({"assets": [{"uri": "vol://a", "mount": "/assets"}]}, "vol://a"),
        ({"secrets": [{"name": "s"}]}, "no secret named 's'"),
        ({"default_adapter_ref": "a"}, "default_adapter="),
    ],
)
def test_what_this_platform_lacks_is_refused(fleet, asked, word):
    """A registration that could not take effect is refused in a sentence, and no row is left."""
    answer = register(fleet, **asked)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert word in answer.json()["detail"]
    assert fleet.client.get("/v1/benchmarks").json()["benchmarks"] == []


def test_removing_ends_the_build_and_frees_the_name(fleet):
    """A dry run tells, the removal does; the check process ends and another class may take the name."""
    register(fleet)
    fleet.tick(2)
    told = fleet.client.delete("/v1/benchmarks/line?dry_run=true").json()
    assert (told["build_in_flight"], told["evals_running"]) == (True, [])
    removed = fleet.client.delete("/v1/benchmarks/line").json()
    assert (removed["deleted"], removed["build_canceled"]) == ("line", True)
    fleet.tick()
    assert fleet.cluster.living() == {}
    assert fleet.client.get("/v1/benchmarks/line").status_code == 404
    assert register(fleet, handler="other:Line").status_code == 202


@pytest.mark.parametrize("path", ["", "/logs", "/io"])
def test_anothers_benchmark_reads_as_not_there(fleet, path):
    """Every read of another account's benchmark is `not_found`."""
    make_ready(fleet)
    other = make_client(fleet.ctx, add_account(fleet.ctx, "other"), routers=("benchmarks",))
    assert other.get(f"/v1/benchmarks/line{path}").json()["code"] == "not_found"
    assert other.delete("/v1/benchmarks/line").status_code == 404
    assert other.get("/v1/benchmarks").json()["benchmarks"] == []


def test_a_report_without_the_checks_token_is_refused(fleet):
    """Another token is answered 401 and changes nothing."""
    register(fleet)
    fleet.tick(2)
    assert report(fleet, token="wrong").status_code == 401
    assert status(fleet)["status"] == "building"
