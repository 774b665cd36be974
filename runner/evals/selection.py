"""Which starts an eval plays: a benchmark's conditions in their fixed order, filtered by what was asked for. Pure.

Starts that differ in their seed alone are one block, and its seeds are kept as ranges: a million of them are a few
numbers, and none is an object before it is played.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runner.errors import Refused
from seq.contract.benchmarks import BenchmarkRegisterRequest, Variant
from seq.contract.evals import EvalRequest
from seq.contract.internal import Condition

Record = Literal["per-task", "all", "none"]
Ranges = tuple[tuple[int, int], ...]
"""Whole numbers in their order, as (first, how many) of each run of consecutive ones."""

MAX_NAMES_SHOWN = 50
_BITS = (1 << 62) - 1


@dataclass(frozen=True)
class Block:
    """Starts of one task, suite and variation, with the same limits, seed after seed."""

    task: str
    suite: str | None
    variation: tuple[tuple[str, str], ...]
    max_steps: int
    timeout_s: float | None
    seeds: Ranges

    def __len__(self) -> int:
        return count(self.seeds)

    def of(self, seeds: Ranges) -> Block:
        """The same starts with other seeds."""
        return Block(self.task, self.suite, self.variation, self.max_steps, self.timeout_s, seeds)

    def seed(self, place: int) -> int:
        """The seed at that place; raises IndexError past the end."""
        run = bisect_right(self._ends, place)
        first, size = self.seeds[run]
        return first + place - (self._ends[run] - size)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(size for _, size in self.seeds))


@dataclass(frozen=True)
class Selection:
    """The starts of an eval, numbered from 0 in order; `record` says which of them are recorded."""

    blocks: tuple[Block, ...]
    record: Record = "none"

    def __len__(self) -> int:
        return self._ends[-1] if self.blocks else 0

    def condition(self, start: int, index: int) -> Condition:
        """The start of that number as the episode `index` plays it."""
        block, offset = self._located(start)
        return Condition(
            index=index,
            task=block.task,
            seed=block.seed(offset),
            variation=list(block.variation),
            suite=block.suite,
            max_steps=block.max_steps,
            timeout_s=block.timeout_s,
            record=self.record == "all" or (self.record == "per-task" and start in self._first_of_tasks),
        )

    def conditions(self) -> Iterator[Condition]:
        """Every start in order, each as the episode of its own number."""
        return (self.condition(start, start) for start in range(len(self)))

    def only(self, starts: Iterable[int]) -> Selection:
        """These starts, in their order, as a selection of its own."""
        found: list[tuple[Block, list[int]]] = []
        for start in starts:
            block, offset = self._located(start)
            if not found or found[-1][0] is not block:
                found.append((block, []))
            found[-1][1].append(block.seed(offset))
        return Selection(tuple(block.of(ranges(seeds)) for block, seeds in found), self.record)

    def block_of(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The block's number of each start, both of shape (n,)."""
        return np.searchsorted(np.asarray(self._ends), starts, side="right").astype(np.int64)

    def seeds_of(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number for the seed of each start, both of shape (n,); the seed itself where 62 bits can hold it."""
        runs = [run for block in self.blocks for run in block.seeds]
        ends = np.cumsum([size for _, size in runs])
        run = np.searchsorted(ends, starts, side="right")
        firsts = np.asarray([first if -_BITS <= first <= _BITS else first & _BITS for first, _ in runs], dtype=np.int64)
        begins = np.concatenate([[0], ends[:-1]])
        numbers: NDArray[np.int64] = firsts[run] + starts - begins[run]
        return numbers

    @property
    def seeds(self) -> list[int]:
        """The different seeds, sorted; of a very large selection the first thousand."""
        runs = {run for block in self.blocks for run in block.seeds}
        found = chain.from_iterable(range(first, first + min(size, 1000)) for first, size in runs)
        return sorted(set(found))[:1000]

    @property
    def distinct(self) -> int:
        """How many different starts there are: of one task and seed, whatever the variant or however often listed."""
        by_task: dict[str, set[tuple[int, int]]] = {}
        for block in self.blocks:
            by_task.setdefault(block.task, set()).update(block.seeds)
        return sum(_covered(runs) for runs in by_task.values())

    def wire(self) -> dict[str, Any]:
        """As an eval's row keeps it."""
        return {
            "record": self.record,
            "blocks": [
                {
                    "task": block.task,
                    "suite": block.suite,
                    "variation": [list(pair) for pair in block.variation],
                    "max_steps": block.max_steps,
                    "timeout_s": block.timeout_s,
                    "seeds": [list(run) for run in block.seeds],
                }
                for block in self.blocks
            ],
        }

    @staticmethod
    def of_wire(body: dict[str, Any]) -> Selection:
        """What `wire` wrote."""
        return Selection(
            tuple(
                Block(
                    block["task"],
                    block["suite"],
                    tuple((axis, value) for axis, value in block["variation"]),
                    block["max_steps"],
                    block["timeout_s"],
                    tuple((first, size) for first, size in block["seeds"]),
                )
                for block in body["blocks"]
            ),
            body["record"],
        )

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(block) for block in self.blocks))

    @cached_property
    def _first_of_tasks(self) -> frozenset[int]:
        first: dict[str, int] = {}
        for block, end in zip(self.blocks, self._ends, strict=True):
            first.setdefault(block.task, end - len(block))
        return frozenset(first.values())

    def _located(self, start: int) -> tuple[Block, int]:
        number = bisect_right(self._ends, start)
        return self.blocks[number], start - (self._ends[number] - len(self.blocks[number]))


