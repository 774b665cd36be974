"""Contracts held against observations and chunks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.worker.check import ChunkError, check_rows, observation_faults
from seq.contract.robot import ActionContract, ObservationContract

JPEG = "/9j/AAAA"


def action(**changes):
    """A contract of two dimensions."""
    base = {"robot": "r", "action_space": "joint_absolute", "action_dim": 2, "control_frequency_hz": 10}
    return ActionContract.model_validate({**base, **changes})


def test_rows_inside_the_limits_are_untouched():
    """Nothing is changed and nothing is said where every value fits."""
    checked = check_rows(action(bounds=[(-1, 1), (0, 1)], max_delta=0.5), [[0.0, 0.5], [0.5, 1.0]])
    assert (checked.rows, checked.warnings) == ([[0.0, 0.5], [0.5, 1.0]], [])


def test_every_clipped_step_names_its_dimensions():
    """A value beyond its bound becomes the bound, and the warning names step and dimension."""
    checked = check_rows(action(bounds=[(-1, 1), (0, 1)]), [[0.0, 0.0], [2.0, -1.0]])
    assert checked.rows == [[0.0, 0.0], [1.0, 0.0]]
    assert checked.warnings == ["step 1: clipped dimension 0 from 2 to 1, dimension 1 from -1 to 0"]


def test_max_delta_is_counted_from_the_row_as_it_is_played():
    """A jump is spread over rows: each differs from the clipped row before it by at most max_delta."""
    checked = check_rows(action(max_delta=[0.5, 9.0]), [[0.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    assert [row[0] for row in checked.rows] == [0.0, 0.5, 1.0]


def test_on_violation_refuse_refuses():
    """Where the contract refuses, nothing is clipped and the reason is `bounds`."""
    with pytest.raises(ChunkError) as refused:
        check_rows(action(bounds=[(-1, 1), (0, 1)], on_violation="refuse"), [[2.0, 0.0]])
    assert refused.value.reason == "bounds"


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=20))
def test_whatever_comes_out_is_within_the_limits(rows):
    """For any finite rows the checked ones hold bounds exactly and max_delta to rounding."""
    checked = check_rows(action(bounds=[(-1, 1), (-2, 2)], max_delta=0.25), rows)
    for row in checked.rows:
        assert -1 <= row[0] <= 1
        assert -2 <= row[1] <= 2
    for before, after in zip(checked.rows, checked.rows[1:], strict=False):
        assert all(abs(b - a) <= 0.25 + 1e-12 for a, b in zip(before, after, strict=True))


numbers = st.floats(-3, 3) | st.sampled_from([-1.0, 1.0, 0.0, -0.0, 0.25]) | st.integers(-2, 2)


@given(
    st.lists(st.tuples(numbers, numbers).map(list), min_size=1, max_size=8),
    st.sampled_from([None, [(-1.0, 1.0), (0.0, 2.0)]]),
    st.sampled_from([None, 0.25, [0.5, 2.0]]),
)
def test_every_number_becomes_the_nearest_one_within_its_limits(rows, bounds, max_delta):
    """One by one: clipped to what the row before it and the bounds allow, kept to the bit where it fits, and told."""
    infinite = [(-math.inf, math.inf)] * 2
    deltas = max_delta if isinstance(max_delta, list) else [math.inf if max_delta is None else max_delta] * 2
    wanted: list[list[float]] = []
    clipped = []
    for step, row in enumerate(rows):
        ranges = [
            (low, high) if not wanted else (max(low, before - delta), min(high, before + delta))
            for (low, high), before, delta in zip(bounds or infinite, (wanted or [[0, 0]])[-1], deltas, strict=True)
        ]
        wanted.append([min(max(float(v), low), high) for v, (low, high) in zip(row, ranges, strict=True)])
        clipped += [step] if wanted[-1] != row else []
    checked = check_rows(action(bounds=bounds, max_delta=max_delta), rows)
    assert list(map(repr, checked.rows)) == list(map(repr, wanted))
    assert [int(warning.split()[1].rstrip(":")) for warning in checked.warnings] == clipped


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[0.0, 0.0], [0.0, math.nan]], "row 1, dimension 1 is nan"),
        ([[math.inf, 0.0], [0.0, 0.0]], "row 0, dimension 0 is inf"),
        ([[0.0, 0.0], [0.0, "1"]], "row 1, dimension 1 is '1'"),
        ([[0.0, 0.0], [0.0, 10**400]], "row 1, dimension 1 is 1000"),
        ([[0.0, 0.0], [0.0]], "row 1 has 1 values"),
        ([[0.0], [0.0, 0.0, 0.0]], "row 0 has 1 values"),
        ([], "no rows"),
    ],
)
def test_a_row_that_is_none_is_named(rows, says):
    """The first number that is none, or not finite, and the first row of another length, are told by their place."""
    with pytest.raises(ChunkError, match=says):
        check_rows(action(), rows)


@pytest.mark.parametrize(
    ("declared", "observation", "faults"),
    [
        ({"cameras": {"front": {"width": 8, "height": 8}}}, {}, ["view 'front' is missing"]),
        (
            {"cameras": {"front": {"width": 8, "height": 8}}, "history": 2},
            {"images": [{"view": "front", "data": JPEG}]},
            ["view 'front' has 1 frames of 2"],
        ),
        (
            {"cameras": {"front": {"width": 8, "height": 8, "depth": True}}},
            {"images": [{"view": "front", "data": JPEG}]},
            ["depth view 'front' is missing"],
        ),
        ({"proprio": {"gripper": 1}}, {"proprioception": {"gripper": None}}, ["proprioception.gripper is missing"]),
        ({"state": {"pose": 7}}, {"state": {"pose": [0.0]}}, ["state.pose has 1 values of 7"]),
        ({"instruction": True}, {"instruction": ""}, ["instruction is empty"]),
        ({}, {"images": [{"view": "undeclared", "data": JPEG}]}, []),
    ],
)
def test_an_observation_is_held_against_its_contract(declared, observation, faults):
    """Everything missing or of the wrong length is named; a camera nobody declared is no fault."""
    contract = ObservationContract.model_validate({"instruction": False, **declared})
    assert observation_faults(contract, observation) == faults
