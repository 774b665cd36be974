"""The two forms of a benchmark behind one: slots that are reset, observed, stepped and checked.

A single benchmark is one slot around the handle its `reset` returns; a batched one has as many as declared. Every call
goes to the author's hooks, in the order and as often as docs/benchmarks.md promises.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

from seq import Condition as SeqCondition
from seq import Step
from seq.benchmark import declaration_of
from seq.contract.internal import Condition


class World(Protocol):
    """A benchmark whose `setup` has run. Slots are numbered from 0; lists are one item for each slot given."""

    def reset(self, slots: Sequence[int], conditions: Sequence[Condition]) -> None:
        """Start an episode in each slot."""

    def observe(self, slots: Sequence[int]) -> list[Any]:
        """The current observation of each slot."""

    def step(self, slots: Sequence[int], rows: Sequence[Any]) -> None:
        """Advance each slot by one action."""

    def check(self, slots: Sequence[int]) -> list[Step]:
        """What the benchmark says of each slot's last step."""

    def frame(self, slot: int, camera: str) -> Any:
        """An (H, W, 3) uint8 frame of `camera`; raises KeyError naming what there is where no such camera is."""

    def end(self, slot: int) -> None:
        """The slot's episode is over."""


def make_world(cls: type[Any], *, batched: bool, slots: int, setup_params: dict[str, Any]) -> World:
    """An instance of the benchmark with `setup` run once."""
    benchmark = cls()
    hooks = declaration_of(cls).hooks
    setup = hooks.get("setup")
    if setup is not None:
        call = getattr(benchmark, setup)
        call(slots, **setup_params) if batched else call(**setup_params)
    return BatchedWorld(benchmark, hooks) if batched else SingleWorld(benchmark, hooks)


class SingleWorld:
    """One slot: slot 0."""

    def __init__(self, benchmark: Any, hooks: dict[str, str]) -> None:
        self._reset = getattr(benchmark, hooks["reset"])
        self._check = getattr(benchmark, hooks["check"])
        self._handle: Any = None
        self._last: Any = None

    def reset(self, slots: Sequence[int], conditions: Sequence[Condition]) -> None:  # noqa: ARG002  one slot
        """`@seq.reset` answers the handle, or the handle and the first observation."""
        condition = as_seq_condition(conditions[0])
        made = self._reset(condition.seed, condition)
        self._handle, self._last = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if self._last is None and not hasattr(self._handle, "observe"):
            self._last = _first(self._handle.reset(seed=condition.seed))

    def observe(self, slots: Sequence[int]) -> list[Any]:  # noqa: ARG002
        """`handle.observe()` where there is one, else what reset or step last gave."""
        observe = getattr(self._handle, "observe", None)
        return [observe() if observe is not None else self._last]

    def step(self, slots: Sequence[int], rows: Sequence[Any]) -> None:  # noqa: ARG002
        """One `handle.step`; its answer may be an observation, a 5-tuple, a 4-tuple or None."""
        answer = self._handle.step(rows[0])
        if answer is not None:
            self._last = answer[0] if isinstance(answer, tuple) and len(answer) in (4, 5) else answer

    def check(self, slots: Sequence[int]) -> list[Step]:  # noqa: ARG002
        """`@seq.check` on the handle that reset returned."""
        return [_checked(self._check(self._handle))]

    def frame(self, slot: int, camera: str) -> Any:
        """`handle.render(camera)` (Gymnasium's `render()` has no camera to choose), else the observation's image."""
        render = getattr(self._handle, "render", None)
        if render is None:
            return image_of(self.observe([slot])[0], camera)
        return render(camera) if _takes_an_argument(render) else render()

    def end(self, slot: int) -> None:  # noqa: ARG002
        """Close the handle where it can be closed."""
        close = getattr(self._handle, "close", None)
        self._handle = self._last = None
        if close is not None:
            close()


class BatchedWorld:
    """All slots in one call of each hook."""

    def __init__(self, benchmark: Any, hooks: dict[str, str]) -> None:
        self._reset = getattr(benchmark, hooks["reset"])
        self._observe = getattr(benchmark, hooks["observation"])
        self._step = getattr(benchmark, hooks["step"])
        self._check = getattr(benchmark, hooks["check"])

    def reset(self, slots: Sequence[int], conditions: Sequence[Condition]) -> None:
        """`@seq.reset(slots, conditions)`."""
        self._reset(list(slots), [as_seq_condition(condition) for condition in conditions])

    def observe(self, slots: Sequence[int]) -> list[Any]:
        """`@seq.observation(slots)`."""
        return _one_each("observation", list(self._observe(list(slots))), slots)

    def step(self, slots: Sequence[int], rows: Sequence[Any]) -> None:
        """`@seq.step(slots, actions)`."""
        self._step(list(slots), list(rows))

    def check(self, slots: Sequence[int]) -> list[Step]:
        """`@seq.check(slots)`."""
        return [_checked(step) for step in _one_each("check", list(self._check(list(slots))), slots)]

    def frame(self, slot: int, camera: str) -> Any:
        """The slot's observation's own image."""
        return image_of(self.observe([slot])[0], camera)

    def end(self, slot: int) -> None:
        """Nothing: a slot is simply reset next."""


def as_seq_condition(condition: Condition) -> SeqCondition:
    """The planned episode as the author's own type."""
    limit = {} if condition.timeout_s is None else {"timeout_s": condition.timeout_s}
    return SeqCondition(
        condition.task,
        condition.seed,
        variation=tuple(condition.variation),
        max_steps=condition.max_steps,
        suite=condition.suite,
        **limit,
    )


def image_of(observation: Any, camera: str) -> Any:
    """The entry `camera` or `<camera>_image` of an observation; raises KeyError naming the entries there are."""
    keys = list(observation) if isinstance(observation, dict) else []
    for key in (camera, f"{camera}_image"):
        if key in keys:
            return observation[key]
    raise KeyError(f"no camera {camera!r}: the handle has no render() and the observation has {sorted(keys)}")


def _takes_an_argument(render: Any) -> bool:
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return any(parameter.kind not in kinds for parameter in inspect.signature(render).parameters.values())


def _first(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer


def _one_each(hook: str, answers: list[Any], slots: Sequence[int]) -> list[Any]:
    if len(answers) != len(slots):
        raise ValueError(f"@seq.{hook} answered {len(answers)} items for {len(slots)} slots; answer one each, in order")
    return answers


def _checked(step: Any) -> Step:
    if not isinstance(step, Step):
        raise TypeError(f"@seq.check returned a {type(step).__name__}; return seq.Step(done=..., metrics={{...}})")
    return step
