"""Playing episodes in slots: the order of calls, chunk borders, errors that stay in their episode."""

from pathlib import Path

import numpy as np
import pytest

from runner.engine.bridge import Bridge
from runner.engine.player import Player
from runner.engine.usercode import load_class
from runner.engine.worlds import SingleWorld, make_world
from seq.contract.internal import Condition, LeasedEpisode

SUPPORTS = str(Path(__file__).parents[2] / "supports")


def player(cls: str = "Line", *, slots: int = 1) -> Player:
    loaded = load_class(SUPPORTS, f"line_benchmark:{cls}")
    world = make_world(loaded, batched=cls == "Lines", slots=slots, setup_params={})
    return Player(world, Bridge(action_dim=1), None, SUPPORTS)


def lease(seed: int, task: str = "go", max_steps: int = 8) -> LeasedEpisode:
    return LeasedEpisode(condition=Condition(index=seed, task=task, seed=seed, max_steps=max_steps), attempt=1)


def chunk(*rows: float) -> dict:
    return {"outputs": {"steps": [[row] for row in rows]}}


def test_an_episode_asks_plays_a_chunk_and_asks_again() -> None:
    """The policy is asked at reset and when its chunk is used up; the observation is the one after the last row."""
    play = player()
    assert play.reset({0: lease(3)}).asks == {0: {"inputs": {"x": 0.0, "goal": 4.0}}}
    turn = play.play({0: chunk(1.0, 1.0)})
    assert turn.asks == {0: {"inputs": {"x": 2.0, "goal": 4.0}}}
    turn = play.play({0: chunk(1.0, 1.0, 1.0)})
    assert turn.asks == {}
    ended = turn.ended[0]
    assert (ended.steps, ended.terminated, ended.metrics) == (4, True, {"success": 1.0, "x": 4.0})


def test_rows_behind_the_end_are_not_played() -> None:
    """Once `check` says done, what is left of the chunk is dropped and the next episode starts empty."""
    play = player()
    play.reset({0: lease(0)})
    assert play.play({0: chunk(1.0, 50.0)}).ended[0].metrics["x"] == 1.0
    assert play.reset({0: lease(1)}).asks == {0: {"inputs": {"x": 0.0, "goal": 2.0}}}


def test_the_cap_ends_an_episode_mid_chunk() -> None:
    """The step cap is the condition's, whatever the chunk still holds."""
    play = player()
    play.reset({0: lease(7, max_steps=3)})
    ended = play.play({0: chunk(*[0.1] * 10)}).ended[0]
    assert (ended.steps, ended.truncated, ended.metrics["success"]) == (3, True, 0.0)


@pytest.mark.parametrize(("waited_s", "timed_out"), [(0.0, True), (1000.0, False)])
def test_a_wait_for_a_worker_does_not_time_an_episode_out(monkeypatch, waited_s: float, timed_out: bool) -> None:
    """The same 1000 s between the question and its answer: the policy's own count, the platform's do not."""
    moments = iter([0.0, 1000.0, 1000.0, 1000.0])
    monkeypatch.setattr("runner.engine.player.time.monotonic", lambda: next(moments))
    play, leased = player(), lease(3)
    limited = leased.condition.model_copy(update={"timeout_s": 5.0})
    play.reset({0: leased.model_copy(update={"condition": limited})})
    turn = play.play({0: {**chunk(1.0), "waited_s": waited_s}})
    assert [outcome.timed_out for outcome in turn.ended.values()] == ([True] if timed_out else [])


def test_an_exception_of_the_author_is_the_episodes_error() -> None:
    """It names the hook, the exception and the author's line; the next episode in the slot plays."""
    play = player()
    play.reset({0: lease(0, task="raises")})
    ended = play.play({0: chunk(1.0)}).ended[0]
    assert ended.error == "the benchmark's step failed: RuntimeError: the motor is stuck"
    assert 'line_benchmark.py", line' in ended.traceback
    assert SUPPORTS not in ended.traceback
    assert ended.metrics == {}
    play.reset({0: lease(0)})
    assert play.play({0: chunk(1.0)}).ended[0].metrics["success"] == 1.0


def test_a_bad_answer_closes_only_its_episode() -> None:
    """NaN from a policy is that episode's error; nothing of the chunk is stepped."""
    play = player("Lines", slots=2)
    play.reset({0: lease(2), 1: lease(2)})
    turn = play.play({0: chunk(float("nan")), 1: chunk(1.0)})
    assert "row 0, dimension 0 of the answer is nan" in turn.ended[0].error
    assert turn.ended[0].steps == 0
    turn = turn if 1 in turn.asks else play.play({})
    assert turn.asks[1] == {"inputs": {"x": 1.0, "goal": 3.0}}


def test_slots_of_a_batched_benchmark_step_in_one_call() -> None:
    """All slots that hold rows advance together, and each gets the result it would have had alone."""
    play = player("Lines", slots=3)
    play.reset({slot: lease(slot) for slot in range(3)})
    outcomes = {}
    turn = play.play({slot: chunk(1.0, 1.0, 1.0) for slot in range(3)})
    while True:
        outcomes.update({slot: ended.steps for slot, ended in turn.ended.items()})
        if len(outcomes) == 3:
            break
        turn = play.play({slot: chunk(1.0) for slot in turn.asks})
    assert outcomes == {0: 1, 1: 2, 2: 3}
    assert play._world._step.__self__.calls[0] == [0, 1, 2]


def test_an_error_from_outside_closes_the_slot() -> None:
    """A policy that failed closes its episode with the policy's own words."""
    play = player()
    play.reset({0: lease(1)})
    outcome = play.fail(0, "the policy failed: ValueError: no", "trace")
    assert (outcome.error, outcome.traceback) == ("the policy failed: ValueError: no", "trace")


class Gym:
    """A Gymnasium-style handle without observe()."""

    def __init__(self):
        self.resets = []

    def reset(self, seed):
        self.resets.append(seed)
        return {"first": seed}, {}

    def step(self, action):
        return {"at": float(action[0])}, 0.0, False, False, {}


class Held:
    """Benchmarks whose reset answers a handle, or a handle and the first observation."""

    def __init__(self, answer):
        self.answer = answer

    def reset(self, seed, variant):
        return self.answer

    def check(self, env):
        raise AssertionError("not asked here")


HOOKS = {"reset": "reset", "check": "check"}


def test_a_handle_with_no_observation_is_reset_once_with_the_seed() -> None:
    """sdk.md D13: a plain Gymnasium env gets one `reset(seed=)` and its step's first item is the observation."""
    handle = Gym()
    world = SingleWorld(Held(handle), HOOKS)
    world.reset([0], [lease(5).condition])
    assert handle.resets == [5]
    assert world.observe([0]) == [{"first": 5}]
    world.step([0], [np.array([2.0])])
    assert world.observe([0]) == [{"at": 2.0}]


def test_a_first_observation_given_by_reset_is_used() -> None:
    """sdk.md D13: `(handle, first_observation)` spares the second reset."""
    handle = Gym()
    world = SingleWorld(Held((handle, {"given": 1})), HOOKS)
    world.reset([0], [lease(5).condition])
    assert handle.resets == []
    assert world.observe([0]) == [{"given": 1}]


def test_a_check_that_returns_no_step_is_named() -> None:
    """Anything but a Step is refused with what to return."""
    benchmark = Held(Gym())
    benchmark.check = lambda env: True
    world = SingleWorld(benchmark, HOOKS)
    world.reset([0], [lease(0).condition])
    with pytest.raises(TypeError, match=r"return seq\.Step"):
        world.check([0])
