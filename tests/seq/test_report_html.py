"""The page of a report: well-formed, self-contained, and whatever others wrote stands in it as text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq.report import EvalReport
from tests.supports.outcome import everything, outcome

HTML = {"div", "style", "h3", "h4", "p", "b", "a", "span", "table", "tr", "th", "td", "details", "summary", "pre"}
SVG = {"svg", "title", "rect", "line", "path", "circle"}
ELEMENTS = HTML | SVG


class Page(HTMLParser):
    """Holds a page to its nesting and to the elements it may have, and collects what a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert tag in ELEMENTS, tag
        self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_startendtag(self, tag, attrs):
        assert tag in ELEMENTS, tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.text.append(data)

    @property
    def read(self) -> str:
        return "".join(self.text)


def shown(body, details) -> Page:
    """The page of a report, read."""
    return Page(EvalReport.from_wire(body, details)._repr_html_())


def test_the_page_says_what_the_command_says():
    """What ran, the end, scores with their intervals, arms, differences with adjusted p, errors with tracebacks."""
    body, details = everything()
    details["paired"][0] |= {"p_adjusted": 0.062, "comparisons": 2}
    page = shown(body, details)
    for told in (
        "expert v3 and 1 more arm(s) on table v1",
        "Incomplete: arm expert: 20 planned, 19 ran, 17 scored (15 succeeded, 2 failed), 2 errored, 1 not run",
        "Regression: success fell by 0.100 since eval e7",
        "3 episode(s) were a success by their first step",
        "Differs: the benchmark was v1, now v2",
        "resize(cam): 640x480 to 224x224",
        "joints v2 (sha256 abcdef012345)",
        "policy.num_steps=10 (policy's default) · adapter.size=96 (set)",
        "mujoco",
        "all episodes (micro mean)0.882",
        "mean of tasks (macro mean)0.857",
        "errors counted as failures0.789",
        "light=dim0.667",
        "[0.657, 0.967] n=17",
        "0.062 of 2",
        "Agresti-Min; exact McNemar",
        "2 \N{MULTIPLICATION SIGN} ValueError: no grasp (arm random; episodes 17, 18)",
        "File 'p.py', line 3",
        "recording failed: full disk",
    ):
        assert told in page.read, told


def test_a_page_stands_alone():
    """No script, no style sheet, no picture is fetched; the only addresses are links of the web."""
    page = shown(*everything())
    assert not [each for each in page.attributes if each[1] in ("src", "srcset", "onload", "onclick")]
    assert {value.split(":")[0] for _, name, value in page.attributes if name == "href"} == {"http"}


def test_a_traceback_is_folded():
    """Its cause is the line that unfolds it."""
    page = EvalReport.from_wire(*everything())._repr_html_()
    assert "<details><summary><b>2 \N{MULTIPLICATION SIGN} </b>ValueError: no grasp" in page


def test_every_value_has_a_bar_and_every_difference_a_point():
    """With the numbers in words for whoever cannot see it."""
    page = shown(*outcome(("reach", "lift"), 10, {"a": 0.9, "b": 0.5}))
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(labels) == 2 * (2 + 2) + 1
    assert "0.950 [0.764, 0.991] n=20" in labels or "0.800 [0.584, 0.919] n=20" in labels
    boxes = [float(value) for tag, name, value in page.attributes if (tag, name) == ("rect", "width")]
    assert all(0 <= width <= 130 for width in boxes)


@pytest.mark.parametrize(("tasks", "opened"), [(30, True), (31, False)])
def test_many_tasks_are_folded(tasks, opened):
    """So that a page of 40 tasks and three metrics is still read from its top."""
    page = EvalReport.from_wire(*outcome([f"t{n}" for n in range(tasks)], 1))._repr_html_()
    assert ('<details open="open"><summary>' in page) is opened


def test_an_address_that_is_none_of_the_web_is_no_link():
    """`javascript:` is text."""
    body, details = outcome()
    page = shown({**body, "dashboard_url": "javascript:alert(1)", "videos": ["data:text/html,x"]}, details)
    assert not [each for each in page.attributes if each[1] == "href"]
    assert "this eval on the platform" in page.read


HOSTILE = "<script>alert('x')</script>&amp;\"><img src=x onerror=y>"


@settings(max_examples=50, deadline=None)
@given(st.one_of(st.just(HOSTILE), st.text(st.characters(codec=None), min_size=1, max_size=40)))
def test_whatever_others_wrote_stands_as_text(name):
    """Names of tasks, arms, metrics and variants, errors and tracebacks, in text and in attributes."""
    body, details = outcome((name,), 2, {name: 0.5, "other": 0.5})
    leaf = details["intervals"]["success"]["overall"]
    details["intervals"]["success"]["per_variant"] = {f"v={name}": leaf}
    details["errors"] = [{"cause": name, "count": 1, "arm": name, "traceback": name, "episodes": [0]}]
    details |= {"happened": [name], "differs": [name]}
    details["manifest"]["facts"] = {name: name}
    body["metrics"][name] = {"overall": 1.0, "n": 1}
    page = shown({**body, "errors": [name], "stop_reason": name}, details)
    assert "\x00" not in page.read
    page.read.encode("utf-8")
    if name == HOSTILE:
        assert page.read.count(HOSTILE) >= 10
