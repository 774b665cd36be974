"""Every way to show an eval reads every details document there may be: any key of it may be missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq import gates
from seq._junit import junit
from seq._report_html import page
from seq._report_view import view
from seq.cli._report import report_lines
from seq.report import EvalReport
from tests.supports.outcome import everything

BODY, DETAILS = everything()


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where anything stands in a document, in the first rows of its lists."""
    if isinstance(document, dict):
        inner = document.items()
    elif isinstance(document, list):
        inner = list(enumerate(document))[:3]
    else:
        return []
    return [place for key, value in inner for place in ((*path, key), *places(value, (*path, key)))]


PLACES = [place for place in places(DETAILS) if not isinstance(place[-1], int) and place[0] != "episodes"]


def without(document: dict[str, Any], place: tuple[Any, ...], *, null: bool) -> None:
    """Take out what stands at a place, or leave nothing in it."""
    for key in place[:-1]:
        if document is None or (isinstance(document, dict) and key not in document):
            return
        document = document[key]
    if isinstance(document, dict) and null:
        document[place[-1]] = None
    elif isinstance(document, dict):
        document.pop(place[-1], None)


def show(details: dict[str, Any]) -> None:
    """Everything in words."""
    report = EvalReport.from_wire(BODY, details)
    report_lines(report, details)
    page(view(report, details))
    verdicts = gates.judge_all([gates.parse("success.diff.low >= -0.1"), gates.parse("success > 0.5")], report, details)
    junit(report, details, verdicts, details.get("episodes") or [])


@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
def test_whatever_is_missing_the_rest_is_told(null):
    """A key that is absent, or null, at any depth stops neither text nor page nor JUnit nor gates."""
    for place in PLACES:
        details = copy.deepcopy(DETAILS)
        without(details, place, null=null)
        try:
            show(details)
        except Exception as error:
            raise AssertionError(f"{'null' if null else 'no'} {place}") from error


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PLACES), min_size=1, max_size=12), st.booleans())
def test_whatever_is_missing_the_rest_is_drawn(missing, null):
    """The same for several keys at once, and for the picture."""
    details = copy.deepcopy(DETAILS)
    for place in missing:
        without(details, place, null=null)
    show(details)
    EvalReport.from_wire(BODY, details).plot()


def test_a_report_alone_is_shown():
    """With no details at all, and with no episode scored."""
    show({})
    EvalReport.from_wire(BODY).plot()
    bare = {"status": "queued", "metrics": {}, "cost_usd": 0, "dashboard_url": "", "adapter_lossy": []}
    assert report_lines(EvalReport.from_wire(bare), {}) == ["report: queued  cost $0.00"]
    assert "queued" in EvalReport.from_wire(bare)._repr_html_()
