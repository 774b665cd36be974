"""Two evals held against each other: paired by start, refused where starts differ, and everything else named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.evals import instances as told
from runner.evals.columns import Gathering
from runner.evals.selection import Block, Selection, ranges
from runner.evals.table import ArmTable, paired
from runner.store.queries.episodes import Counts
from runner.store.tables import Arm
from seq.contract.internal import InstanceEvent

from .conftest import (
    ADAPTER,
    BENCHMARK,
    POLICY,
    add_benchmark,
    add_policy,
    failing,
    open_instances,
    outcome,
    play,
    run,
)

BODY = {"model": "arm", "benchmark": "table"}


@pytest.fixture
def played(ctx, client, controller):
    """Play an eval with these values of success by start (None: an error); its id."""

    def begin(*values, facts=None, **what):
        eval_id = client.post("/v1/eval", json={**BODY, **what}).json()["eval_id"]
        controller.tick()
        for instance in open_instances(ctx, eval_id):
            told.tell(ctx, instance.id, InstanceEvent(kind="started", setup_s=1.0, facts=facts or {}))

        def result(leased):
            value = values[leased.condition.index % len(values)]
            return outcome(leased, **failing()) if value is None else outcome(leased, metrics={"success": float(value)})

        run(ctx, controller, eval_id, result)
        return eval_id

    return begin


def compare(client, a, b):
    answer = client.get(f"/v1/eval/{a}/compare/{b}")
    return answer.json()


def test_the_second_minus_the_first_over_the_starts_that_both_scored(client, played):
    """With n, interval, p, won and lost; an error of either leaves its start out and makes it incomplete."""
    a, b = played(1, 0, 0, 0, 0, None), played(1, 1, 1, 1, 0, 1)
    found = compare(client, a, b)
    assert (found["a"]["eval_id"], found["b"]["eval_id"]) == (a, b)
    assert (found["a"]["scored"], found["b"]["scored"], found["incomplete"]) == (5, 6, True)
    (pair,) = found["paired"]
    assert (pair["metric"], pair["n"], pair["won"], pair["lost"], pair["comparisons"]) == ("success", 5, 3, 0, 1)
    assert (pair["mean_diff"], pair["p"], pair["p_adjusted"]) == (pytest.approx(0.6), 0.25, 0.25)
    assert pair["low"] < pair["mean_diff"] < pair["high"]
    assert found["differs"] == []
    turned = compare(client, b, a)["paired"][0]
    assert (turned["mean_diff"], turned["won"], turned["lost"]) == (pytest.approx(-0.6), 0, 3)


def test_another_policy_on_the_same_benchmark_is_what_it_is_for(ctx, client, account, played):
    """Models and versions are named; they are what is compared and no difference that spoils it."""
    add_policy(ctx, account, {**POLICY, "name": "leg"})
    a, b = played(1, 0), played(0, 1, model="leg")
    found = compare(client, a[:8], b[:8])
    assert [(found[side]["model"], found[side]["model_version"]) for side in ("a", "b")] == [("arm", 1), ("leg", 1)]
    assert found["differs"] == []


def test_other_selections_are_paired_where_they_meet(client, played):
    """Trials, tasks and order do not matter: a start is its task, seed and variation."""
    a, b = played(1, 1, 0, 0, 1, 0), played(0, 1, tasks=["push"], trials=2)
    found = compare(client, a, b)
    assert (found["paired"][0]["n"], found["paired"][0]["mean_diff"]) == (2, 0.0)
    assert found["differs"] == ["starts: 6 before, 2 now; only those of both are paired"]
    alone = compare(client, b, played(1, 0, tasks=["reach"]))
    assert alone["paired"] == []


def test_everything_else_that_differs_is_named(client, played):
    """Adapter, parameters, and what the processes told of their versions and machines."""
    client.post("/v1/adapters", json=ADAPTER)
    a = played(1, 0, facts={"python": "3.11.7", "mujoco": "3.15.0", "gpu": "none"})
    b = played(
        1,
        0,
        adapter="bridge",
        params={"eval.steps_per_query": 4},
        facts={"python": "3.12.1", "mujoco": "3.15.0", "numpy": "2.4.6"},
    )
    assert compare(client, a, b)["differs"] == [
        "adapter: none before, bridge v1 now",
        "eval.steps_per_query: None before, 4 now",
        "benchmark.python: 3.11.7 before, 3.12.1 now",
    ]


def test_other_starts_under_equal_seeds_are_refused(ctx, client, account, played):
    """Another version or other setup parameters of the benchmark: the sentence says so, with all that differs."""
    declared = {**BENCHMARK, "params": {"level": {"type": "int", "default": 1}}}
    a = played(1, 0)
    add_benchmark(ctx, account, declared)
    b, c = played(1, 0), played(1, 0, params={"level": 2})
    for pair in ((a, b), (b, c)):
        refused = compare(client, *pair)
        assert (refused["code"], "equal seeds need not be equal starts" in refused["detail"]) == ("conflict", True)
    assert "benchmark table: v1 before, v2 now" in compare(client, a, b)["details"]["differs"]
    assert compare(client, b, c)["details"]["differs"] == ["benchmark.level: 1 before, 2 now"]


def test_another_benchmark_is_refused(ctx, client, account, played):
    """Whatever its starts are called."""
    add_benchmark(ctx, account, {**BENCHMARK, "name": "chair"})
    refused = compare(client, played(1, 0), played(1, 0, benchmark="chair"))
    assert (refused["code"], refused["detail"]) == (
        "conflict",
        "one eval ran table and the other chair: nothing to compare",
    )


def test_an_eval_that_still_runs_is_compared_as_it_stands(ctx, client, controller, played):
    """What both have so far, told as incomplete."""
    a = played(1, 0)
    b = client.post("/v1/eval", json=BODY).json()["eval_id"]
    controller.tick()
    play(ctx, b, most=3)
    found = compare(client, a, b)
    assert (found["paired"][0]["n"], found["incomplete"], found["b"]["status"]) == (3, True, "running")


def test_another_accounts_eval_is_not_compared(client, other, played):
    """On either side it is not there."""
    a = played(1, 0)
    assert compare(other, a, a)["code"] == "not_found"
    assert compare(client, a, "f" * 32)["code"] == "not_found"


def an_arm(blocks, values):
    """A table of one arm whose starts were scored as told, one value each; None is an error."""
    selection = Selection(tuple(blocks))
    gathering = Gathering()
    gathering.add_outcomes(
        (start, {"metrics": {} if value is None else {"score": value}, "error": "boom" if value is None else None})
        for start, value in enumerate(values)
    )
    row = Arm(number=0, name="arm", first=0)
    return ArmTable(row, Counts(), gathering.columns(), selection, {})


STARTS = st.lists(
    st.tuples(st.sampled_from(["reach", "push"]), st.integers(-2, 3), st.sampled_from([(), (("mass", "1"),)])),
    min_size=1,
    max_size=14,
)
VALUE = st.none() | st.integers(0, 3).map(float)


@given(one=STARTS, other=STARTS, data=st.data())
def test_pairs_are_those_that_looking_each_up_would_find(one, other, data):
    """Against a plain search: the n-th time that a start was scored here with the n-th time there."""
    arms, scored = [], []
    for starts in (one, other):
        values = data.draw(st.lists(VALUE, min_size=len(starts), max_size=len(starts)))
        blocks = [Block(task, None, variation, 10, None, ranges([seed])) for task, seed, variation in starts]
        arms.append(an_arm(blocks, values))
        seen = {}
        for start, value in zip(starts, values, strict=True):
            if value is not None:
                seen.setdefault(start, []).append(value)
        scored.append(seen)
    differences = [
        b - a for start, mine in scored[0].items() for a, b in zip(mine, scored[1].get(start, []), strict=False)
    ]
    same = [block.task for block in arms[0].selection.blocks] == [block.task for block in arms[1].selection.blocks]
    if same and arms[0].selection.blocks == arms[1].selection.blocks:
        return  # the same list: paired by its places, which the tests of arms hold
    found = paired(*arms)
    if not differences:
        assert found == []
        return
    assert (found[0].difference.n, found[0].difference.won) == (len(differences), sum(d > 0 for d in differences))
    assert found[0].difference.mean_diff == pytest.approx(np.mean(differences))
