"""Bars that an eval has to meet: `success >= 0.9`, `success.low >= 0.8`, `success.diff.low >= -0.05`.

`METRIC` is the mean over all scored episodes of the policy that was asked for, `METRIC.low` and `METRIC.high` are the
bounds of its 95 % interval, `METRIC.diff` is the paired difference of another arm minus that policy, `.diff.low` and
`.diff.high` its bounds; with several other arms the worst of them decides. A metric of exactly that name comes first.

Numbers are compared as they are, never as they are printed. An eval that did not complete with every episode, a metric
that is missing and a value that is no number meet no bar.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

from seq import _report_sentences as sentences
from seq._binomial import bar_for, episodes_for, miss
from seq._numbers import bounds, percent
from seq._report_view import Pair, Score, View, view
from seq._report_view import part as part_of
from seq.report import EvalReport
from sequence_ai import InvalidRequest

Json = Mapping[str, Any]
Compare = Callable[[float, float], bool]

COMPARE: dict[str, Compare] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
RISK = 0.05

_FORM = re.compile(r"\s*(?P<metric>[^<>=!]*[^<>=!\s])\s*(?P<op>>=|<=|==|>|<)\s*(?P<number>[^<>=!\s]+)\s*")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_PARTS = (".diff.low", ".diff.high", ".diff", ".low", ".high")


@dataclass(frozen=True)
class Gate:
    """One bar; `text` is as the user wrote it, less the spaces around it."""

    text: str
    metric: str
    op: str
    bar: float

    def holds(self, value: float) -> bool:
        """Whether a value meets the bar; what is no finite number never does."""
        return isfinite(value) and COMPARE[self.op](value, self.bar)


@dataclass(frozen=True)
class Verdict:
    """Whether a gate was met, and the line that says so and why."""

    passed: bool
    line: str
    gate: Gate


@dataclass(frozen=True)
class _Measured:
    """The value that decides, what to say of it, and over how many episodes it is a 0/1 mean (None: it is none)."""

    value: float
    told: str = ""
    rate_n: int | None = None


class _MissingError(Exception):
    """There is no value to judge; the message says why."""


def parse(text: str) -> Gate:
    """Read `METRIC OP NUMBER`. Raises InvalidRequest, naming the gate, on anything else."""
    found = _FORM.fullmatch(text)
    if found is None or not _NUMBER.fullmatch(found["number"]) or not isfinite(float(found["number"])):
        raise InvalidRequest(
            f"--gate {text!r} is not METRIC OP NUMBER",
            code="invalid_request",
            hint="OP is one of >= <= > < ==; for example --gate 'success >= 0.9' or --gate 'success.low >= 0.8'",
        )
    return Gate(text.strip(), found["metric"], found["op"], float(found["number"]))


def judge(gate: Gate, report: EvalReport, details: Json | None = None) -> Verdict:
    """Hold an eval's outcome against a gate, with the details the report came with unless others are given."""
    seen = view(report, details)
    try:
        found = _measured(gate.metric, gate, seen)
    except _MissingError as missing:
        return _verdict(gate, _unfinished(seen) or str(missing), passed=False)
    told = f"{_beside(found.value, gate.bar)}{found.told}"
    unfinished = _unfinished(seen)
    if unfinished is not None:
        return _verdict(gate, f"{unfinished} (so far {told})", passed=False)
    if not isfinite(found.value):
        return _verdict(gate, f"{told}: no number meets it", passed=False)
    whose = f", of arm {seen.first.name}" if seen.several and ".diff" not in gate.metric else ""
    return _verdict(gate, told + whose + _luck(gate, found), passed=gate.holds(found.value))


def judge_all(gates: Iterable[Gate], report: EvalReport, details: Json | None = None) -> list[Verdict]:
    """Every gate's verdict, in order."""
    return [judge(gate, report, details) for gate in gates]


def _verdict(gate: Gate, reason: str, *, passed: bool) -> Verdict:
    return Verdict(passed, f"gate {'passed' if passed else 'missed'}: {gate.text}  {reason}", gate)


def _unfinished(seen: View) -> str | None:
    """Why no number of this eval may pass a gate, if so."""
    if seen.report.status != "completed":
        return f"the eval is {seen.report.status}, not completed"
    if seen.incomplete:
        return f"the eval is incomplete: {'; '.join(sentences.incomplete(seen))}"
    return None


