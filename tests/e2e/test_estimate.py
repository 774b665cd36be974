"""The dry run's time, held against real runs of another shape than the one it learned from."""

import json

from tests.e2e.harness import Platform, eval_id_of

COMMON = (
    "eval",
    "run",
    "panda-expert",
    "--benchmark",
    "panda-tabletop",
    "--adapter",
    "panda-joints",
    "--record",
    "none",
)
LEARNED_FROM = ("--variants", "surface=standard", "--tasks", "reach,stack", "--trials", "4", "--envs", "1")
OTHERS = (
    ("--variants", "surface=standard", "--tasks", "push,lift", "--trials", "10", "--envs", "4"),
    ("--tasks", "lift,stack", "--trials", "6", "--envs", "2"),
)


def test_the_estimate_is_within_a_factor_of_two(platform: Platform) -> None:
    """Other tasks, trials and environments than the run it learned from; and asking starts nothing."""
    platform.deploy("panda-expert", "panda-tabletop", "panda-joints")
    platform.seq(*COMMON, *LEARNED_FROM, timeout=900)
    for shape in OTHERS:
        before = {process.pid for process in platform.processes()}
        total = platform.json("eval", "ls", "panda-expert")["total"]
        estimate = json.loads(platform.seq("--json", *COMMON, *shape, "--dry-run"))["estimate"]
        assert platform.json("eval", "ls", "panda-expert")["total"] == total
        assert {process.pid for process in platform.processes()} <= before
        eval_id = eval_id_of(platform.seq(*COMMON, *shape, timeout=900))
        actual = platform.api("GET", f"/v1/eval/{eval_id}/details").json()["actual"]["wall_clock_s"]
        assert actual / 2 <= estimate["wall_clock_s"] <= actual * 2, (shape, estimate, actual)


def test_more_environments_than_cores_share_and_the_dry_run_says_so(shared: Platform) -> None:
    """They run all the same; the layout's note names both numbers."""
    assert "share" in shared.seq(*COMMON, "--envs", "64", "--trials", "1", "--dry-run")


def test_a_card_this_platform_does_not_have_is_refused_by_name(shared: Platform, tmp_path) -> None:
    """A deploy for a card that is not here says which there are, and leaves nothing behind."""
    (tmp_path / "policy.py").write_text(
        "import seq\n\n\n@seq.policy(name='far-away', gpu='H100', max_gpus=1)\nclass P(seq.Policy):\n"
        "    @seq.infer\n    def infer(self, obs):\n        return [[0.0]]\n"
    )
    refused = shared.run("deploy", tmp_path / "policy.py")
    assert refused.returncode != 0
    assert "H100" in refused.stderr
    assert "cpu" in refused.stderr
    assert "far-away" not in shared.seq("policy", "ls")
