"""Whatever a benchmark, a policy, an adapter or a person does to an eval: what finished is kept, what lacks is told."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.harness import ROOT, Platform, eval_id_of, wait_for

CRASHY = f"{ROOT}/tests/supports/crashy.py"
GOOD = ("fine", "forks", "prints", "leaks")
BAD = {
    "raise": "ValueError: the motor is stuck",
    "raise_reset": "reset failed: ValueError: the motor is stuck",
    "raise_check": "check failed: ValueError: nothing to check",
    "raise_at_7": "ValueError: the seventh step",
    "sys_exit": "SystemExit: done early",
    "nan": "is nan",
    "no_metric": "gave no metric",
    "exit": "given up after 5 attempts",
    "hang": "did not return within 34 s",
}


@pytest.fixture(scope="module")
def deployed(shared: Platform) -> Iterator[Platform]:
    """The crashy benchmark and its policies."""
    for name in ("Crashy", "LongWay", "CrashyPolicy", "TenthFails", "SlowPolicy"):
        shared.seq("deploy", f"{CRASHY}:{name}")
    yield shared
    for name in ("crashy-policy", "tenth-fails", "slow-policy"):
        shared.run("policy", "rm", name)


def whole(platform: Platform, eval_id: str) -> dict:
    """Report and details, whatever the report's exit code."""
    return json.loads(platform.run("--json", "eval", "report", eval_id).stdout)


def test_every_way_to_go_wrong_costs_its_own_episode_alone(deployed: Platform) -> None:
    """The good ones are scored, each bad one is an error with its cause, and a gate does not pass over what lacks."""
    tasks = ",".join([*GOOD, *BAD])
    run = ("eval", "run", "crashy-policy", "--benchmark", "crashy", "--tasks", tasks, "--trials", "1", "--envs", "2")
    done = deployed.run(*run, "--gate", "success >= 0.5")
    assert done.returncode == 8, done.stdout + done.stderr
    told = whole(deployed, eval_id_of(done.stdout))
    report, details = told["report"], told["details"]
    assert (report["status"], report["incomplete"]) == ("completed", True)
    assert report["metrics"]["success"]["n"] == len(GOOD)
    assert report["metrics"]["success"]["overall"] == 1.0
    rows = {row["task"]: row for row in details["episodes"]}
    for task in GOOD:
        assert rows[task].get("error") is None, rows[task]
    for task, cause in BAD.items():
        assert cause in rows[task].get("error", ""), (task, rows[task])
        assert rows[task].get("metrics", {}) == {}
    assert details["counts"] == {
        "planned": len(rows),
        "ran": len(rows),
        "scored": len(GOOD),
        "errored": len(BAD),
        "not_run": 0,
        "succeeded": len(GOOD),
        "unsuccessful": 0,
        "at_reset": 0,
    }
    assert f"{len(GOOD)} scored" in done.stdout


def test_a_policy_that_fails_now_and_then_fails_its_episodes(deployed: Platform) -> None:
    """With its own words and one traceback a cause; those without a failure are scored."""
    eval_id = eval_id_of(deployed.seq("eval", "run", "tenth-fails", "--benchmark", "crashy", "--tasks", "fine"))
    told = whole(deployed, eval_id)
    failed = [row for row in told["details"]["episodes"] if row.get("error")]
    assert {row.get("error") for row in failed} == {"the policy failed: RuntimeError: out of luck"}
    assert told["report"]["metrics"]["success"]["n"] == 4 - len(failed)
    causes = told["details"]["errors"]
    assert [(cause["count"], "out of luck" in cause["traceback"]) for cause in causes] == [(len(failed), True)]


def test_a_rerun_plays_the_errors_again_and_nothing_else(deployed: Platform) -> None:
    """Its report covers both; the failed acts of before are gone with their episodes."""
    first = eval_id_of(deployed.seq("eval", "run", "tenth-fails", "--benchmark", "crashy", "--tasks", "fine"))
    errors = sum(bool(row.get("error")) for row in whole(deployed, first)["details"]["episodes"])
    assert errors
    run = ("eval", "run", "tenth-fails", "--benchmark", "crashy", "--rerun-failed", first)
    again = whole(deployed, eval_id_of(deployed.seq(*run)))
    assert again["details"]["manifest"]["rerun_of"] == first
    assert again["details"]["counts"]["planned"] == 4
    assert again["report"]["metrics"]["success"]["n"] == 4 - sum(
        bool(row.get("error")) for row in again["details"]["episodes"]
    )
    assert again["details"]["progress"]["total"] == 4
    assert again["details"]["manifest"]["earlier_cost_usd"] > 0


