"""Conditions: the starts a benchmark is scored on, written as a list, sent as a product where they are one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq import _check as check
from seq.contract.benchmarks import Conditions, ListedCondition, Variant
from seq.errors import BenchmarkDefinitionError

MAX_LISTED = 5000


class _UnsetInt(int):
    """A default that nobody wrote: equal to its number, and told apart from the same number written out."""


class _UnsetFloat(float):
    """The same for a float."""


_MAX_STEPS = _UnsetInt(300)
_TIMEOUT_S = _UnsetFloat(120.0)


@dataclass(frozen=True)
class Condition:
    """One episode's start. `variation` is (axis, value) pairs; `max_steps`, `timeout_s` left out: the benchmark's."""

    task: str
    seed: int
    variation: tuple[tuple[str, str], ...] = ()
    max_steps: int = _MAX_STEPS
    timeout_s: float | None = _TIMEOUT_S
    suite: str | None = None

    def __post_init__(self) -> None:
        error, task = BenchmarkDefinitionError, self.task
        check.text("task", task, error, longest=200)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise error(f"the seed of task {task!r} must be an int, got {self.seed!r}")
        check.whole("max_steps", self.max_steps, error, low=1)
        if self.timeout_s is not None and check.number("timeout_s", self.timeout_s, error, low=0) == 0:
            raise error("timeout_s= must be above 0 seconds, got 0")
        if self.suite is not None:
            check.text("suite", self.suite, error, longest=200)
        object.__setattr__(self, "variation", _pairs(self.variation))

    @property
    def variation_dict(self) -> dict[str, str]:
        """Value by axis."""
        return dict(self.variation)

    @property
    def own_max_steps(self) -> int | None:
        """The step cap this condition wrote itself; None where the benchmark's holds."""
        return None if isinstance(self.max_steps, _UnsetInt) else self.max_steps

    @property
    def own_timeout_s(self) -> float | None:
        """The time limit this condition wrote itself, in seconds; None where the benchmark's (or none) holds."""
        return None if isinstance(self.timeout_s, _UnsetFloat) else self.timeout_s


@dataclass(frozen=True)
class Matrix:
    """Conditions as a registration carries them; `listed` is None when the product of `axes` says it all."""

    axes: Conditions
    listed: list[ListedCondition] | None
    suite_of: dict[str, str]
    max_steps: int
    timeout_s: float | None


def conditions(
    tasks: Iterable[str],
    seeds: Iterable[int],
    *,
    variants: Mapping[str, Sequence[str]] | None = None,
    max_steps: int = _MAX_STEPS,
    timeout_s: float | None = _TIMEOUT_S,
    suite_of: Mapping[str, str] | Callable[[str], str | None] | None = None,
) -> list[Condition]:
    """Every task with every combination of variants and every seed: tasks outermost, seeds innermost.

    `suite_of` names a task's suite. Raises BenchmarkDefinitionError on an empty or malformed axis.
    """
    names = _tasks(tasks)
    starts = _seeds(seeds)
    axes = _axes(variants or {})
    suite = suite_of if callable(suite_of) else dict(suite_of or {}).get
    combinations = list(itertools.product(*([(axis, value) for value in values] for axis, values in axes.items())))
    return [
        Condition(task, seed, variation, max_steps, timeout_s, suite(task))
        for task in names
        for variation in combinations
        for seed in starts
    ]


def expand(value: Any) -> tuple[Condition, ...]:
    """A benchmark's `conditions=` as conditions: a list, a wire `Conditions`, or a callable that returns either."""
    if callable(value):
        value = value()
    if isinstance(value, Conditions):
        value = conditions(value.tasks, value.seeds, variants={axis.axis: axis.values for axis in value.variants})
    if not isinstance(value, (list, tuple)):
        raise BenchmarkDefinitionError(
            f"conditions= must be seq.conditions(...) or a list of seq.Condition, got {value!r}"
        )
    for item in value:
        if not isinstance(item, Condition):
            raise BenchmarkDefinitionError(f"conditions= must hold seq.Condition(task, seed), got {item!r}")
    if not value:
        raise BenchmarkDefinitionError("conditions= is empty; a benchmark needs at least one condition")
    return tuple(value)


