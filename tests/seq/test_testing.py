"""The conformance checks accept what works and say what does not."""

import random

import pytest

import seq
from seq import testing

ACTION = seq.ActionContract(robot="arm", action_space="joint_absolute", action_dim=2, control_frequency_hz=10)


class _Env:
    def __init__(self, start):
        self.start = start

    def observe(self):
        return {"x": [self.start]}

    def step(self, action): ...


def _policy(policy_class, answer):
    infer = seq.infer(lambda self, obs: answer)
    observation = seq.ObservationContract(
        cameras={"front": seq.Camera(width=8, height=8)}, proprio={"joint_positions": 2}
    )
    return seq.policy(gpu="cpu", action=ACTION, observation=observation)(policy_class(infer=infer))


def _benchmark(benchmark_class, *, start=float, step=None):
    step = step or seq.Step(done=False, metrics={"success": False})
    members = {
        "reset": seq.reset(lambda self, seed, variant: _Env(start(seed))),
        "check": seq.check(lambda self, env: step),
    }
    return seq.benchmark(conditions=seq.conditions(["a", "b"], [1]), action_contract=ACTION)(benchmark_class(**members))


@pytest.mark.parametrize(
    "answer", [[[0.0, 1.0]], {"steps": [[0.0, 1.0]]}, {"steps": [{"index": 0, "values": [0.0, 1.0]}]}]
)
def test_a_policy_that_answers_rows_passes(policy_class, answer):
    """Rows, a chunk's dict and indexed rows are held to the action contract."""
    assert testing.check_policy(_policy(policy_class, answer)) == answer


@pytest.mark.parametrize(
    ("answer", "says"), [([[0.0]], "2 are declared"), ([[0.0, float("nan")]], "not finite"), ([], "without rows")]
)
def test_a_policy_that_answers_wrong_rows_fails(policy_class, answer, says):
    """The row and the reason are named."""
    with pytest.raises(AssertionError, match=says):
        testing.check_policy(_policy(policy_class, answer))


def test_a_policy_without_a_contract_needs_an_observation(policy_class):
    """There is nothing to make one from."""
    with pytest.raises(AssertionError, match="give check_policy one"):
        testing.check_policy(seq.policy(gpu="cpu")(policy_class()))


def test_a_benchmark_that_starts_alike_passes(benchmark_class):
    """One reset and step of each task."""
    testing.check_benchmark(_benchmark(benchmark_class))


def test_a_benchmark_that_starts_by_chance_fails(benchmark_class):
    """The seed must decide the start."""
    chance = random.Random(0)
    with pytest.raises(AssertionError, match="one seed differ"):
        testing.check_benchmark(_benchmark(benchmark_class, start=lambda seed: chance.random()))


@pytest.mark.parametrize(("step", "says"), [(seq.Step(done=True), "no metric"), (None.__class__, "return seq.Step")])
def test_a_benchmark_that_measures_nothing_fails(benchmark_class, step, says):
    """Without a metric and without `score` nothing could be reported; anything but a Step is refused."""
    with pytest.raises(AssertionError, match=says):
        testing.check_benchmark(_benchmark(benchmark_class, step=step))


def test_a_batched_benchmark_is_played_in_slots(benchmark_class):
    """Every hook is called with all slots and answers one each."""

    class Slots:
        def __init__(self):
            self.x = {}

        @seq.reset
        def reset(self, slots, conditions):
            self.x.update({slot: condition.seed for slot, condition in zip(slots, conditions, strict=True)})

        @seq.observation
        def observe(self, slots):
            return [{"x": self.x[slot]} for slot in slots]

        @seq.step
        def step(self, slots, actions):
            assert len(actions) == len(slots)

        @seq.check
        def check(self, slots):
            return [seq.Step(done=False, metrics={"x": self.x[slot]}) for slot in slots]

    Slots.__qualname__ = "Slots"
    testing.check_benchmark(seq.benchmark(conditions=seq.conditions(["a"], [1]))(Slots), slots=3)


def test_an_adapter_that_changes_its_input_fails(adapter_class):
    """An observation may be recorded after it was adapted, so it must stay as it is."""

    def spoil(obs):
        obs.clear()
        return obs

    cls = seq.adapter(adapter_class(obs_transforms=[seq.tf.custom("spoil", spoil, lossless=True)]))

    with pytest.raises(AssertionError, match="changes what it is given"):
        testing.check_adapter(cls, {"a": 1}, [[1.0]])
