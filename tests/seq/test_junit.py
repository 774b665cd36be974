"""JUnit XML of an eval: read back with the standard library, as CI systems read it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq._junit import junit
from seq.gates import judge_all, parse
from seq.report import EvalReport
from tests.supports.outcome import everything, outcome

# What junit-10.xsd of Jenkins' xunit-plugin takes: attributes (required, optional) and children, in order, of each.
ATTRIBUTES = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, set()),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, set()),
    "testcase": ({"name", "classname"}, {"time"}),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase"],
    "testcase": ["skipped", "error", "failure", "system-out"],
    "properties": ["property"],
}


def read(body: dict[str, Any], details: dict[str, Any], *gates: str, rows: list[Any] | None = None) -> ET.Element:
    """The document, parsed and held to the schema and to its own counts."""
    report = EvalReport.from_wire(body, details)
    verdicts = judge_all([parse(gate) for gate in gates], report, details)
    text = junit(report, details, verdicts, details["episodes"] if rows is None else rows)
    root = ET.fromstring(text.encode("utf-8"))
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional = ATTRIBUTES[element.tag]
        assert required <= set(element.attrib) <= required | optional, element.tag
        order = [CHILDREN.get(element.tag, []).index(child.tag) for child in element]
        assert order == sorted(order)
    suites = root.findall("testsuite")
    for suite in suites:
        counts = {"tests": "testcase", "failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}
        assert {name: int(suite.get(name)) for name in counts} == {n: len(suite.findall(p)) for n, p in counts.items()}
        assert float(suite.get("time")) >= 0
        names = [(case.get("classname"), case.get("name")) for case in suite.findall("testcase")]
        assert len(set(names)) == len(names)
    for name in ("tests", "failures", "errors"):
        assert int(root.get(name)) == sum(int(suite.get(name)) for suite in suites)
    return root


def suites(root: ET.Element) -> dict[str, ET.Element]:
    """The suites by name."""
    return {suite.get("name"): suite for suite in root.findall("testsuite")}


def test_a_suite_an_arm_a_case_an_episode():
    """Named by task, seed and variation; a policy that fails half of its episodes has no failure."""
    body, details = outcome(("reach", "lift"), 10, {"expert": 0.9, "random": 0.5})
    root = read(body, details, "success >= 0.5", "success >= 0.99")
    found = suites(root)
    assert list(found) == ["expert", "random", "eval", "gates"]
    assert (found["random"].get("tests"), found["random"].get("failures"), found["random"].get("errors")) == (
        *("20", "0", "0"),
    )
    cases = found["expert"].findall("testcase")
    assert [case.get("name") for case in cases][:2] == ["reach/0/light=bright", "reach/1/light=dim"]
    assert {case.get("classname") for case in cases} == {"table.expert"}
    assert cases[0].find("system-out").text == "success=1.0"
    properties = {each.get("name"): each.get("value") for each in found["expert"].iter("property")}
    assert properties["model"] == "expert v3"
    assert properties["benchmark"] == "table v1"
    assert float(properties["success.low"]) < float(properties["success"]) < float(properties["success.high"])
    assert root.get("time") == "62.000"


def test_each_gate_is_a_case_that_fails_when_it_is_missed():
    """The failure's message is the gate's line."""
    gates = suites(read(*outcome(), "success >= 0.5", "success >= 0.99"))["gates"]
    met, missed = gates.findall("testcase")
    assert (met.get("name"), met.find("failure")) == ("success >= 0.5", None)
    assert missed.find("failure").get("message").startswith("gate missed: success >= 0.99  0.800")


def test_without_gates_there_is_no_suite_of_gates():
    """An empty one would read as a test run that found nothing."""
    assert list(suites(read(*outcome()))) == ["expert", "eval"]


def test_an_errored_episode_is_an_error_and_one_that_did_not_run_is_skipped():
    """And the eval that lacks them is an error itself, with the reason."""
    body, details = everything()
    root = read(body, details, "success >= 0")
    found = suites(root)
    assert (found["expert"].get("errors"), found["expert"].get("skipped")) == ("2", "1")
    assert found["expert"].find("testcase/error").get("type") == "ValueError"
    assert found["gates"].get("failures") == "1"
    told = found["eval"].find("testcase/error").text
    assert "incomplete: arm expert: 20 planned, 19 ran, 17 scored" in told
    assert "stopped: budget" in told
    assert "recording failed: full disk" in told


@pytest.mark.parametrize("status", ["failed", "canceled", "running"])
def test_an_eval_that_did_not_complete_is_an_error(status):
    """Even if every episode of it was scored."""
    body, details = outcome(status=status)
    told = suites(read(body, details))["eval"].find("testcase/error")
    assert told.get("message") == f"the eval is {status}, not completed"


def test_episodes_of_one_name_are_told_apart_by_their_index():
    """A start listed twice is two cases: CI systems take equal names for one."""
    body, details = outcome(("reach",), 2)
    rows = [{**row, "seed": 0, "variation": []} for row in details["episodes"]]
    names = [case.get("name") for case in suites(read(body, details, rows=rows))["expert"].findall("testcase")]
    assert names == ["reach/0 (episode 0)", "reach/0 (episode 1)"]


ANY = st.text(st.characters(codec=None), max_size=30)


@given(ANY, ANY, ANY)
def test_whatever_an_error_holds_the_document_is_xml(task, error, axis):
    """Control characters, terminal escapes, half surrogates, markup: all of it is written and read back as text."""
    body, details = outcome(("reach",), 2)
    rows = [{**details["episodes"][0], "task": task, "variation": [[axis, task]], "error": error, "metrics": {}}]
    case = suites(read(body, details, rows=rows))["expert"].find("testcase")
    if error:
        assert case.find("error") is not None
    if all(character.isascii() and character.isprintable() for character in task + axis):
        assert case.get("name") == f"{task}/0/{axis}={task}"


def test_terminal_escapes_are_told_and_do_not_act():
    """A coloured traceback keeps its text; its escapes are written out."""
    body, details = outcome(("reach",), 1)
    rows = [{**details["episodes"][0], "error": "\x1b[31mValueError\x1b[0m: \x00 ]]> <b>&\nline two"}]
    error = suites(read(body, details, rows=rows))["expert"].find("testcase/error")
    assert error.text == "\\x1b[31mValueError\\x1b[0m: \\x00 ]]> <b>&\nline two"
    assert error.get("message") == "\\x1b[31mValueError\\x1b[0m: \\x00 ]]> <b>&"
