"""The main job on real physics: the score tells a policy that looks from one that does not, and both from chance."""

import json

import pytest

from tests.e2e.harness import CONTENT, Platform

RUN = ("--benchmark", "panda-tabletop", "--variants", "surface=standard", "--envs", "4", "--record", "none")
ZEROED = '''
import numpy as np
import seq


def blind(observation):
    """Every object pose becomes zeros; what the robot feels and sees of itself stays."""
    return {**observation, "state": {name: np.zeros_like(value) for name, value in observation["state"].items()}}


'''


def score(platform: Platform, policy: str, adapter: str, *flags: str) -> tuple[dict, dict]:
    """Run an eval to its end and read report and details."""
    done = platform.run("eval", "run", policy, "--adapter", adapter, *RUN, *flags, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    newest = platform.api("GET", f"/v1/deployments/{policy}/evals").json()["history"][0]["eval_id"]
    answer = json.loads(platform.seq("--json", "eval", "report", newest))
    return answer["report"], answer["details"]


@pytest.fixture(scope="module")
def blind_adapter(shared: Platform, tmp_path_factory) -> str:
    """The shipped adapter with the object poses it sends zeroed."""
    source = CONTENT["panda-joints"].read_text()
    folder = tmp_path_factory.mktemp("blind")
    before, marker, after = source.partition("@seq.adapter")
    text = before + ZEROED.replace("import numpy as np\nimport seq\n", "import numpy as np\n") + marker + after
    text = text.replace('"panda-joints"', '"panda-blind"').replace(
        "obs_transforms = [",
        'obs_transforms = [\n        seq.tf.custom("blind", blind_state, lossy="object poses zeroed"),',
    )
    (folder / "adapter.py").write_text(text)
    shared.seq("deploy", folder / "adapter.py")
    return "panda-blind"


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


def test_the_expert_looks(shared: Platform, blind_adapter: str) -> None:
    """With the object poses zeroed it scores at most 0.2: the score comes from what it is sent."""
    report, _ = score(shared, "panda-expert", blind_adapter, "--trials", "5")
    assert report["metrics"]["success"]["overall"] <= 0.2


def test_doing_nothing_scores_nothing(shared: Platform) -> None:
    """A policy that never moves scores exactly 0: nothing is solved at reset."""
    report, _ = score(shared, "panda-still", "panda-joints")
    assert report["metrics"]["success"]["overall"] == 0.0


def test_chance_scores_next_to_nothing(shared: Platform) -> None:
    """Random actions score at most 0.05."""
    report, _ = score(shared, "panda-random", "panda-joints")
    assert report["metrics"]["success"]["overall"] <= 0.05
