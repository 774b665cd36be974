"""Playing episodes in slots: the order of calls, chunk borders, errors that stay in their episode."""

import gzip
import json

import numpy as np
import pytest

from runner.engine.bridge import Bridge
from runner.engine.player import EvalBrokenError
from runner.engine.policy import Anew, Failed
from runner.engine.seeds import act_seed
from runner.engine.worlds import SingleWorld

from .conftest import SUPPORTS, lease, rows


def test_an_episode_asks_plays_a_chunk_and_asks_again(play) -> None:
    """The policy is asked at reset and when its chunk is used up; the observation is the one after the last row."""
    played = play([lease(3)], lambda slot, ask: rows(1.0, 1.0))
    assert played.bodies == [{0: {"x": 0.0, "goal": 4.0}}, {0: {"x": 2.0, "goal": 4.0}}]
    ended = played.outcomes[3]
    assert (ended.steps, ended.acts, ended.terminated, ended.metrics) == (4, 2, True, {"success": 1.0, "x": 4.0})


def test_every_act_carries_a_seed_of_its_own(play) -> None:
    """Hashed from the episode's seed and the act's number, so that a rerun gets the same ones; one id an episode."""
    played = play([lease(3), lease(1)], lambda slot, ask: rows(1.0))
    seeds = [asks[0].seed for asks in played.policy.asked]
    assert seeds == [act_seed(3, act) for act in range(4)] + [act_seed(1, act) for act in range(2)]
    ids = [asks[0].episode_id for asks in played.policy.asked]
    assert len(set(ids)) == 2
    assert played.policy.ended == list(dict.fromkeys(ids))


def test_rows_behind_the_end_are_not_played(play) -> None:
    """Once `check` says done, what is left of the chunk is dropped and the next episode starts empty."""
    played = play([lease(0), lease(1)], lambda slot, ask: rows(1.0, 1.0, 50.0))
    assert played.outcomes[0].metrics["x"] == 1.0
    assert played.bodies[1] == {0: {"x": 0.0, "goal": 2.0}}
    assert played.outcomes[1].metrics["x"] == 2.0


def test_the_cap_ends_an_episode_mid_chunk(play) -> None:
    """The step cap is the condition's, whatever the chunk still holds."""
    ended = play([lease(7, max_steps=3)], lambda slot, ask: rows(*[0.1] * 10)).outcomes[7]
    assert (ended.steps, ended.truncated, ended.metrics["success"]) == (3, True, 0.0)


@pytest.mark.parametrize(("waited_s", "timed_out"), [(0.0, True), (1000.0, False)])
def test_a_wait_for_a_worker_does_not_time_an_episode_out(monkeypatch, play, waited_s: float, timed_out: bool) -> None:
    """The same 1000 s between the question and its answer: the policy's own count, the platform's do not."""
    now = [0.0]
    monkeypatch.setattr("runner.engine.player.time.monotonic", lambda: now[0])

    def slowly(slot, ask):
        now[0] = 1000.0
        return rows(1.0, waited_s=waited_s)

    ended = play([lease(3, timeout_s=5.0)], slowly).outcomes[3]
    assert ended.timed_out is timed_out


def test_an_exception_of_the_author_is_the_episodes_error(play) -> None:
    """It names the hook, the exception and the author's line; the next episode in the slot plays."""
    played = play([lease(1, task="raises"), lease(0)], lambda slot, ask: rows(1.0))
    ended = played.outcomes[1]
    assert ended.error == "the benchmark's step failed: RuntimeError: the motor is stuck"
    assert 'line_benchmark.py", line' in ended.traceback
    assert SUPPORTS not in ended.traceback
    assert ended.metrics == {}
    assert played.outcomes[0].metrics["success"] == 1.0


def test_a_bad_answer_closes_only_its_episode(play) -> None:
    """NaN from a policy is that episode's error; nothing of the chunk is stepped, the other slot plays on."""
    played = play([lease(2), lease(3)], lambda slot, ask: rows(float("nan") if slot == 0 else 1.0), "Lines", slots=2)
    assert "row 0, dimension 0 of the answer is nan" in played.outcomes[2].error
    assert played.outcomes[2].steps == 0
    assert played.outcomes[3].metrics == {"success": 1.0}


