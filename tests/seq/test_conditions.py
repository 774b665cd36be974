"""Conditions expand in one order, and go over the wire as a product exactly where they are one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seq
from seq.conditions import collapse, expand
from seq.contract.benchmarks import Conditions, Variant

names = st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=3, unique=True)
seeds = st.lists(st.integers(-5, 50), min_size=1, max_size=4, unique=True)


def test_tasks_are_outermost_and_seeds_innermost():
    """The order is task, then variant combination in axis order, then seed."""
    made = seq.conditions(["a", "b"], [7, 3], variants={"light": ["day", "night"], "table": ["oak"]})

    assert [(c.task, c.variation_dict["light"], c.seed) for c in made] == list(
        itertools.product(["a", "b"], ["day", "night"], [7, 3])
    )
    assert made[0].variation == (("light", "day"), ("table", "oak"))


@given(tasks=names, seeds=seeds, axes=st.dictionaries(st.text("pq", min_size=1, max_size=2), names, max_size=2))
def test_what_is_collapsed_expands_to_the_same(tasks, seeds, axes):
    """A product survives the wire: same conditions, same order."""
    made = seq.conditions(tasks, seeds, variants=axes, suite_of={tasks[0]: "first"})

    matrix = collapse(made, max_steps=40, timeout_s=None)

    assert matrix.listed is None
    assert matrix.suite_of == {tasks[0]: "first"}
    back = expand(matrix.axes)
    assert [(c.task, c.seed, c.variation) for c in back] == [(c.task, c.seed, c.variation) for c in made]


def test_what_is_no_product_is_listed_as_it_is():
    """A hand-written list keeps its order and its doubles, and names its axes beside it."""
    made = [seq.Condition("a", 1), seq.Condition("b", 2), seq.Condition("a", 1)]

    matrix = collapse(made, max_steps=300, timeout_s=None)

    assert [(row.task, row.seed) for row in matrix.listed] == [("a", 1), ("b", 2), ("a", 1)]
    assert (matrix.axes.tasks, matrix.axes.seeds) == (["a", "b"], [1, 2])


def test_a_condition_keeps_only_what_it_wrote_itself():
    """An unset cap is the benchmark's; the same number written out is the condition's own."""
    unset, written = seq.Condition("a", 0), seq.Condition("a", 1, max_steps=300, timeout_s=120.0)

    matrix = collapse([unset, written], max_steps=50, timeout_s=9.0)

    assert unset.max_steps == written.max_steps == 300
    assert seq.Condition("a", 0, timeout_s=None).own_timeout_s is None
    assert [(row.max_steps, row.timeout_s) for row in matrix.listed] == [(None, None), (300, 120.0)]


def test_one_cap_for_all_stays_a_product():
    """`conditions(..., max_steps=)` is sent as the benchmark's cap."""
    matrix = collapse(seq.conditions(["a"], [0, 1], max_steps=80), max_steps=300, timeout_s=None)

    assert (matrix.listed, matrix.max_steps) == (None, 80)


def test_a_task_in_two_suites_is_listed():
    """`suite_of` maps a task to one suite, so anything else must be listed."""
    made = [seq.Condition("a", 0, suite="x"), seq.Condition("a", 1, suite="y")]

    assert [row.suite for row in collapse(made, max_steps=300, timeout_s=None).listed] == ["x", "y"]


def test_too_long_a_list_is_refused():
    """At most 5000 conditions may be listed."""
    made = [seq.Condition("a", seed) for seed in (*range(5000), 0)]

    with pytest.raises(seq.BenchmarkDefinitionError, match="at most 5000"):
        collapse(made, max_steps=300, timeout_s=None)


def test_every_form_of_conditions_is_taken():
    """A list, a wire product, and a callable that returns either."""
    wire = Conditions(tasks=["a"], seeds=[1, 2], variants=[Variant(axis="x", values=["1"])])

    assert expand(wire) == expand(lambda: wire) == expand(seq.conditions(["a"], [1, 2], variants={"x": ["1"]}))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([], [0]), "tasks= is empty"),
        (("reach", [0]), "must be a list"),
        (([1], [0]), "texts"),
        ((["a"], []), "seeds= is empty"),
        ((["a"], [True]), "must hold ints"),
        ((["a"], [0.5]), "must hold ints"),
        ((["a"], 3), "list of ints"),
        ((["a"], [0], {"x": []}), "is empty"),
        ((["a"], [0], {"x": [1]}), "texts"),
        ((["a"], [0], {"x": "dry"}), "must be a list"),
        ((["a"], [0], ["x"]), "must be a dict"),
    ],
)
def test_malformed_axes_are_refused(arguments, says):
    """Empty axes and values of the wrong kind say what to write."""
    tasks, starts, *variants = arguments

    with pytest.raises(seq.BenchmarkDefinitionError) as refused:
        seq.conditions(tasks, starts, variants=variants[0] if variants else None)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    "wrong", [{"max_steps": 0}, {"max_steps": 2.5}, {"timeout_s": 0}, {"timeout_s": float("nan")}, {"seed": True}]
)
def test_a_malformed_condition_is_refused(wrong):
    """A condition written by hand is held to the same rules."""
    with pytest.raises(seq.BenchmarkDefinitionError):
        seq.Condition(**{"task": "a", "seed": 0, **wrong})


def test_conditions_are_hashable_values():
    """Equal conditions are one element of a set."""
    assert len({seq.Condition("a", 1), seq.Condition("a", 1), seq.Condition("a", 2)}) == 2
