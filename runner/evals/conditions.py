"""Which episodes an eval runs: a benchmark's conditions in their fixed order, filtered by what was asked for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from runner.errors import Refused
from seq.contract.benchmarks import BenchmarkRegisterRequest, Variant
from seq.contract.evals import EvalRequest
from seq.contract.internal import Condition

MAX_NAMES_SHOWN = 50


@dataclass(frozen=True)
class Start:
    """One condition of a benchmark before it is an episode: a task's start and how long it may take."""

    task: str
    seed: int
    variation: tuple[tuple[str, str], ...]
    suite: str | None
    max_steps: int
    timeout_s: float | None


def starts(benchmark: BenchmarkRegisterRequest) -> list[Start]:
    """Every condition of a benchmark: its list as written, else tasks x variant combinations x seeds (innermost)."""
    return _listed(benchmark) if benchmark.condition_list else _product(benchmark)


def selected(benchmark: BenchmarkRegisterRequest, request: EvalRequest) -> list[Start]:
    """The conditions an eval asks for, in the benchmark's order; raises Refused on a name that is not there."""
    every = starts(benchmark)
    _refuse_unknown(every, request)
    chosen = [start for start in every if _asked_for(start, request)]
    if not chosen:
        raise Refused(
            "invalid_request", "no episode is left: the suite, tasks and variants asked for have none in common"
        )
    return _first(chosen, request.trials)


def episodes(chosen: Sequence[Start], record: str) -> list[Condition]:
    """The planned episodes, numbered in order; `record` is per-task (the first of each task), all or none."""
    seen: set[str] = set()
    planned = []
    for index, start in enumerate(chosen):
        recorded = record == "all" or (record == "per-task" and start.task not in seen)
        seen.add(start.task)
        planned.append(_condition(index, start, recorded=recorded))
    return planned


def seeds_short(chosen: Sequence[Start], trials: int | None) -> int | None:
    """The most seeds a task has, when that is fewer than the trials asked for."""
    most = max(Counter((start.task, start.variation) for start in chosen).values())
    return most if trials is not None and most < trials else None


def _condition(index: int, start: Start, *, recorded: bool) -> Condition:
    return Condition(
        index=index,
        task=start.task,
        seed=start.seed,
        variation=list(start.variation),
        suite=start.suite,
        max_steps=start.max_steps,
        timeout_s=start.timeout_s,
        record=recorded,
    )


def _product(benchmark: BenchmarkRegisterRequest) -> list[Start]:
    given = benchmark.conditions
    combinations = [
        tuple(zip((axis.axis for axis in given.variants), values, strict=True))
        for values in product(*(axis.values for axis in given.variants))
    ]
    return [
        Start(task, seed, variation, benchmark.suite_of.get(task), benchmark.max_steps, benchmark.timeout_s)
        for task in given.tasks
        for variation in combinations
        for seed in given.seeds
    ]


def _listed(benchmark: BenchmarkRegisterRequest) -> list[Start]:
    return [
        Start(
            task=listed.task,
            seed=listed.seed,
            variation=_in_axis_order(listed.variant, benchmark.conditions.variants),
            suite=listed.suite or benchmark.suite_of.get(listed.task),
            max_steps=listed.max_steps or benchmark.max_steps,
            timeout_s=listed.timeout_s or benchmark.timeout_s,
        )
        for listed in benchmark.condition_list or []
    ]


def _in_axis_order(variant: dict[str, str], axes: list[Variant]) -> tuple[tuple[str, str], ...]:
    declared = [axis.axis for axis in axes if axis.axis in variant]
    others = [axis for axis in variant if axis not in declared]
    return tuple((axis, variant[axis]) for axis in (*declared, *others))


def _refuse_unknown(every: list[Start], request: EvalRequest) -> None:
    if request.suite is not None:
        _known("suite", [request.suite], (start.suite for start in every))
    if request.tasks is not None:
        _known("task", request.tasks, (start.task for start in every))
    for axis, values in (request.variants or {}).items():
        _known("variant axis", [axis], (name for start in every for name, _ in start.variation))
        _known(f"value of {axis!r}", values, (dict(start.variation).get(axis) for start in every))


def _asked_for(start: Start, request: EvalRequest) -> bool:
    variation = dict(start.variation)
    return (
        request.suite in (None, start.suite)
        and (request.tasks is None or start.task in request.tasks)
        and all(variation.get(axis) in values for axis, values in (request.variants or {}).items())
    )


def _first(given: list[Start], trials: int | None) -> list[Start]:
    """The first `trials` seeds of each task and variant combination."""
    if trials is None:
        return given
    taken: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    kept = []
    for start in given:
        group = (start.task, start.variation)
        taken[group] += 1
        if taken[group] <= trials:
            kept.append(start)
    return kept


def _known(kind: str, asked: Sequence[str], there: Iterable[str | None]) -> None:
    names = [name for name in dict.fromkeys(there) if name is not None]
    shown = ", ".join(names[:MAX_NAMES_SHOWN]) or "none"
    if not asked:
        raise Refused("invalid_request", f"name at least one {kind}, or leave it out for all of them: {shown}")
    unknown = [name for name in asked if name not in names]
    if unknown:
        detail = f"the benchmark has no {kind} {', '.join(map(repr, unknown))}"
        raise Refused("invalid_request", detail, hint=f"it has: {shown}")
