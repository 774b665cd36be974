"""Every flag that is accepted changes something, through the real command; the others are refused."""

import json
from typing import Any

import pytest

from tests.e2e.harness import CONTENT, Platform, eval_id_of

TOY = ("eval", "run", "toy-policy", "--benchmark", "toy-benchmark", "--adapter", "toy-adapter")
PANDA = ("eval", "run", "panda-expert", "--benchmark", "panda-tabletop", "--adapter", "panda-joints")


def foretold(platform: Platform, *flags: str) -> dict[str, Any]:
    """The platform's answer to a dry run."""
    return json.loads(platform.seq("--json", *PANDA, *flags, "--dry-run"))


def test_what_is_selected_is_what_runs(shared: Platform) -> None:
    """--tasks, --trials and --variants shrink the plan to exactly what they name."""
    assert foretold(shared)["layout"]["episodes_per_arm"] == 160
    assert foretold(shared, "--trials", "3")["layout"]["episodes_per_arm"] == 24
    assert foretold(shared, "--tasks", "reach,lift")["layout"]["episodes_per_arm"] == 80
    assert foretold(shared, "--variants", "surface=slippery")["layout"]["episodes_per_arm"] == 80


def test_a_selection_that_names_nothing_is_refused(shared: Platform) -> None:
    """An unknown task, suite, axis or value is answered with what there is."""
    for flags, there in (
        (["--tasks", "fly"], "reach"),
        (["--variants", "surface=icy"], "slippery"),
        (["--variants", "light=dark"], "surface"),
        (["--suite", "none"], "suite"),
    ):
        done = shared.run(*PANDA, *flags, "--dry-run")
        assert done.returncode == 2, flags
        assert there in done.stderr, flags


def test_the_layout_is_as_told(shared: Platform) -> None:
    """--envs, --policy-instances and --benchmark-instances are laid out as asked, never a smaller layout."""
    layout = foretold(shared, "--envs", "5", "--policy-instances", "2", "--benchmark-instances", "3")["layout"]
    assert layout["benchmark"]["envs"] == 5
    assert layout["benchmark"]["instances_per_arm"] == 3
    assert layout["policy"][0]["instances"] == 2


def test_several_instances_of_both_sides_share_one_eval(shared: Platform) -> None:
    """Two policy workers and two benchmark instances play the same table as one of each."""

    def table(*flags: str) -> str:
        return shared.seq("eval", "report", eval_id_of(shared.seq(*TOY, *flags)), "--csv", "-")

    assert table("--policy-instances", "2", "--benchmark-instances", "2", "--envs", "2") == table("--envs", "1")


@pytest.mark.parametrize(("record", "videos"), [("none", 0), ("per-task", 1), ("all", 2)])
def test_record_decides_which_episodes_have_a_video(shared: Platform, tmp_path, record: str, videos: int) -> None:
    """The report lists as many videos as were asked for, and each can be fetched as an mp4."""
    run = (*PANDA, "--tasks", "reach", "--variants", "surface=standard", "--trials", "2", "--record", record)
    eval_id = eval_id_of(shared.seq(*run))
    shared.seq("eval", "report", eval_id, "--videos", tmp_path)
    files = sorted(tmp_path.glob("*.mp4"))
    assert len(files) == videos
    assert all(path.read_bytes()[4:8] == b"ftyp" for path in files)


def test_no_wait_returns_at_once_and_timeout_bounds_the_wait(shared: Platform) -> None:
    """--no-wait prints the id of an eval that goes on; a wait that is over exits 7 and says how to read it later."""
    eval_id = eval_id_of(shared.seq(*PANDA, "--trials", "2", "--record", "none", "--no-wait"))
    assert shared.api("GET", f"/v1/eval/{eval_id}").json()["status"] in ("pending", "running")
    done = shared.run("eval", "report", eval_id, "--wait", "--timeout", "1")
    assert done.returncode in (1, 7), done.stderr
    done = shared.run(*PANDA, "--trials", "1", "--record", "none", "--timeout", "1")
    assert done.returncode == 7
    assert "eval report" in done.stderr
    shared.seq("eval", "report", eval_id, "--wait")


def test_cancel_keeps_what_finished_and_ends_the_rest(shared: Platform) -> None:
    """A canceled eval starts nothing more, frees its processes, and reports the episodes that had finished."""
    eval_id = eval_id_of(shared.seq(*PANDA, "--record", "none", "--envs", "2", "--no-wait"))
    shared.seq("eval", "cancel", eval_id)
    report = shared.run("eval", "report", eval_id)
    assert "canceled" in report.stdout
    assert report.returncode == 1
    assert "canceled" in shared.seq("eval", "cancel", eval_id)


def test_deploy_flags(shared: Platform, tmp_path) -> None:
    """--name names, --dry-run sends nothing, --no-wait returns while it builds, --max-gpus needs a card."""
    shared.seq("deploy", CONTENT["toy-policy"], "--dry-run", "--name", "unsent")
    assert "unsent" not in shared.seq("policy", "ls")
    shared.seq("deploy", CONTENT["toy-policy"], "--name", "renamed", "--no-wait")
    assert shared.run("deploy", CONTENT["toy-policy"], "--max-gpus", "3").returncode == 2
    shared.seq("policy", "status", "renamed", "--wait")
    shared.seq("policy", "rm", "renamed")
    assert "renamed" not in shared.seq("policy", "ls")
