"""Checks to run on one's own content, in its own tests: the ones that the shipped content passes.

Each raises AssertionError with a sentence saying what does not hold; nothing is sent and no platform is needed.
"""

from __future__ import annotations

import base64
import copy
import inspect
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq.adapter import classify
from seq.adapter import declaration_of as adapter_of
from seq.benchmark import BenchmarkDeclaration
from seq.benchmark import declaration_of as benchmark_of
from seq.conditions import Condition
from seq.contract.robot import ActionContract, ObservationContract
from seq.episodes import Step
from seq.policy import declaration_of as policy_of
from seq.validate import validate


@dataclass(frozen=True)
class Adapted:
    """What an adapter made of the two samples, and whether any step loses something."""

    observation: Any
    rows: Any
    lossy: bool


def synthetic_observation(contract: ObservationContract) -> dict[str, Any]:
    """The observation a build is proven with: black frames, zero vectors and an instruction, as an act carries them."""
    images = [
        {"view": view, "data": _black(camera.width, camera.height)}
        for view, camera in contract.cameras.items()
        for _ in range(contract.history)
    ]
    proprioception = {"joint_positions": [], **{name: [0.0] * length for name, length in contract.proprio.items()}}
    observation: dict[str, Any] = {"images": images, "proprioception": proprioception, "instruction": "do the task"}
    if contract.state:
        observation["state"] = {name: [0.0] * length for name, length in contract.state.items()}
    return observation


def check_policy(cls: type, observation: Any = None, weights_dir: str | None = None) -> Any:
    """Declares, loads, warms up and answers: `infer`'s value on `observation` (else one made from the contract).

    A chunk's rows are held to the declared action contract: their length, and finite numbers.
    """
    validate(cls)
    declared = policy_of(cls)
    if observation is None:
        _hold(
            declared.observation is not None,
            f"{declared.name} declares no observation=; give check_policy one to infer on",
        )
        observation = synthetic_observation(declared.observation or ObservationContract())
    instance, hooks = cls(), declared.hooks
    if "load" in hooks:
        load = getattr(instance, hooks["load"])
        load(weights_dir) if inspect.signature(load).parameters else load()
    if "warmup" in hooks:
        getattr(instance, hooks["warmup"])()
    answer = getattr(instance, hooks["infer"])(_typed(observation, preset=declared.preset))
    if declared.action is not None:
        _check_rows(_rows_of(answer), declared.action)
    if "shutdown" in hooks:
        getattr(instance, hooks["shutdown"])()
    return answer


def check_benchmark(cls: type, slots: int = 2) -> None:
    """Resets, observes, steps and checks every task once; the same start twice gives the same first observation.

    A batched benchmark runs with `slots` slots.
    """
    validate(cls)
    declared = benchmark_of(cls)
    firsts: dict[str, Condition] = {}
    for condition in declared.conditions:
        firsts.setdefault(condition.task, condition)
    play = _play_batched if declared.batched else _play_single
    play(cls(), declared, list(firsts.values()), slots)


def check_adapter(cls: type, observation: Any, chunk: Any) -> Adapted:
    """Takes `observation` and `chunk` through an instance's pipelines; neither sample is changed, rows come out finite.

    `chunk` is rows `(rows, dim)`, or `infer`'s value for `policy_io="own"`.
    """
    validate(cls)
    adapter = cls()
    labels = classify(adapter)
    before = copy.deepcopy((observation, chunk))
    seen, rows = adapter.obs(observation), adapter.action(chunk)
    _hold(
        _same((observation, chunk), before),
        f"{adapter_of(cls).name} changes what it is given; make a new value instead",
    )
    _hold(len(rows) > 0, f"{adapter_of(cls).name}.action gave no rows")
    for number, row in enumerate(rows):
        _check_row(number, row, None)
    return Adapted(seen, rows, any(label.kind == "lossy" for label in labels))


