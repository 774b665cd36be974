"""`EvalReport`: the published value, and what it carries beside its fields."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import seq
from seq._episode_rows import episode_rows
from seq.report import EvalEstimate, EvalReport
from tests.supports.outcome import everything, outcome

PUBLISHED = [
    *("status", "metrics", "cost_usd", "dashboard_url", "adapter_lossy", "videos", "incomplete", "errors", "arms"),
    *("paired", "timing", "stop_reason", "arm_params"),
]


def test_the_published_fields_are_all_there_is():
    """What rides beside them is no field: it is not compared, not shown, and in no dict."""
    body, details = everything()
    with_details, alone = EvalReport.from_wire(body, details, list), EvalReport.from_wire(body)
    assert [field.name for field in dataclasses.fields(EvalReport)] == PUBLISHED
    assert with_details == alone
    assert repr(with_details) == repr(alone)
    assert dataclasses.asdict(with_details) == dataclasses.asdict(alone)


def test_a_copy_keeps_the_details_and_leaves_the_connection():
    """A pickled or copied report shows itself; episodes that are not in the details are not in the copy either."""
    body, details = outcome()
    report = EvalReport.from_wire(body, {**details, "episodes": []}, lambda: details["episodes"])
    assert len(report.to_pandas()) == 20
    for twin in (pickle.loads(pickle.dumps(report)), copy.deepcopy(report)):
        assert twin == report
        assert twin._repr_html_() == report._repr_html_()
        with pytest.raises(LookupError, match="came without its episodes"):
            twin.to_pandas()
    assert len(pickle.loads(pickle.dumps(EvalReport.from_wire(body, details))).to_pandas()) == 20


def test_episodes_are_read_page_by_page_where_the_details_do_not_hold_them():
    """The list where it is whole; else every page, by cursor."""
    _, details = outcome(seeds=3)
    rows = details["episodes"]

    def page(cursor):
        start = int(cursor or 0)
        after = str(start + 4) if start + 4 < len(rows) else None
        return {"episodes": rows[start : start + 4], "next_cursor": after}

    def never(cursor):
        raise AssertionError("a page was asked for")

    assert list(episode_rows(details, never)) == rows
    assert list(episode_rows({**details, "episodes": []}, page)) == rows
    assert list(episode_rows({}, never)) == []


def test_the_planning_of_a_dry_run_stands_with_its_notes():
    """The published fields have no other place for it."""
    answer = {
        "estimate": {"wall_clock_s": 1, "cost_usd": 0},
        "notes": ["n"],
        "planning": ["20 episodes tell 0.3 apart"],
    }
    assert EvalEstimate.from_wire(answer).notes == ["n", "20 episodes tell 0.3 apart"]


LOADS = """
import sys
import seq
import seq.report, seq.gates, seq._junit, seq._report_view, seq._report_html, seq.cli._report, seq.cli._estimate
print([name for name in ("numpy", "pandas", "matplotlib", "scipy") if name in sys.modules])
"""


def test_reports_are_read_and_shown_without_numpy_pandas_or_matplotlib():
    """They are loaded when a frame or a picture is asked for."""
    root = Path(seq.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", LOADS], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("module", "call"), [("pandas", "to_pandas"), ("matplotlib", "plot")])
def test_a_missing_library_is_told_with_what_installs_it(module, call):
    """One sentence, naming the extra."""
    blocked = f"import sys\nsys.modules[{module!r}] = None\n"
    use = "from tests.supports.outcome import outcome\nfrom seq.report import EvalReport\n"
    code = f"{blocked}{use}EvalReport.from_wire(*outcome()).{call}()\n"
    root = Path(seq.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert f'ImportError: report.{call}() needs {module}: pip install "sequence-ai[data]"' in done.stderr
