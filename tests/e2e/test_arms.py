"""Several arms in one eval: the same episodes side by side, never pooled, with paired differences."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.harness import ROOT, Platform, eval_id_of
from tests.supports import oracle

FILE = f"{ROOT}/tests/supports/oracle.py"


@pytest.fixture(scope="module")
def deployed(shared: Platform) -> Iterator[Platform]:
    """The oracle, and two echoes of different names."""
    for name in ("Oracle", "Echo", "EchoBatched"):
        shared.seq("deploy", f"{FILE}:{name}")
    yield shared
    for name in ("echo", "echo-batched"):
        shared.seq("policy", "rm", name)


RUN = ("eval", "run", "echo", "--benchmark", "oracle", "--envs", "2")


def read(platform: Platform, *flags: str) -> tuple[dict, dict]:
    """Report and details of one run."""
    eval_id = eval_id_of(platform.seq(*RUN, *flags))
    whole = json.loads(platform.seq("--json", "eval", "report", eval_id))
    return whole["report"], whole["details"]


def test_a_sweep_is_an_arm_for_each_combination(deployed: Platform) -> None:
    """Each with its own settings and sources; the metric that depends on the setting differs as it must, in pairs."""
    report, details = read(deployed, "--sweep", "gain=1.0,2.0", "--sweep", "rows=1,2")
    assert [arm["arm"] for arm in report["arms"]] == [
        "echo gain=1.0 rows=1",
        "echo gain=1.0 rows=2",
        "echo gain=2.0 rows=1",
        "echo gain=2.0 rows=2",
    ]
    assert all(arm["episodes"] == 18 and arm["failed"] == 0 for arm in report["arms"])
    acts = {arm["arm"]: arm["metrics"]["acts"] for arm in report["arms"]}
    assert acts["echo gain=2.0 rows=1"] == pytest.approx(2 * acts["echo gain=1.0 rows=1"])
    settings = report["arm_params"][3]["policy"]
    assert settings == {"gain": {"value": 2.0, "source": "cli"}, "rows": {"value": 2, "source": "cli"}}
    pair = next(p for p in details["paired"] if p["metric"] == "acts" and p["arm_b"] == "echo gain=2.0 rows=1")
    assert pair["mean_diff"] == pytest.approx(acts["echo gain=1.0 rows=1"])
    assert (pair["n"], pair["comparisons"]) == (18, 3)
    assert pair["low"] > 0
    assert pair["p_adjusted"] >= pair["p"]
    same = [p for p in details["paired"] if p["metric"] == "success"]
    assert all(p["mean_diff"] == 0 and p["p"] == 1 for p in same)


def test_a_compared_policy_is_one_more_arm(deployed: Platform) -> None:
    """On the same starts; its workers are its own, and the first arm's metrics stay its own."""
    report, details = read(deployed, "--compare", "echo-batched")
    assert [(arm["arm"], arm["model"]) for arm in report["arms"]] == [("echo", "echo"), ("echo-batched",) * 2]
    planned = sum(oracle.succeeds(task, seed) for task in oracle.TASKS for seed in oracle.SEEDS) / 18
    assert report["metrics"]["success"]["overall"] == pytest.approx(planned)
    assert report["metrics"]["success"]["n"] == 18
    by_arm = {arm: [row for row in details["episodes"] if row["arm"] == arm] for arm in ("echo", "echo-batched")}
    strip = [[{k: v for k, v in row.items() if k in ("task", "seed", "metrics")} for row in by_arm[a]] for a in by_arm]
    assert strip[0] == strip[1]


def test_an_interval_of_the_loop_is_swept_and_one_too_long_ends_the_eval(deployed: Platform) -> None:
    """`eval.steps_per_query` decides how often the policy is asked; beyond the chunk the message says what would do."""
    report, _ = read(deployed, "--sweep", "eval.steps_per_query=1,3")
    once, thrice = report["arm_params"]
    assert once["queries"] == once["steps"]
    assert thrice["queries"] < thrice["steps"]
    done = deployed.run(*RUN, "--param", "eval.steps_per_query=4")
    assert done.returncode == 1
    assert "use at most 3" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--sweep", "nobody=1,2"), "policy.gain"),
        (("--param", "rows=many"), "must be int"),
        (("--param", "eval.steps_per_query=0"), "at least 1"),
        (("--sweep", "gain=1.0,1.0"), "twice"),
        (("--compare", "echo"), "two arms"),
        (("--compare", "no-such-policy"), "no-such-policy"),
    ],
)
def test_what_cannot_be_an_arm_is_refused_before_anything_runs(deployed: Platform, flags, says: str) -> None:
    """With what could be set, or what is wrong."""
    before = deployed.json("eval", "ls", "echo")["total"]
    done = deployed.run(*RUN, *flags)
    assert done.returncode in (2, 4), done.stderr
    assert says in done.stderr
    assert deployed.json("eval", "ls", "echo")["total"] == before
