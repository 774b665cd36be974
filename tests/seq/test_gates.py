"""Bars an eval has to meet: how they are written, what passes, and what the line says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq.gates import COMPARE, judge, judge_all, parse
from seq.report import EvalReport
from sequence_ai import InvalidRequest
from tests.supports.outcome import everything, outcome


def report(value: float = 0.95, n: int = 20, *, metric: str = "success", **more: Any) -> EvalReport:
    """A completed eval with one metric."""
    body = {"status": "completed", "cost_usd": 0, "dashboard_url": "", "adapter_lossy": [], **more}
    return EvalReport.from_wire({"metrics": {metric: {"overall": value, "n": n}}, **body})


def intervals(value: float, low: float, high: float, n: int = 20) -> dict[str, Any]:
    """The details with one interval."""
    leaf = {"mean": value, "low": low, "high": high, "n": n}
    return {"intervals": {"success": {"overall": leaf}}}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("success >= 0.9", ("success", ">=", 0.9)),
        ("success>=.9", ("success", ">=", 0.9)),
        ("  distance_m < 1e-3 ", ("distance_m", "<", 0.001)),
        ("success.diff.low >= -0.05", ("success.diff.low", ">=", -0.05)),
        ("joint travel (rad) == +2", ("joint travel (rad)", "==", 2.0)),
    ],
)
def test_a_gate_is_a_metric_an_operator_and_a_number(text, read):
    """Spaces around the parts do not matter."""
    gate = parse(text)
    assert (gate.metric, gate.op, gate.bar, gate.text) == (*read, text.strip())


@pytest.mark.parametrize(
    "text",
    [
        *("", "success", ">= 0.9", "success >=", "success => 0.9", "success = 0.9", "success != 1", "success >= 80%"),
        *("success >= nan", "success >= inf", "success >= 1e999", "a >= 1_0", "a >= 1 2", "a >= b", "0 <= a <= 1"),
    ],
)
def test_a_malformed_gate_is_refused_by_name(text):
    """Before anything runs, with what would be right."""
    with pytest.raises(InvalidRequest, match="is not METRIC OP NUMBER") as refused:
        parse(text)
    assert repr(text) in refused.value.message
    assert "success >= 0.9" in str(refused.value.hint)
    assert refused.value.code == "invalid_request"


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(sorted(COMPARE)))
def test_a_gate_compares_the_numbers_as_they_are(value, bar, op):
    """Whatever they look like rounded."""
    verdict = judge(parse(f"score {op} {bar!r}"), report(value, metric="score"))
    assert verdict.passed is COMPARE[op](value, bar)
    assert verdict.line.startswith(f"gate {'passed' if verdict.passed else 'missed'}: score {op} {bar!r}  ")


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_value_and_a_bar_that_differ_never_look_equal(value, bar):
    """The printed value lies on the same side of the bar as the value itself."""
    line = judge(parse(f"score >= {bar!r}"), report(value, metric="score")).line
    printed = float(line.split("  ")[1].split(" ")[0])
    assert (printed > bar, printed == bar) == (value > bar, value == bar)


@pytest.mark.parametrize("op", sorted(COMPARE))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_finite_number_meets_no_bar(value, op):
    """Not as a mean, a bound or a difference."""
    assert not judge(parse(f"success {op} 0.5"), report(value)).passed
    details = {
        "arms": [{"arm": "a"}, {"arm": "b"}],
        "paired": [{"metric": "success", "arm_a": "a", "arm_b": "b", "n": 3, "mean_diff": value}],
        **intervals(0.95, value, value),
    }
    for part in ("low", "high", "diff", "diff.low"):
        assert not judge(parse(f"success.{part} {op} 0.5"), report(), details).passed


@pytest.mark.parametrize("status", ["pending", "queued", "running", "failed", "canceled"])
def test_an_eval_that_did_not_complete_meets_no_bar(status):
    """However good its numbers are so far."""
    verdict = judge(parse("success >= 0"), report(status=status))
    assert not verdict.passed
    assert f"the eval is {status}, not completed (so far 0.950" in verdict.line


def test_an_incomplete_eval_meets_no_bar():
    """Told by the report, or by the counts of any arm."""
    assert not judge(parse("success >= 0"), report(incomplete=True)).passed
    details = {"arms": [{"arm": "a"}, {"arm": "b", "counts": {"planned": 20, "scored": 19, "errored": 1}}]}
    verdict = judge(parse("success >= 0"), report(), details)
    assert not verdict.passed
    assert "incomplete: arm b: 20 planned, 19 scored, 1 errored" in verdict.line


def test_a_missing_metric_meets_no_bar():
    """And the line names those there are."""
    verdict = judge(parse("succes < 2"), report())
    assert not verdict.passed
    assert verdict.line == "gate missed: succes < 2  the report has no metric 'succes'; its metrics: success"


@pytest.mark.parametrize(("text", "passed"), [("success.low >= 0.7", True), ("success.high < 0.99", False)])
def test_a_bound_of_the_interval_can_be_the_value(text, passed):
    """Its lower or upper end."""
    verdict = judge(parse(text), report(), intervals(0.95, 0.764, 0.991))
    assert verdict.passed is passed
    assert "the mean is 0.950 over 20 episode(s), 95% CI [0.764, 0.991]" in verdict.line


@pytest.mark.parametrize("details", [{}, intervals(0.7, 0.6, 0.8)])
def test_a_bound_that_is_not_there_meets_no_bar(details):
    """No interval, or one of another value (a key that the benchmark's score replaced)."""
    verdict = judge(parse("success.low >= 0"), report(), details)
    assert not verdict.passed
    assert verdict.line.endswith("success has no interval")


def test_a_metric_of_exactly_that_name_comes_first():
    """A benchmark may call a metric `success.low` itself."""
    assert judge(parse("success.low == 0.25"), report(0.25, metric="success.low"), {}).passed


ARMS = [{"arm": "a"}, {"arm": "b"}, {"arm": "c"}]


def pair(a: str, b: str, difference: float, half: float = 0.02) -> dict[str, Any]:
    """A paired difference b - a."""
    told = {"metric": "success", "arm_a": a, "arm_b": b, "n": 20, "mean_diff": difference}
    return {**told, "low": difference - half, "high": difference + half}


@pytest.mark.parametrize(
    ("text", "passed", "worst"),
    [
        ("success.diff >= -0.05", False, "c - a"),
        ("success.diff >= -0.2", True, "c - a"),
        ("success.diff.low >= -0.11", False, "c - a"),
        ("success.diff <= 0.1", True, "b - a"),
        ("success.diff.high < 0.06", False, "b - a"),
        ("success.diff == 0.05", False, "c - a"),
    ],
)
def test_of_several_differences_the_worst_decides(text, passed, worst):
    """Every arm against the first, whichever way round the platform told it; pairs of other arms do not count."""
    rows = [pair("a", "b", 0.05), pair("a", "c", -0.1), pair("b", "c", -0.9)]
    turned = [pair("b", "a", -0.05), pair("c", "a", 0.1)]
    for paired in (rows, list(reversed(rows)), turned):
        verdict = judge(parse(text), report(), {"arms": ARMS, "paired": paired})
        assert verdict.passed is passed
        assert f"({worst}, the worst of 2; 20 paired episode(s), 95% CI [" in verdict.line


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({}, "the eval has one arm; a difference needs another (--compare or --sweep)"),
        ({"arms": ARMS, "paired": [pair("a", "b", 0.1)]}, "no paired difference in success of arm 'c' against 'a'"),
        (
            {"arms": ARMS[:2], "paired": [{**pair("a", "b", 0.1), "low": None}]},
            "the difference of arm 'b' has no interval",
        ),
    ],
)
def test_a_difference_that_is_not_there_meets_no_bar(details, reason):
    """One arm, an arm that was not compared, a difference without an interval."""
    verdict = judge(parse("success.diff.low >= -1"), report(), details)
    assert not verdict.passed
    assert reason in verdict.line