def test_an_adapter_that_goes_wrong_late_is_named(deployed: Platform) -> None:
    """All of its episodes end at step 40, with what the benchmark takes and what it got."""
    run = ("eval", "run", "crashy-policy", "--benchmark", "long", "--trials", "2", "--adapter")
    done = deployed.run(*run, f"{ROOT}/tests/supports/late_shape.py")
    assert done.returncode == 1
    told = whole(deployed, eval_id_of(done.stdout))
    assert told["report"]["status"] == "failed"
    assert "takes rows of 1 numbers and got 2" in told["report"]["errors"][0]
    assert {row["steps"] for row in told["details"]["episodes"]} == {40}


def test_a_deployment_changed_under_an_eval_changes_nothing_of_it(deployed: Platform) -> None:
    """Redeployed, stopped and removed while it runs: the version it pinned is played to the end."""
    run = ("eval", "run", "slow-policy", "--benchmark", "long", "--param", "sleep_s=0.01", "--envs", "2", "--no-wait")
    eval_id = eval_id_of(deployed.seq(*run))
    wait_for(lambda: whole(deployed, eval_id)["details"]["progress"]["done"])
    deployed.seq("deploy", f"{CRASHY}:CrashyPolicy", "--name", "slow-policy", "--replace")
    deployed.seq("policy", "stop", "slow-policy")
    deployed.seq("policy", "rm", "slow-policy", "--force")
    deployed.seq("eval", "report", eval_id, "--wait")
    told = whole(deployed, eval_id)
    assert (told["report"]["status"], told["report"]["incomplete"]) == ("completed", False)
    assert told["report"]["metrics"]["success"]["overall"] == 1.0
    deployed.seq("deploy", f"{CRASHY}:SlowPolicy")


def test_two_evals_at_once_share_a_deployment_and_not_a_result(deployed: Platform) -> None:
    """Each has workers of its own and its own table."""
    run = ("eval", "run", "slow-policy", "--benchmark", "long", "--param", "sleep_s=0.01", "--no-wait")
    first, second = (eval_id_of(deployed.seq(*run, "--trials", n)) for n in ("3", "2"))
    for eval_id, trials in ((first, 3), (second, 2)):
        deployed.seq("eval", "report", eval_id, "--wait")
        assert whole(deployed, eval_id)["report"]["metrics"]["success"]["n"] == trials


@pytest.mark.parametrize("stage", ["at once", "starting", "running"])
def test_an_eval_is_canceled_at_any_stage(deployed: Platform, stage: str) -> None:
    """Nothing of it runs a little later, what finished stays, and canceling again changes nothing."""
    run = ("eval", "run", "slow-policy", "--benchmark", "long", "--param", "sleep_s=0.02", "--envs", "2", "--no-wait")
    eval_id = eval_id_of(deployed.seq(*run))
    mine = lambda: [  # noqa: E731
        row for kind in ("instances", "workers") for row in deployed.status()[kind] if row.get("eval") == eval_id
    ]
    if stage == "starting":
        wait_for(lambda: any(row["pid"] for row in mine()))
    elif stage == "running":
        wait_for(lambda: whole(deployed, eval_id)["details"]["progress"]["done"])
    kept = whole(deployed, eval_id)["details"]["progress"]["done"]
    assert "canceled" in deployed.seq("eval", "cancel", eval_id)
    wait_for(lambda: not mine(), limit_s=30)
    told = whole(deployed, eval_id)
    assert (told["report"]["status"], told["report"]["stop_reason"]) == ("canceled", "canceled")
    assert kept <= told["details"]["progress"]["done"] < 12
    assert "canceled" in deployed.seq("eval", "cancel", eval_id)


def test_a_bound_stops_an_eval_before_it_costs_more(deployed: Platform) -> None:
    """No episode starts once one more minute would; the report says so and a gate does not pass."""
    run = ("eval", "run", "slow-policy", "--benchmark", "long", "--param", "sleep_s=0.1", "--max-usd", "0.0016")
    done = deployed.run(*run, "--gate", "success >= 0")
    assert done.returncode == 8
    told = whole(deployed, eval_id_of(done.stdout))
    assert told["report"]["stop_reason"] == "budget"
    assert told["report"]["cost_usd"] < 0.0016
    assert told["details"]["counts"]["not_run"] > 0
