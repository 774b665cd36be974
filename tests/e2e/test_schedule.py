"""An eval that runs by itself at every deploy, and says that a version made worse on purpose is worse."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.harness import Platform, wait_for

POLICY = """
import seq

ACTION = seq.ActionContract(robot="dot", action_space="ee_delta", action_dim=1, control_frequency_hz=10)


@seq.policy(name="mover", gpu="cpu", action=ACTION)
class Mover(seq.Policy):
    @seq.infer
    def infer(self, obs, *, seed=None):
        return [[{step}]]
"""
BENCHMARK = """
import seq


class Dot:
    x = 0.0

    def observe(self):
        return {"x": self.x}

    def step(self, action):
        self.x += float(action[0])


@seq.benchmark(
    name="moves", gpu="cpu", cpu=1, conditions=seq.conditions(["go"], range(12)), max_steps=5,
    action_contract=seq.ActionContract(robot="dot", action_space="ee_delta", action_dim=1, control_frequency_hz=10),
)
class Moves(seq.Benchmark):
    @seq.reset
    def reset(self, seed, variant):
        return Dot()

    @seq.check
    def check(self, env):
        return seq.Step(done=env.x >= 3, metrics={"success": float(env.x >= 3)})
"""


def runs(platform: Platform) -> list[dict]:
    """The runs that ended and were judged, newest first."""
    history = json.loads(platform.seq("--json", "eval", "ls", "mover"))["history"]
    return [
        row for row in history if row["scheduled"] and row["status"] == "completed" and row["regressed"] is not None
    ]


def deploy(platform: Platform, folder: Path, step: float) -> None:
    """A version that moves so far in a step."""
    (folder / "mover.py").write_text(POLICY.format(step=step))
    platform.seq("deploy", folder / "mover.py")


def test_a_version_made_worse_on_purpose_is_told_as_a_regression(shared: Platform, tmp_path: Path) -> None:
    """Nobody starts anything: each deploy runs its eval, the third is held against the second."""
    (tmp_path / "moves.py").write_text(BENCHMARK)
    shared.seq("deploy", tmp_path / "moves.py")
    deploy(shared, tmp_path, 1.0)
    told = shared.seq("eval", "schedule", "mover", "--benchmark", "moves", "--every", "deploy")
    assert "deploy" in told
    deploy(shared, tmp_path, 1.5)
    wait_for(lambda: len(runs(shared)) == 1, limit_s=240)
    assert not runs(shared)[0]["regressed"]
    deploy(shared, tmp_path, 0.1)
    wait_for(lambda: len(runs(shared)) == 2, limit_s=240)
    worst = runs(shared)[0]
    assert (worst["regressed"], worst["value"], worst["model_version"]) == (True, 0.0, 3)
    assert "REGRESSION" in shared.run("eval", "report", worst["eval_id"]).stdout.upper()
    assert "regress" in shared.seq("eval", "ls", "mover").lower()
    shared.seq("eval", "schedule", "mover", "--benchmark", "moves", "--off")
    deploy(shared, tmp_path, 1.0)
    assert json.loads(shared.seq("--json", "eval", "ls", "mover"))["schedules"] == []
    shared.seq("policy", "rm", "mover")
