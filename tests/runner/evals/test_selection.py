"""Which starts an eval plays: kept as ranges, and the same as if every one were written out."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.evals.selection import (
    Block,
    Selection,
    contains,
    count,
    counter,
    ranges,
    seeds_short,
    select,
    span,
)
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.evals import EvalRequest
from seq.contract.internal import Condition

TASKS, AXES = ("reach", "push", "lift"), {"light": ("day", "night"), "mass": ("1", "2")}
SEEDS = st.integers(-3, 6)


@st.composite
def declared(draw):
    """A benchmark: a product of tasks, variants and seeds, or a list in any order."""
    axes = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True))
    tasks = draw(st.lists(st.sampled_from(TASKS), min_size=1, unique=True))
    listed = st.fixed_dictionaries(
        {"task": st.sampled_from(TASKS), "seed": SEEDS, "variant": st.fixed_dictionaries({}, optional={"mass": MASS})},
        optional={"max_steps": st.sampled_from([5, 9]), "timeout_s": st.just(2.5), "suite": st.just("free")},
    )
    return BenchmarkRegisterRequest.model_validate(
        {
            "name": "table",
            "image": {"base": "debian:12-slim"},
            "handler_ref": "benchmark:Table",
            "conditions": {
                "tasks": tasks,
                "seeds": draw(st.lists(SEEDS, min_size=1, max_size=6)),
                "variants": [{"axis": axis, "values": list(AXES[axis])} for axis in axes],
            },
            "condition_list": draw(st.none() | st.lists(listed, min_size=1, max_size=12)),
            "suite_of": draw(st.dictionaries(st.sampled_from(TASKS), st.sampled_from(["hard", "soft"]))),
            "max_steps": 90,
            "timeout_s": draw(st.none() | st.just(60.0)),
        }
    )


MASS = st.sampled_from(AXES["mass"])
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "trials": st.integers(1, 4),
        "tasks": st.lists(st.sampled_from(TASKS), min_size=1, unique=True),
        "variants": st.fixed_dictionaries({"mass": st.lists(MASS, min_size=1, unique=True)}),
    },
)


def written_out(benchmark, request, record):
    """Every start as an object of its own, one by one."""
    if benchmark.condition_list:
        every = [
            {
                "task": one.task,
                "seed": one.seed,
                "variation": [(axis, one.variant[axis]) for axis in one.variant],
                "suite": one.suite or benchmark.suite_of.get(one.task),
                "max_steps": one.max_steps or benchmark.max_steps,
                "timeout_s": one.timeout_s or benchmark.timeout_s,
            }
            for one in benchmark.condition_list
        ]
    else:
        axes = benchmark.conditions.variants
        every = [
            {
                "task": task,
                "seed": seed,
                "variation": list(zip((axis.axis for axis in axes), values, strict=True)),
                "suite": benchmark.suite_of.get(task),
                "max_steps": benchmark.max_steps,
                "timeout_s": benchmark.timeout_s,
            }
            for task in benchmark.conditions.tasks
            for values in product(*(axis.values for axis in axes))
            for seed in benchmark.conditions.seeds
        ]
    taken, seen, kept = Counter(), set(), []
    for one in every:
        wrong_task = request.tasks is not None and one["task"] not in request.tasks
        if wrong_task or any(dict(one["variation"]).get(a) not in v for a, v in (request.variants or {}).items()):
            continue
        group = (one["task"], tuple(one["variation"]))
        taken[group] += 1
        if request.trials is None or taken[group] <= request.trials:
            recorded = record == "all" or (record == "per-task" and one["task"] not in seen)
            seen.add(one["task"])
            kept.append(Condition(index=len(kept), record=recorded, **one))
    return kept


def known(benchmark, request):
    """Whether everything that is asked for is there."""
    every = written_out(benchmark, EvalRequest(model="arm", benchmark="table"), "none")
    values = {value for one in every for axis, value in one.variation if axis == "mass"}
    return {one.task for one in every} >= set(request.tasks or []) and values >= set(
        (request.variants or {}).get("mass", [])
    )


@given(benchmark=declared(), asked=ASKED, record=st.sampled_from(["per-task", "all", "none"]))
def test_a_selection_is_what_writing_every_start_out_would_be(benchmark, asked, record):
    """Order, filters, first trials, caps, suites and what is recorded; also when it is read from an eval's row."""
    request = EvalRequest(model="arm", benchmark="table", **asked)
    expected = written_out(benchmark, request, record)
    if not expected or not known(benchmark, request):
        return
    selection = select(benchmark, request, record)
    assert list(selection.conditions()) == expected
    assert Selection.of_wire(json.loads(json.dumps(selection.wire()))) == selection
    assert len(selection) == len(expected)
    assert selection.seeds == sorted({one.seed for one in expected})
    assert selection.distinct == len({(one.task, one.seed) for one in expected})
    most = max(Counter((one.task, tuple(one.variation)) for one in expected).values())
    assert seeds_short(selection, most) is None
    assert seeds_short(selection, most + 1) == most


