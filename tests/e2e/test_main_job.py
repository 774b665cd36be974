"""The main job on real physics: the score tells a policy that looks from one that does not, and both from chance."""

import json

from tests.e2e.harness import ROOT, Platform, eval_id_of, wait_for

RUN = ("--benchmark", "panda-tabletop", "--variants", "surface=standard", "--envs", "4", "--record", "none")
BLIND = ROOT / "tests/supports/panda_blind.py"


def score(platform: Platform, policy: str, adapter: str, *flags: str) -> tuple[dict, dict]:
    """Run an eval to its end and read report and details."""
    done = platform.run("eval", "run", policy, "--adapter", adapter, *RUN, *flags, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    newest = platform.api("GET", f"/v1/deployments/{policy}/evals").json()["history"][0]["eval_id"]
    answer = json.loads(platform.seq("--json", "eval", "report", newest))
    return answer["report"], answer["details"]


def test_the_expert_solves_all_tasks(shared: Platform) -> None:
    """At least 0.95 overall on 4 tasks x 20 seeds, each task told with its interval, in a process of its own."""
    report, details = score(shared, "panda-expert", "panda-joints")
    success = report["metrics"]["success"]
    assert (report["status"], success["n"], report.get("incomplete") or False) == ("completed", 80, False)
    assert success["overall"] >= 0.95
    assert {row["task"]: row["n"] for row in success["per_task"]} == dict.fromkeys(
        ("reach", "push", "lift", "stack"), 20
    )
    assert set(details["intervals"]["success"]["per_task"]) == {"reach", "push", "lift", "stack"}


def test_the_expert_looks(shared: Platform) -> None:
    """With the object poses zeroed it scores at most 0.2, and the report says that the adapter lost something."""
    report, _ = score(shared, "panda-expert", f"{BLIND}:PandaBlind")
    assert report["metrics"]["success"]["overall"] <= 0.2
    assert [step["reason"] for step in report["adapter_lossy"]] == ["object poses are zeroed"]


def test_doing_nothing_scores_nothing(shared: Platform) -> None:
    """A policy that never moves scores exactly 0: nothing is solved at reset."""
    report, _ = score(shared, "panda-still", "panda-joints")
    assert report["metrics"]["success"]["overall"] == 0.0


def test_chance_scores_next_to_nothing(shared: Platform) -> None:
    """Random actions score at most 0.05."""
    report, _ = score(shared, "panda-random", "panda-joints")
    assert report["metrics"]["success"]["overall"] <= 0.05


def test_the_acts_stand_in_the_workers_own_counters(shared: Platform) -> None:
    """A process that is neither gateway nor engine counted every act of the eval."""
    run = ("eval", "run", "panda-expert", "--adapter", "panda-joints", *RUN, "--tasks", "reach", "--no-wait")
    eval_id = eval_id_of(shared.seq(*run))
    seen: set[int] = set()

    def ended() -> bool:
        status = shared.status()
        others = {status["gateway"]["pid"], *(row["pid"] for row in status["instances"])}
        seen.update(row["pid"] for row in status["workers"] if row["purpose"] == "eval" and row["pid"])
        assert not seen & others
        return "completed" in shared.seq("eval", "status", eval_id)

    wait_for(ended, 300)
    details = wait_for(lambda: counted(shared, eval_id), 60)
    assert sum(worker["acts"] for worker in details["workers"]) == details["latency"]["acts"] > 0
    assert seen == {worker["pid"] for worker in details["workers"]}


def counted(platform: Platform, eval_id: str) -> dict | None:
    """The details, once every worker of the eval was asked a last time and ended."""
    details = platform.api("GET", f"/v1/eval/{eval_id}/details").json()
    return details if {worker["state"] for worker in details["workers"]} == {"stopped"} else None
