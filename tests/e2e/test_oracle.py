"""Scripted lengths and outcomes: the right table is known before the run, and is the same whatever the layout."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest

from tests.e2e.harness import ROOT, Platform, eval_id_of
from tests.supports import oracle

FILE = f"{ROOT}/tests/supports/oracle.py"
CLASSES = ("Oracle", "Oracles", "Graded", "Echo", "EchoBatched", "EchoStreaming")


@pytest.fixture(scope="module")
def deployed(shared: Platform) -> Iterator[Platform]:
    """The oracles and the echoes."""
    for name in CLASSES:
        shared.seq("deploy", f"{FILE}:{name}")
    yield shared
    for name in ("echo", "echo-batched", "echo-streaming"):
        shared.seq("policy", "rm", name)


def table(platform: Platform, *flags: str) -> list[dict[str, str]]:
    """The CSV of one run."""
    eval_id = eval_id_of(platform.seq("eval", "run", *flags))
    return list(csv.DictReader(io.StringIO(platform.seq("eval", "report", eval_id, "--csv", "-"))))


def test_the_table_is_the_one_that_was_written_down(deployed: Platform) -> None:
    """Every planned episode once, its scripted steps and outcome, as many different starts as planned."""
    rows = table(deployed, "echo", "--benchmark", "oracle", "--envs", "2")
    planned = [(task, seed) for task in oracle.TASKS for seed in oracle.SEEDS]
    assert [(row["task"], int(row["seed"])) for row in rows] == planned
    for row, (task, seed) in zip(rows, planned, strict=True):
        assert int(row["steps"]) == oracle.length(task, seed)
        assert float(row["success"]) == float(oracle.succeeds(task, seed))
    assert len({row["start"] for row in rows}) == len(planned)


def test_the_layout_changes_nothing(deployed: Platform) -> None:
    """1, 4 and 16 environments, two instances of both sides, one slot or four: the same table to the last bit."""
    alone = table(deployed, "echo", "--benchmark", "oracle", "--envs", "1")
    assert len({row["acts"] for row in alone}) > 10  # chance is in it, and repeats
    for flags in (
        ("--envs", "4"),
        ("--envs", "16"),
        ("--envs", "2", "--policy-instances", "2", "--benchmark-instances", "2"),
    ):
        assert table(deployed, "echo", "--benchmark", "oracle", *flags) == alone, flags
    for slots in ("1", "4"):
        assert table(deployed, "echo", "--benchmark", "oracles", "--envs", slots) == alone, slots
    assert table(deployed, "echo-batched", "--benchmark", "oracle", "--envs", "8") == alone


def test_every_episode_of_a_streaming_policy_has_a_state_of_its_own(deployed: Platform) -> None:
    """Two copies, four environments: each episode's acts are counted from one, none by another's count."""
    rows = table(deployed, "echo-streaming", "--benchmark", "oracle", "--envs", "4")
    for row in rows:
        steps = int(row["steps"])
        assert float(row["acts"]) == steps * (steps + 1) / 2


def test_an_episode_may_be_played_alone_first_or_last(deployed: Platform) -> None:
    """What came before it changes neither its start nor its acts."""
    whole = {(row["task"], row["seed"]): row for row in table(deployed, "echo", "--benchmark", "oracle")}
    for row in table(deployed, "echo", "--benchmark", "oracle", "--tasks", "flaky", "--trials", "2"):
        theirs = whole[row["task"], row["seed"]]
        assert {key: row[key] for key in row if key != "index"} == {key: theirs[key] for key in row if key != "index"}


def test_a_benchmark_that_scores_itself_is_believed(deployed: Platform) -> None:
    """`score` replaces the means of its groups and adds to them, without an interval; where it raises the mean stays
    and is told.
    """
    eval_id = eval_id_of(deployed.seq("eval", "run", "echo", "--benchmark", "graded", "--param", "scale=10"))
    report = deployed.api("GET", f"/v1/eval/{eval_id}").json()
    successes = {task: sum(oracle.succeeds(task, seed) for seed in oracle.SEEDS) for task in oracle.TASKS}
    overall = sum(successes.values()) / (len(oracle.TASKS) * len(oracle.SEEDS))
    assert report["status"] == "completed"
    assert report["metrics"]["success"]["overall"] == pytest.approx(10 * overall)
    tasks = {row["task"]: row["value"] for row in report["metrics"]["success"]["per_task"]}
    assert tasks["easy"] == pytest.approx(10 * successes["easy"] / len(oracle.SEEDS))
    assert tasks["flaky"] == pytest.approx(successes["flaky"] / len(oracle.SEEDS))
    assert report["metrics"]["episodes"]["overall"] == 18
    assert any("score" in line and "flaky is not graded" in line for line in report["errors"])
    details = deployed.api("GET", f"/v1/eval/{eval_id}/details").json()
    assert "overall" not in details["intervals"]["success"]
    assert "success" in details["arms"][0]["scored_by"]
    settings = {row["arm"]: row for row in report["arm_params"]}["echo"]["benchmark"]
    assert settings["scale"] == {"value": 10.0, "source": "cli"}
    assert settings["strict"] == {"value": False, "source": "benchmark"}
