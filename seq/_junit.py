"""An eval as JUnit XML, the form that CI systems read: a suite an arm, a test case an episode, a suite of gates.

An episode that errored is an `<error>`; one that ran and did not succeed is no failure, since a rate is no test. What
fails is a gate that was missed. An eval that did not complete with every episode is an `<error>` of the suite `eval`.
The elements and attributes are those of the schema that Jenkins checks against (xunit-plugin, junit-10.xsd); GitLab and
GitHub's reporters read a part of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from seq import _report_sentences as sentences
from seq._printable import printable
from seq._report_view import Arm, View, part, view
from seq.gates import Verdict
from seq.report import EvalReport

Json = Mapping[str, Any]
Element = ET.Element

_OUTCOMES = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))


def junit(report: EvalReport, details: Json | None, verdicts: Iterable[Verdict], episodes: Iterable[Json]) -> str:
    """The whole document, with its XML declaration; `episodes` are the rows of all arms."""
    seen = view(report, details)
    by_arm: dict[str, list[Json]] = {arm.name: [] for arm in seen.arms}
    for row in episodes:
        by_arm.setdefault(str(row.get("arm") or seen.first.name), []).append(row)
    told = {arm.name: arm for arm in seen.arms}
    suites = [_arm(name, told.get(name), found, seen) for name, found in by_arm.items()]
    judged = list(verdicts)
    suites += [_eval(seen), *([_gates(judged)] if judged else [])]
    root = _element("testsuites", name=f"{_benchmark(seen)}: {seen.first.name}", **_totals(suites), time=_seconds(seen))
    root.extend(suites)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _arm(name: str, arm: Arm | None, episodes: list[Json], seen: View) -> Element:
    """One arm: what it is and scored as properties, a case an episode."""
    names = [_name(row) for row in episodes]
    twice = {each for each, times in Counter(names).items() if times > 1}
    cases = []
    for row, each in zip(episodes, names, strict=True):
        unique = f"{each} (episode {row.get('index')})" if each in twice else each
        cases.append(_episode(row, unique, f"{_benchmark(seen)}.{name}"))
    suite = _suite(name, cases, time=_seconds(seen))
    suite.insert(0, _properties(arm, seen))
    return suite


def _properties(arm: Arm | None, seen: View) -> Element:
    found = {"benchmark": sentences.versioned(_benchmark(seen), seen.manifest.get("benchmark_version"))}
    if arm is not None:
        found["model"] = sentences.versioned(arm.model, arm.version)
        found |= {f"param.{key}": str(value) for key, value in arm.params.items()}
        for metric, scores in arm.scores.items():
            found[metric] = repr(scores.overall.mean)
            if scores.overall.interval is not None:
                found[f"{metric}.low"], found[f"{metric}.high"] = map(repr, scores.overall.interval)
    properties = _element("properties")
    properties.extend(_element("property", name=name, value=value) for name, value in found.items())
    return properties


def _episode(row: Json, name: str, classname: str) -> Element:
    case = _element("testcase", name=name, classname=classname)
    error, metrics = row.get("error"), row.get("metrics") or {}
    if error:
        case.append(_told("error", str(error)))
    elif not _ran(row):
        case.append(_element("skipped", message="not run"))
    if metrics:
        said = _element("system-out")
        said.text = printable("\n".join(f"{metric}={value!r}" for metric, value in metrics.items()))
        case.append(said)
    return case


def _name(row: Json) -> str:
    """`task/seed/axis=value,axis=value`."""
    variation = ",".join(f"{axis}={value}" for axis, value in row.get("variation") or [])
    return "/".join([str(row.get("task")), str(row.get("seed")), *([variation] if variation else [])])


def _ran(row: Json) -> bool:
    """Whether an episode was played: a row of one that was not has nothing in it."""
    return any(row.get(key) for key in ("metrics", "steps", "acts", "terminated", "truncated", "timed_out"))


def _eval(seen: View) -> Element:
    """One case that holds when every planned episode of every arm was scored."""
    case = _element("testcase", name="completed with every episode", classname=f"{_benchmark(seen)}.eval")
    reasons = [] if seen.report.status == "completed" else [f"the eval is {seen.report.status}, not completed"]
    reasons += [f"incomplete: {line}" for line in sentences.incomplete(seen)]
    if seen.report.stop_reason:
        reasons.append(f"stopped: {seen.report.stop_reason}")
    if reasons:
        case.append(_told("error", "\n".join([*reasons, *seen.other_errors])))
    return _suite("eval", [case])


def _gates(verdicts: list[Verdict]) -> Element:
    cases = []
    for verdict in verdicts:
        case = _element("testcase", name=verdict.gate.text, classname="gates")
        if verdict.passed:
            said = _element("system-out")
            said.text = printable(verdict.line)
            case.append(said)
        else:
            case.append(_told("failure", verdict.line))
        cases.append(case)
    return _suite("gates", cases)


def _told(kind: str, text: str) -> Element:
    """A failure or an error: its first line as the message, all of it as the text."""
    head = text.strip().partition("\n")[0]
    element = _element(kind, message=head, type=head.partition(":")[0])
    element.text = printable(text)
    return element


def _suite(name: str, cases: list[Element], time: str = "0.000") -> Element:
    suite = _element("testsuite", name=name, **_counted(cases), time=time)
    suite.extend(cases)
    return suite


def _counted(cases: list[Element]) -> dict[str, str]:
    held = {count: sum(case.find(tag) is not None for case in cases) for count, tag in _OUTCOMES}
    return {"tests": str(len(cases)), **{count: str(number) for count, number in held.items()}}


def _totals(suites: list[Element]) -> dict[str, str]:
    return {count: str(sum(int(suite.get(count, 0)) for suite in suites)) for count in ("tests", "failures", "errors")}


def _seconds(seen: View) -> str:
    """The eval's wall-clock time: arms run side by side, and an episode's own time is not told."""
    return f"{part(seen.details, 'actual').get('wall_clock_s') or 0:.3f}"


def _benchmark(seen: View) -> str:
    return str(seen.manifest.get("benchmark") or "benchmark")


def _element(tag: str, **attributes: str) -> Element:
    return ET.Element(tag, {name: printable(value) for name, value in attributes.items()})