def _measured(name: str, gate: Gate, seen: View) -> _Measured:
    scores = seen.first.scores
    if name in scores:
        score = scores[name].overall
        return _Measured(score.mean, _sized(score), score.n if seen.is_rate(name) and _apart(score, seen) else None)
    base, part = _split(name)
    if base not in scores:
        there = ", ".join(scores) or "none"
        raise _MissingError(f"the report has no metric {base!r}; its metrics: {there}")
    if part.startswith("diff"):
        return _worst(base, part, gate, seen)
    score = scores[base].overall
    if score.interval is None:
        raise _MissingError(f"{base} has no interval")
    return _Measured(score.interval[part == "high"], f"; the mean is {score.mean:.3f}{_sized(score)}")


def _apart(score: Score, seen: View) -> bool:
    """Whether every episode had a start of its own: chance does not play with those of one start one by one."""
    starts = part_of(seen.details, "distinct_starts").get("seen")
    return starts is None or score.n is None or starts >= score.n


def _split(name: str) -> tuple[str, str]:
    """`success.diff.low` as `success` and `diff.low`."""
    for part in _PARTS:
        if name.endswith(part) and len(name) > len(part):
            return name[: -len(part)], part[1:]
    return name, ""


def _worst(metric: str, part: str, gate: Gate, seen: View) -> _Measured:
    """The paired difference, of all arms against the first, that is furthest from meeting the bar."""
    if not seen.several:
        raise _MissingError("the eval has one arm; a difference needs another (--compare or --sweep)")
    found = []
    for arm in seen.arms[1:]:
        pair = _against_first(metric, arm.name, seen)
        found.append((_of(pair, part), pair))
    value, pair = max(found, key=lambda each: _badness(gate, each[0]))
    among = f", the worst of {len(found)}" if len(found) > 1 else ""
    interval = f" {bounds(pair.low, pair.high, sign=True)}" if pair.low is not None and pair.high is not None else ""
    told = f" ({pair.arm_b} - {pair.arm_a}{among}; {pair.n} paired episode(s)"
    return _Measured(value, f"{told}{f', 95% CI{interval}' if interval else ''})")


def _against_first(metric: str, arm: str, seen: View) -> Pair:
    """The difference arm minus first arm; a platform may have told it the other way round."""
    first = seen.first.name
    for pair in seen.pairs:
        if pair.metric == metric and (pair.arm_a, pair.arm_b) == (first, arm):
            return pair
        if pair.metric == metric and (pair.arm_a, pair.arm_b) == (arm, first):
            low = -pair.high if pair.high is not None else None
            high = -pair.low if pair.low is not None else None
            return Pair(metric, first, arm, pair.n, -pair.mean_diff, low, high)
    raise _MissingError(f"there is no paired difference in {metric} of arm {arm!r} against {first!r}")


def _of(pair: Pair, part: str) -> float:
    value = {"diff": pair.mean_diff, "diff.low": pair.low, "diff.high": pair.high}[part]
    if value is None:
        raise _MissingError(f"the difference of arm {pair.arm_b!r} has no interval")
    return value


def _badness(gate: Gate, value: float) -> float:
    """Larger is further from meeting the bar; what is no number is furthest."""
    if isnan(value):
        return float("inf")
    if gate.op == "==":
        return abs(value - gate.bar)
    return -value if gate.op in (">=", ">") else value


def _sized(score: Score) -> str:
    interval = f", 95% CI {bounds(*score.interval)}" if score.interval is not None else ""
    return f" over {score.n} episode(s){interval}"


def _beside(value: float, bar: float) -> str:
    """The value with as many places as show on which side of the bar it lies."""
    for places in range(3, 18):
        text = f"{value:.{places}f}"
        printed = float(text)
        if (printed > bar, printed < bar) == (value > bar, value < bar):
            return text
    return repr(value)


def _luck(gate: Gate, found: _Measured) -> str:
    """How often a policy whose true rate is the measured one misses the bar at this size, and what would do better."""
    n, rate = found.rate_n, found.value
    if not n:
        return ""
    compare = COMPARE[gate.op]
    missed = miss(rate, n, compare, gate.bar)
    how = "would miss it by luck" if gate.holds(rate) else "misses it"
    line = f"; a policy whose true rate is this one {how} in {percent(missed)} of runs of this size"
    if missed <= RISK:
        return line
    enough, bar = episodes_for(rate, compare, gate.bar, RISK), bar_for(rate, n, compare, RISK)
    ways = [f"from {enough} episode(s) on"] if enough is not None else []
    if bar is not None:
        ways.append(f"with a bar of {bar:g} at {n}")
    return f"{line} (at most 5 % {' or '.join(ways)})" if ways else line