def select(benchmark: BenchmarkRegisterRequest, request: EvalRequest, record: Record) -> Selection:
    """The starts an eval asks for, in the benchmark's order; raises Refused on a name that is not there."""
    every = blocks(benchmark)
    _refuse_unknown(every, request)
    chosen = [block for block in every if _asked_for(block, request)]
    if not chosen:
        raise Refused(
            "invalid_request", "no episode is left: the suite, tasks and variants asked for have none in common"
        )
    return Selection(tuple(_first(chosen, request.trials)), record)


def blocks(benchmark: BenchmarkRegisterRequest) -> list[Block]:
    """Every condition of a benchmark: its list as written, else tasks x variant combinations x seeds (innermost)."""
    return _listed(benchmark) if benchmark.condition_list else _product(benchmark)


def seeds_short(selection: Selection, trials: int | None) -> int | None:
    """The most seeds a task has, when that is fewer than the trials asked for."""
    there: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for block in selection.blocks:
        there[block.task, block.variation] += len(block)
    most = max(there.values())
    return most if trials is not None and most < trials else None


def ranges(numbers: Iterable[int]) -> Ranges:
    """Numbers in their order as ranges."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return tuple((first, size) for first, size in runs)


def span(given: Sequence[Sequence[int]], begin: int, most: int) -> Iterator[int]:
    """Up to `most` numbers of ranges from the place `begin` on."""
    for first, size in given:
        if begin >= size:
            begin -= size
            continue
        taken = min(size - begin, most)
        yield from range(first + begin, first + begin + taken)
        most -= taken
        begin = 0
        if not most:
            return


def contains(given: Sequence[Sequence[int]], number: int) -> bool:
    """Whether ranges hold a number."""
    return any(first <= number < first + size for first, size in given)


def count(given: Sequence[Sequence[int]]) -> int:
    """How many numbers ranges hold."""
    return sum(size for _, size in given)


def counter(given: Sequence[Sequence[int]]) -> Callable[[int], int]:
    """How many numbers of ascending ranges lie below a number, as a function of that number."""
    firsts = [first for first, _ in given]
    sums = [0, *accumulate(size for _, size in given)]

    def below(number: int) -> int:
        last = bisect_left(firsts, number) - 1
        return 0 if last < 0 else sums[last] + min(given[last][1], number - firsts[last])

    return below


def _covered(runs: Iterable[tuple[int, int]]) -> int:
    """How many different numbers ranges hold between them."""
    covered, reached = 0, None
    for first, size in sorted(runs):
        begin = first if reached is None else max(first, reached)
        end = first + size
        covered += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return covered


def _product(benchmark: BenchmarkRegisterRequest) -> list[Block]:
    given, seeds = benchmark.conditions, ranges(benchmark.conditions.seeds)
    combinations = [
        tuple(zip((axis.axis for axis in given.variants), values, strict=True))
        for values in product(*(axis.values for axis in given.variants))
    ]
    return [
        Block(task, benchmark.suite_of.get(task), variation, benchmark.max_steps, benchmark.timeout_s, seeds)
        for task in given.tasks
        for variation in combinations
    ]


def _listed(benchmark: BenchmarkRegisterRequest) -> list[Block]:
    found: list[tuple[Block, list[int]]] = []
    for listed in benchmark.condition_list or []:
        block = Block(
            task=listed.task,
            suite=listed.suite or benchmark.suite_of.get(listed.task),
            variation=_in_axis_order(listed.variant, benchmark.conditions.variants),
            max_steps=listed.max_steps or benchmark.max_steps,
            timeout_s=listed.timeout_s or benchmark.timeout_s,
            seeds=(),
        )
        if found and found[-1][0] == block:
            found[-1][1].append(listed.seed)
        else:
            found.append((block, [listed.seed]))
    return [block.of(ranges(seeds)) for block, seeds in found]


def _in_axis_order(variant: dict[str, str], axes: list[Variant]) -> tuple[tuple[str, str], ...]:
    declared = [axis.axis for axis in axes if axis.axis in variant]
    others = [axis for axis in variant if axis not in declared]
    return tuple((axis, variant[axis]) for axis in (*declared, *others))


def _refuse_unknown(every: list[Block], request: EvalRequest) -> None:
    if request.suite is not None:
        _known("suite", [request.suite], (block.suite for block in every))
    if request.tasks is not None:
        _known("task", request.tasks, (block.task for block in every))
    for axis, values in (request.variants or {}).items():
        _known("variant axis", [axis], (name for block in every for name, _ in block.variation))
        _known(f"value of {axis!r}", values, (dict(block.variation).get(axis) for block in every))


def _asked_for(block: Block, request: EvalRequest) -> bool:
    variation = dict(block.variation)
    return (
        request.suite in (None, block.suite)
        and (request.tasks is None or block.task in request.tasks)
        and all(variation.get(axis) in values for axis, values in (request.variants or {}).items())
    )


def _first(given: list[Block], trials: int | None) -> Iterator[Block]:
    """The first `trials` seeds of each task and variant combination."""
    taken: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for block in given:
        left = len(block) if trials is None else min(len(block), trials - taken[block.task, block.variation])
        taken[block.task, block.variation] += left
        if left == len(block):
            yield block
        elif left:
            yield block.of(_head(block.seeds, left))


def _head(given: Ranges, most: int) -> Ranges:
    kept = []
    for first, size in given:
        kept.append((first, min(size, most)))
        most -= min(size, most)
        if not most:
            break
    return tuple(kept)


def _known(kind: str, asked: Sequence[str], there: Iterable[str | None]) -> None:
    names = [name for name in dict.fromkeys(there) if name is not None]
    shown = ", ".join(names[:MAX_NAMES_SHOWN]) or "none"
    if not asked:
        raise Refused("invalid_request", f"name at least one {kind}, or leave it out for all of them: {shown}")
    unknown = [name for name in asked if name not in names]
    if unknown:
        detail = f"the benchmark has no {kind} {', '.join(map(repr, unknown))}"
        raise Refused("invalid_request", detail, hint=f"it has: {shown}")
