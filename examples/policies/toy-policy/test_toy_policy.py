"""toy-policy goes to its goal, at most at its speed."""

from pathlib import Path

import pytest

from seq import targets, testing

ToyPolicy = targets.load(str(Path(__file__).with_name("policy.py")))


def test_deploys():
    """The class is a policy that the platform takes, and answers an observation."""
    testing.check_policy(ToyPolicy, {"state": [0.0], "goal": [1.0]})


@pytest.mark.parametrize("goal", [0.12, -0.3, 0.0])
def test_moves_towards_the_goal_and_stops_there(goal: float):
    """The rows add up to the way to the goal where they reach it, and no row is longer than a step at full speed."""
    rows = ToyPolicy().infer({"state": [0.0], "goal": [goal]}, rows=8)["delta"]

    assert sum(delta for (delta,) in rows) == pytest.approx(goal)
    assert max(abs(delta) for (delta,) in rows) <= 0.05 + 1e-12