def _play_single(benchmark: Any, declared: BenchmarkDeclaration, conditions: Sequence[Condition], _slots: int) -> None:
    hooks = declared.hooks
    if "setup" in hooks:
        getattr(benchmark, hooks["setup"])()
    for condition in conditions:
        first = _begin(benchmark, hooks, condition)
        handle = _begin(benchmark, hooks, condition)
        _hold(
            _same(first.observation, handle.observation), f"{condition.task}: two resets with one seed differ at once"
        )
        handle.env.step(_idle(declared.action_contract))
        _check_step(getattr(benchmark, hooks["check"])(handle.env), declared)


def _play_batched(benchmark: Any, declared: BenchmarkDeclaration, conditions: Sequence[Condition], slots: int) -> None:
    hooks = declared.hooks
    if "setup" in hooks:
        getattr(benchmark, hooks["setup"])(slots)
    everyone = list(range(slots))
    for condition in conditions:
        seen = []
        for _ in range(2):
            getattr(benchmark, hooks["reset"])(everyone, [condition] * slots)
            seen.append(copy.deepcopy(list(getattr(benchmark, hooks["observation"])(everyone))))
        _hold(_same(*seen), f"{condition.task}: two resets with one seed differ at once")
        _hold(len(seen[0]) == slots, f"@seq.observation gave {len(seen[0])} observations for {slots} slots")
        getattr(benchmark, hooks["step"])(everyone, [_idle(declared.action_contract)] * slots)
        steps = list(getattr(benchmark, hooks["check"])(everyone))
        _hold(len(steps) == slots, f"@seq.check gave {len(steps)} steps for {slots} slots")
        for step in steps:
            _check_step(step, declared)


@dataclass(frozen=True)
class _Begun:
    """An episode's environment and what it showed first."""

    env: Any
    observation: Any


def _begin(benchmark: Any, hooks: Mapping[str, str], condition: Condition) -> _Begun:
    made = getattr(benchmark, hooks["reset"])(condition.seed, condition)
    env, observation = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    _hold(hasattr(env, "step"), f"@seq.reset returned a {type(env).__name__} without step(action)")
    if hasattr(env, "observe"):
        observation = env.observe()
    elif observation is None:
        observation = env.reset(seed=condition.seed)
    return _Begun(env, copy.deepcopy(observation))


def _check_step(step: Any, declared: BenchmarkDeclaration) -> None:
    _hold(
        isinstance(step, Step),
        f"@seq.check returned a {type(step).__name__}; return seq.Step(done=..., metrics={{...}})",
    )
    scored = bool(step.metrics) or "score" in declared.hooks
    _hold(scored, f"{declared.name}: @seq.check gives no metric and there is no @seq.score; nothing could be reported")


def _idle(action: ActionContract | None) -> list[float]:
    """An action in the middle of the bounds; zeros without them."""
    if action is None:
        return [0.0]
    return [(low + high) / 2 for low, high in action.bounds] if action.bounds else [0.0] * action.action_dim


def _typed(observation: Any, *, preset: bool) -> Any:
    from seq.presets.robot_arm import Observation  # noqa: PLC0415  only where a policy asks for it

    return Observation.from_wire(observation) if preset and isinstance(observation, dict) else observation


def _rows_of(answer: Any) -> list[Any]:
    steps = answer["steps"] if isinstance(answer, Mapping) else getattr(answer, "steps", answer)
    return [row["values"] if isinstance(row, Mapping) else getattr(row, "values", row) for row in steps]


def _check_rows(rows: Sequence[Any], action: ActionContract) -> None:
    _hold(len(rows) > 0, "infer gave a chunk without rows")
    for number, row in enumerate(rows):
        _check_row(number, row, action.action_dim)


def _check_row(number: int, row: Any, dim: int | None) -> None:
    _hold(dim is None or len(row) == dim, f"row {number} has {len(row)} numbers; {dim} are declared")
    _hold(all(math.isfinite(value) for value in row), f"row {number} holds a number that is not finite")


def _same(one: Any, other: Any) -> bool:
    """Equal to the last bit, arrays included."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if hasattr(one, "tobytes") and hasattr(other, "tobytes"):
        return bool(one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes())
    return bool(one == other)


def _black(width: int, height: int) -> str:
    from PIL import Image  # noqa: PLC0415  only a policy with cameras needs Pillow

    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, format="JPEG")
    return base64.b64encode(buffer.getvalue()).decode()


def _hold(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)
