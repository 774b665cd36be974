"""What an eval may be asked for, from the command and from Python alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq._eval_request import eval_request, refuse_amount, refuse_seconds
from sequence_ai import InvalidRequest

ASKED = {"model": "arm", "benchmark": "line"}
BARE = {**ASKED, "policy_instances": 1, "benchmark_instances": 1}

NO_SCALAR = st.one_of(st.none(), st.lists(st.integers()), st.dictionaries(st.text(), st.integers()), st.binary())


def test_what_was_not_given_is_not_sent():
    """None and empty groups are not given; tuples and generators are lists."""
    nothing = dict.fromkeys(("suite", "tasks", "params", "max_usd"))
    empty = {"compare": [], "sweep": {}, "params": {}, "variants": {}}
    assert eval_request({**ASKED, **nothing}).wire() == BARE
    assert eval_request({**ASKED, **empty}).wire() == BARE
    given_once = {"tasks": (name for name in ("a", "b")), "variants": {"light": ("dim",)}, "sweep": {"k": range(2)}}
    assert eval_request({**ASKED, **given_once}).wire() == {
        **BARE,
        "tasks": ["a", "b"],
        "variants": {"light": ["dim"]},
        "sweep": {"k": [0, 1]},
    }


def test_parameters_keep_their_types():
    """True is not 1, 1 is not 1.0, and "1" stays a text."""
    params = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    sent = eval_request({**ASKED, "params": params, "sweep": {"e": [1, True]}}).wire()
    assert [type(value) for value in sent["params"].values()] == [bool, int, float, str]
    assert [type(value) for value in sent["sweep"]["e"]] == [int, bool]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"model": ""}, r"model: it is empty \(got ''\)"),
        ({"region": "  "}, "region: it is empty"),
        ({"tasks": "reach"}, r"tasks: give a list of names \(got 'reach'\)"),
        ({"tasks": []}, "tasks: name at least one"),
        ({"tasks": ["a", ""]}, "tasks: each must be a name"),
        ({"tasks": ["a", "a"]}, "tasks: 'a' is given twice"),
        ({"tasks": 3}, "tasks: give a list of names"),
        ({"compare": "arm-b"}, "compare: give a list of names"),
        ({"compare": [None]}, "compare: each must be a name"),
        ({"variants": {"light": "dim"}}, "variants 'light': give a list of values"),
        ({"variants": {"light": []}}, "variants 'light': give at least one value"),
        ({"variants": {"light": [1]}}, "variants 'light': each value must be a text"),
        ({"variants": ["light"]}, "variants: give a dict by name"),
        ({"variants": {1: ["dim"]}}, "variants: give a dict by name"),
        ({"sweep": {"k": "12"}}, "sweep 'k': give a list of values"),
        ({"sweep": {"k": [1]}}, "sweep 'k': give at least two values"),
        ({"sweep": {"k": [1, 1]}}, "sweep 'k': 1 is given twice"),
        ({"sweep": {"k": [1, None]}}, "sweep 'k': give true or false, a number or a text"),
        ({"sweep": {"k": [1, float("inf")]}}, "sweep 'k': give a finite number"),
        ({"sweep": {"k": [1, 2]}, "params": {"k": 3}}, "'k' is both set and swept"),
        ({"params": {"k": None}}, "params 'k': give true or false, a number or a text"),
        ({"params": {"k": float("nan")}}, "params 'k': give a finite number"),
        ({"params": {"k": 10**400}}, "params 'k': give a finite number"),
        ({"params": {"": 1}}, "params: give a dict by name"),
        ({"params": [("k", 1)]}, "params: give a dict by name"),
        ({"trials": True}, "trials: give a whole number"),
        ({"trials": 0}, r"trials: .*got 0"),
        ({"envs": 1.5}, r"envs: .*got 1.5"),
        ({"policy_instances": 65}, r"policy_instances: .*got 65"),
        ({"record": "some"}, r"record: .*got 'some'"),
        ({"max_usd": 0}, "max_usd: give a number of dollars above 0"),
        ({"max_usd": True}, "max_usd: give a number of dollars above 0"),
        ({"max_usd": "5"}, "max_usd: give a number of dollars above 0"),
        ({"suite": "\udcff"}, r"suite: it holds what is no text \(got '\\udcff'\)"),
        ({"tasks": ["a", "\udcff"]}, "tasks: it holds what is no text"),
        ({"params": {"\udcff": 1}}, "params: it holds what is no text"),
    ],
)
def test_what_no_platform_could_take_is_named(wrong, says):
    """The field, what would do, and what was given."""
    with pytest.raises(InvalidRequest, match=says):
        eval_request({**ASKED, **wrong})


@given(NO_SCALAR)
def test_a_parameter_is_a_scalar(value):
    """Nothing else is sent, whatever it is."""
    with pytest.raises(InvalidRequest):
        eval_request({**ASKED, "params": {"k": value}})


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "5"])
def test_a_time_is_a_number_of_seconds(value):
    """None is none given."""
    refuse_seconds("timeout_s", None)
    refuse_seconds("timeout_s", 0)
    with pytest.raises(InvalidRequest, match="timeout_s: give a number of seconds of at least 0"):
        refuse_seconds("timeout_s", value)


@pytest.mark.parametrize("value", [0, -0.1, float("nan"), float("inf"), True, None, 10**400])
def test_an_amount_is_a_number_of_dollars(value):
    """More than nothing, and finite."""
    refuse_amount("max_usd", 1)
    with pytest.raises(InvalidRequest, match="max_usd"):
        refuse_amount("max_usd", value)