def collapse(listed: Sequence[Condition], *, max_steps: int, timeout_s: float | None) -> Matrix:
    """`listed` as a product where it is one, in order and with one step cap and time limit; else as the list it is."""
    caps = [condition.own_max_steps or max_steps for condition in listed]
    limits = [condition.own_timeout_s or timeout_s for condition in listed]
    axes = _axes_of(listed)
    suites = _suites_of(listed)
    if suites is not None and len(set(caps)) == 1 and len(set(limits)) == 1 and _is_product(listed, axes):
        return Matrix(axes, None, suites, caps[0], limits[0])
    if len(listed) > MAX_LISTED:
        raise BenchmarkDefinitionError(
            f"{len(listed)} conditions that are no product of tasks, variants, seeds; at most {MAX_LISTED} are listed"
        )
    rows = [
        ListedCondition(
            task=condition.task,
            seed=condition.seed,
            variant=condition.variation_dict,
            max_steps=condition.own_max_steps,
            timeout_s=condition.own_timeout_s,
            suite=condition.suite,
        )
        for condition in listed
    ]
    return Matrix(axes, rows, suites or {}, max_steps, timeout_s)


def _axes_of(listed: Sequence[Condition]) -> Conditions:
    """The values of each axis in order of appearance."""
    variants: dict[str, dict[str, None]] = {}
    for condition in listed:
        for axis, value in condition.variation:
            variants.setdefault(axis, {})[value] = None
    return Conditions(
        tasks=list(dict.fromkeys(condition.task for condition in listed)),
        seeds=list(dict.fromkeys(condition.seed for condition in listed)),
        variants=[Variant(axis=axis, values=list(values)) for axis, values in variants.items()],
    )


def _is_product(listed: Sequence[Condition], axes: Conditions) -> bool:
    whole = conditions(axes.tasks, axes.seeds, variants={axis.axis: axis.values for axis in axes.variants})
    return [(c.task, c.seed, c.variation) for c in whole] == [(c.task, c.seed, c.variation) for c in listed]


def _suites_of(listed: Sequence[Condition]) -> dict[str, str] | None:
    """Suite by task; None when a task is in more than one."""
    suites: dict[str, str | None] = {}
    for condition in listed:
        if suites.setdefault(condition.task, condition.suite) != condition.suite:
            return None
    return {task: suite for task, suite in suites.items() if suite is not None}


def _tasks(tasks: Any) -> list[str]:
    names = list(check.strings("tasks", tasks, BenchmarkDefinitionError, example='["reach", "push"]'))
    if not names:
        raise BenchmarkDefinitionError("tasks= is empty; name at least one task")
    return names


def _seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise BenchmarkDefinitionError(f"seeds= must be a list of ints, e.g. range(20), got {seeds!r}")
    starts = list(seeds)
    if not starts:
        raise BenchmarkDefinitionError("seeds= is empty; give at least one, e.g. range(20)")
    for seed in starts:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise BenchmarkDefinitionError(f"seeds= must hold ints, got {seed!r}")
    return starts


def _axes(variants: Any) -> dict[str, list[str]]:
    if not isinstance(variants, Mapping):
        raise BenchmarkDefinitionError(
            f'variants= must be a dict such as {{"surface": ["dry", "wet"]}}, got {variants!r}'
        )
    axes: dict[str, list[str]] = {}
    for axis, values in variants.items():
        check.text("variants axis", axis, BenchmarkDefinitionError, longest=200)
        axes[axis] = list(
            check.strings(f"variants[{axis!r}]", values, BenchmarkDefinitionError, example='["dry", "wet"]')
        )
        if not axes[axis]:
            raise BenchmarkDefinitionError(
                f"variants[{axis!r}] is empty; give the axis at least one value, or leave it out"
            )
    return axes


def _pairs(variation: Any) -> tuple[tuple[str, str], ...]:
    pairs = tuple(variation.items()) if isinstance(variation, Mapping) else tuple(tuple(pair) for pair in variation)
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(item, str) for item in pair):
            raise BenchmarkDefinitionError(f"variation= must be (axis, value) pairs of texts, got {pair!r}")
    return pairs