def test_slots_of_a_batched_benchmark_step_in_one_call(play) -> None:
    """All slots that hold rows advance together, and each gets the result it would have had alone."""
    played = play([lease(seed) for seed in range(3)], lambda slot, ask: rows(1.0, 1.0, 1.0), "Lines", slots=3)
    assert {index: ended.steps for index, ended in played.outcomes.items()} == {0: 1, 1: 2, 2: 3}
    assert played.world._step.__self__.calls[0] == [0, 1, 2]


def test_a_slot_refilled_in_the_middle_of_a_chunk_joins_the_next_query(play) -> None:
    """It is reset at once, and asks together with the slots that play their chunk to its end: one trip for all."""
    episodes = [lease(0), lease(3), lease(2)]
    played = play(episodes, lambda slot, ask: rows(1.0, 1.0, 1.0, 1.0), "Lines", slots=2)
    assert [sorted(asks) for asks in played.policy.asked] == [[0, 1], [0]]
    played = play([lease(0), lease(7), lease(2)], lambda slot, ask: rows(1.0, 1.0, 1.0, 1.0), "Lines", slots=2)
    assert [sorted(asks) for asks in played.policy.asked] == [[0, 1], [0, 1]]


def test_an_error_from_outside_closes_the_episode(play) -> None:
    """A policy that failed closes its episode with the policy's own words; an episode of before stands."""
    script = {4: Failed("the policy failed: ValueError: no", "trace")}
    played = play([lease(0), lease(4)], lambda slot, ask: script.get(int(ask.body["inputs"]["goal"]) - 1, rows(1.0)))
    assert (played.outcomes[4].error, played.outcomes[4].traceback) == ("the policy failed: ValueError: no", "trace")
    assert played.outcomes[0].error is None


def test_a_streaming_policy_that_lost_its_state_begins_the_episode_anew(play) -> None:
    """From reset, with an id of its own and the same seeds; the outcome counts it."""
    acts = []

    def script(slot, ask):
        acts.append((ask.seed, ask.episode_id, dict(ask.body["inputs"])))
        return Anew("the copy died") if len(acts) == 2 else rows(1.0)

    ended = play([lease(2)], script).outcomes[2]
    assert (ended.restarts, ended.steps, ended.acts, ended.metrics["x"]) == (1, 3, 3, 3.0)
    assert [x["x"] for _, _, x in acts] == [0.0, 1.0, 0.0, 1.0, 2.0]
    assert [seed for seed, _, _ in acts[2:]] == [act_seed(2, act) for act in range(3)]
    assert acts[0][1] == acts[1][1] != acts[2][1]


def test_an_interval_longer_than_the_first_answer_ends_the_eval(play) -> None:
    """With the largest value that would do; a later answer that is shorter is its episode's error alone."""
    with pytest.raises(EvalBrokenError, match="use at most 2"):
        play([lease(3)], lambda slot, ask: rows(1.0, 1.0), bridge=Bridge(action_dim=1, steps_per_query=3))
    lengths = iter([2, 1, 2])
    bridge = Bridge(action_dim=1, steps_per_query=2)
    played = play([lease(3), lease(0)], lambda slot, ask: rows(*[1.0] * next(lengths)), bridge=bridge)
    assert "use at most 1" in played.outcomes[3].error
    assert played.outcomes[0].error is None


def test_a_trajectory_tells_what_was_seen_and_played(play) -> None:
    """A line an act with its seed, the rows that were played and no more, and how it ended."""
    played = play([lease(2)], lambda slot, ask: rows(1.0, 1.0))
    text = gzip.decompress((played.folder / "2" / "1" / "trajectory.jsonl.gz").read_bytes()).decode()
    first, second, end = map(json.loads, text.splitlines())
    assert first == {
        "act": 0,
        "seed": act_seed(2, 0),
        "step": 0,
        "observation": {"x": 0.0, "goal": 3.0},
        "actions": [[1.0], [1.0]],
    }
    assert (second["act"], second["seed"], second["step"]) == (1, act_seed(2, 1), 2)
    assert second["actions"] == [[1.0]]
    assert end["end"]["metrics"] == {"success": 1.0, "x": 3.0}
    assert played.outcomes[2].trajectory


def test_a_trajectory_that_cannot_be_written_costs_no_score(play, tmp_path) -> None:
    """The disk is full, or the folder is not to be written: it is told, and the episode counts."""
    (tmp_path / "files").write_text("in the way")
    ended = play([lease(0)], lambda slot, ask: rows(1.0)).outcomes[0]
    assert "the trajectory could not be written" in ended.record_error
    assert (ended.trajectory, ended.metrics["success"]) == (False, 1.0)


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