def test_the_line_says_how_often_luck_alone_would_miss_the_bar():
    """19 of 20 under a bar of 0.9: P(K <= 17) = 7.5 %; what brings it under 5 % is told, unless it is there."""
    assert judge(parse("success >= 0.9"), report()).line == (
        "gate passed: success >= 0.9  0.950 over 20 episode(s); a policy whose true rate is this one would miss it by "
        "luck in 7.5 % of runs of this size (at most 5 % from 70 episode(s) on or with a bar of 0.85 at 20)"
    )
    assert judge(parse("success >= 0.9"), report(0.95, 400)).line.endswith("in under 0.1 % of runs of this size")


def test_nothing_is_said_of_luck_where_starts_were_played_more_than_once():
    """Episodes of one start are not independent, so their number says too little of it."""
    line = judge(parse("success >= 0.9"), report(), {"distinct_starts": {"planned": 10, "seen": 10}}).line
    assert line == "gate passed: success >= 0.9  0.950 over 20 episode(s)"


def test_a_policy_below_the_bar_is_told_its_chance_too():
    """It misses it not by luck, and no number of episodes would help it: only another bar."""
    assert judge(parse("success >= 0.96"), report()).line == (
        "gate missed: success >= 0.96  0.950 over 20 episode(s); a policy whose true rate is this one misses it in "
        "64.2 % of runs of this size (at most 5 % with a bar of 0.85 at 20)"
    )


@pytest.mark.parametrize(
    ("metric", "value", "values", "told"),
    [
        ("success", 0.5, None, True),
        ("is_upright", 0.5, None, True),
        ("score", 0.5, None, False),
        ("success_rate", 0.513, None, False),
        ("score", 0.5, [0.0, 1.0], True),
        ("score", 0.5, [0.5], False),
        ("success", 0.5, [0.25, 0.75], False),
    ],
)
def test_only_a_zero_or_one_metric_has_such_a_chance(metric, value, values, told):
    """Judged by its episodes where they are listed, else by its name and a whole count of successes."""
    rows = [{"metrics": {metric: each}} for each in values or []]
    line = judge(parse(f"{metric} >= 0.2"), report(value, metric=metric), {"episodes": rows}).line
    assert ("true rate" in line) is told


def test_a_value_of_the_benchmarks_own_score_has_no_such_chance():
    """It is no mean of episodes."""
    details = {"arms": [{"arm": "a", "scored_by": ["success"]}]}
    assert "true rate" not in judge(parse("success >= 0.2"), report(), details).line


def test_gates_are_judged_in_order_against_a_whole_platforms_answer():
    """As the command calls it: one verdict a gate, on an eval with arms."""
    body, details = outcome(("reach", "lift"), 10, {"expert": 0.9, "random": 0.1})
    gates = [parse(text) for text in ("success >= 0.5", "success.low > 0.99", "success.diff <= 0")]
    verdicts = judge_all(gates, EvalReport.from_wire(body, details), details)
    assert [verdict.passed for verdict in verdicts] == [True, False, True]
    assert [verdict.gate for verdict in verdicts] == gates
    body, details = everything()
    assert not any(verdict.passed for verdict in judge_all(gates, EvalReport.from_wire(body), details))
    assert all("incomplete" in verdict.line for verdict in judge_all(gates, EvalReport.from_wire(body), details))
    assert len(set(itertools.chain.from_iterable(verdict.line.splitlines() for verdict in verdicts))) == 3