@given(benchmark=declared(), data=st.data())
def test_some_starts_are_a_selection_of_their_own(benchmark, data):
    """In their order, numbered anew; of each its block and its seed are known as arrays."""
    selection = select(benchmark, EvalRequest(model="arm", benchmark="table"), "none")
    every = list(selection.conditions())
    some = sorted(data.draw(st.sets(st.integers(0, len(every) - 1), min_size=1)))
    assert [one.model_copy(update={"index": 0}) for one in selection.only(some).conditions()] == [
        every[start].model_copy(update={"index": 0}) for start in some
    ]
    starts = np.asarray(some)
    assert selection.seeds_of(starts).tolist() == [every[start].seed for start in some]
    blocks = [selection.blocks[number] for number in selection.block_of(starts)]
    assert [(b.task, b.variation) for b in blocks] == [(every[s].task, tuple(every[s].variation)) for s in some]


@given(st.lists(st.integers(-5, 40), max_size=30))
def test_ranges_hold_what_they_were_made_of(numbers):
    """In order, with gaps, runs backwards and repeats."""
    given_ = ranges(numbers)
    assert [number for first, size in given_ for number in range(first, first + size)] == numbers
    assert count(given_) == len(numbers)
    block = Block("reach", None, (), 10, None, given_)
    assert [block.seed(place) for place in range(len(block))] == numbers
    with pytest.raises(IndexError):
        block.seed(len(numbers))
    assert [number for number in range(-9, 45) if contains(given_, number)] == sorted(set(numbers))


@given(st.sets(st.integers(0, 60)), st.integers(0, 70), st.integers(0, 70), st.integers(-3, 70))
def test_a_span_and_a_count_of_ranges(numbers, begin, most, below):
    """Some from a place on, and how many lie below a number."""
    given_ = ranges(sorted(numbers))
    assert list(span(given_, begin, most)) == sorted(numbers)[begin : begin + most]
    assert counter(given_)(below) == sum(number < below for number in numbers)


def test_consecutive_seeds_are_one_range():
    """What an eval's row keeps of a plain benchmark does not grow with its seeds."""
    assert ranges([3, 4, 5, 9, 10, 2]) == ((3, 3), (9, 2), (2, 1))


def test_a_million_starts_cost_no_memory():
    """They are planned, kept, numbered and looked up without being written out."""
    blocks = tuple(Block(f"task-{number}", None, (), 300, None, ((0, 50_000),)) for number in range(20))
    tracemalloc.start()
    selection = Selection.of_wire(Selection(blocks, "per-task").wire())
    assert len(selection) == 1_000_000
    last, middle = selection.condition(999_999, 1_999_999), selection.condition(500_000, 500_000)
    assert (last.task, last.seed, last.index, last.record) == ("task-19", 49_999, 1_999_999, False)
    assert (middle.task, middle.seed, middle.record) == ("task-10", 0, True)
    assert (selection.distinct, len(selection.seeds)) == (1_000_000, 1000)
    assert list(span(((0, len(selection)),), 999_998, 5)) == [999_998, 999_999]
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 1_000_000


def test_seeds_beyond_what_an_array_holds_are_told_apart():
    """They only need a number each, which is the seed itself where it fits."""
    seeds = (((1 << 80) + 7, 2), (-(1 << 80), 1), (-5, 2), ((1 << 62) - 2, 1))
    selection = Selection((Block("reach", None, (), 10, None, seeds),))
    found = selection.seeds_of(np.arange(6))
    assert len(set(found.tolist())) == 6
    assert found[3:5].tolist() == [-5, -4]
    assert selection.condition(1, 1).seed == (1 << 80) + 8
