"""toy-benchmark starts unsolved, moves as told, and says when the goal is reached."""

import sys
from pathlib import Path

import pytest

import seq
from seq import targets, testing

ToyBenchmark = targets.load(str(Path(__file__).with_name("benchmark.py")))
TASKS = vars(sys.modules["benchmark"])["TASKS"]


def _started(task: str, seed: int):
    benchmark = ToyBenchmark()
    benchmark.setup()
    return benchmark, benchmark.reset(seed, seq.Condition(task, seed))


def test_registers():
    """The class is a benchmark that the platform takes, and each task resets, steps and is checked."""
    testing.check_benchmark(ToyBenchmark)


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_solved_at_the_start(task: str):
    """No seed of any task begins at its goal."""
    for seed in range(8):
        benchmark, env = _started(task, seed)
        assert not benchmark.check(env).done


@pytest.mark.parametrize("task", TASKS)
def test_driving_to_the_goal_succeeds_before_the_cap(task: str):
    """Full steps towards the goal end every episode with success, well before 40 steps."""
    for seed in range(8):
        benchmark, env = _started(task, seed)
        steps = 0
        while not (verdict := benchmark.check(env)).done:
            env.step([env.goal - env.position])
            steps += 1
        assert verdict.metrics["success"] == 1.0
        assert steps < 30


def test_a_step_is_at_most_what_the_motor_does():
    """A command beyond the bounds moves the point by 0.05 m."""
    _, env = _started("left", 0)
    before = env.position

    env.step([9.0])

    assert env.position == pytest.approx(before + 0.05)
