"""What an eval may set of its sides, and who set what."""

from __future__ import annotations

import pytest

from runner.errors import Refused
from runner.evals.parameters import Declared, Settings, combinations, settable, settings
from seq.contract.params import InferParam

DECLARED = Declared(
    policy={
        "k": InferParam(type="int", default=5, min=1, max=9),
        "gain": InferParam(type="float", default=1.0),
        "mode": InferParam(type="str", default="fast", choices=["fast", "slow"]),
    },
    adapter={"size": InferParam(type="int", default=96), "k": InferParam(type="int", default=1)},
    benchmark={"dark": InferParam(type="bool", default=False), "level": InferParam(type="int", default=None)},
)


def refusal(given, declared=DECLARED):
    with pytest.raises(Refused) as refused:
        settings(given, declared)
    assert refused.value.code == "invalid_request"
    return refused.value


def test_what_is_not_set_has_its_sides_default():
    """Every declared parameter has a value and a source, the loop's own among them."""
    assert settings({}, DECLARED).wire() == {
        "policy": {
            "k": {"value": 5, "source": "policy"},
            "gain": {"value": 1.0, "source": "policy"},
            "mode": {"value": "fast", "source": "policy"},
        },
        "adapter": {"size": {"value": 96, "source": "adapter"}, "k": {"value": 1, "source": "adapter"}},
        "benchmark": {
            "dark": {"value": False, "source": "benchmark"},
            "level": {"value": None, "source": "benchmark"},
        },
        "eval": {"steps_per_query": {"value": None, "source": "platform"}},
    }


def test_the_evals_value_goes_before_and_says_so():
    """By `side.name`, or by the name alone where one side has it; each is cast to what was declared."""
    found = settings({"policy.k": 3, "gain": 2, "dark": True, "eval.steps_per_query": 4, "level": 7}, DECLARED)
    assert found.given("policy") == {"k": 3, "gain": 2.0}
    assert isinstance(found.given("policy")["gain"], float)
    assert found.given("benchmark") == {"dark": True, "level": 7}
    assert found.given("adapter") == {}
    assert found.steps_per_query == 4
    assert Settings.of_wire(found.wire()) == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"speed": 1}, "nobody declares a parameter 'speed'"),
        ({"policy.size": 1}, "nobody declares a parameter 'policy.size'"),
        ({"k": 1}, "say which: policy.k and adapter.k"),
        ({"gain": 1.0, "policy.gain": 1.0}, "policy.gain is set twice"),
        ({"policy.k": 1.0}, "policy.k must be int, got 1.0"),
        ({"policy.k": True}, "policy.k must be int, got True"),
        ({"policy.k": "1"}, "policy.k must be int, got '1'"),
        ({"dark": 1}, "benchmark.dark must be bool, got 1"),
        ({"policy.k": 0}, "policy.k must be in [1, 9], got 0"),
        ({"mode": "idle"}, "policy.mode must be one of fast, slow"),
        ({"eval.steps_per_query": 0}, "eval.steps_per_query must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_set_is_refused(given, said):
    """Names, types and bounds are checked before anything is reserved."""
    assert said in refusal(given).detail


def test_an_unknown_name_is_answered_with_everything_that_can_be_set():
    """Side, name, type and default of each, in the hint and in the details."""
    refused = refusal({"speed": 1})
    assert refused.details["settable"] == settable(DECLARED)
    assert "policy.gain (float, 1.0)" in (refused.hint or "")
    assert "eval.steps_per_query (int, None)" in (refused.hint or "")


WITH_INTERVAL = Declared({}, {"steps_per_query": InferParam(type="int", default=8)}, {})


@pytest.mark.parametrize(
    ("given", "holds", "sources"),
    [
        ({}, 8, ("adapter", "adapter")),
        ({"adapter.steps_per_query": 3}, 3, ("cli", "cli")),
        ({"eval.steps_per_query": 2}, 2, ("cli", "cli")),
        ({"eval.steps_per_query": 2, "adapter.steps_per_query": 2}, 2, ("cli", "cli")),
    ],
)
def test_an_adapter_that_declares_the_interval_is_told_the_one_that_holds(given, holds, sources):
    """The eval's value, else the adapter's own; both sides then say the same."""
    found = settings(given, WITH_INTERVAL)
    told = [found.values[side]["steps_per_query"] for side in ("eval", "adapter")]
    assert told == [(holds, sources[0]), (holds, sources[1])]
    assert found.steps_per_query == holds


def test_two_intervals_are_one_too_many():
    """The loop and the adapter cannot mean different ones; an adapter's own must be one, too."""
    both = {"eval.steps_per_query": 2, "adapter.steps_per_query": 3}
    assert "differ; set one" in refusal(both, WITH_INTERVAL).detail
    zero = Declared({}, {"steps_per_query": InferParam(type="int", default=0)}, {})
    assert "at least 1" in refusal({}, zero).detail
    assert (
        "must be int"
        in refusal({}, Declared({}, {"steps_per_query": InferParam(type="float", default=2.0)}, {})).detail
    )


def test_a_bare_interval_of_two_sides_asks_which():
    """The adapter's and the loop's have one name; whoever means the eval's says so."""
    assert "eval.steps_per_query" in refusal({"steps_per_query": 2}, WITH_INTERVAL).detail
    assert settings({"steps_per_query": 2}, DECLARED).steps_per_query == 2


def test_swept_values_multiply_in_their_order():
    """The first name is outermost; without a sweep there is one empty combination."""
    assert list(combinations({}, {})) == [{}]
    assert list(combinations({"k": [1, 2], "gain": [0.5, 1.0]}, {})) == [
        {"k": 1, "gain": 0.5},
        {"k": 1, "gain": 1.0},
        {"k": 2, "gain": 0.5},
        {"k": 2, "gain": 1.0},
    ]
