"""The picture of an eval: what is drawn, read off the figure itself."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import seq
from seq._palette import COLORS, color, hatch
from seq.report import EvalReport
from tests.supports.outcome import everything, outcome

LONG = [
    f"put_the_black_bowl_in_the_{where}_drawer_of_the_cabinet_and_close_it_{n}" for n in range(20) for where in "ab"
]


def drawn(body, details, metric=None) -> Figure:
    """The figure, drawn to the end: what cannot be drawn warns or raises only then."""
    figure = EvalReport.from_wire(body, details).plot(metric)
    assert figure._repr_png_().startswith(b"\x89PNG")
    return figure


def bars(axes) -> list[float]:
    """The lengths of the bars, from the top."""
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [patch.get_width() for patch in sorted(found, key=lambda patch: patch.get_y())]


def texts(figure) -> str:
    """Everything written on the figure."""
    return "\n".join(text.get_text() for text in figure.findobj(lambda item: hasattr(item, "get_text")))


def test_bars_by_task_with_intervals():
    """The means first, then each task, with value and n beside it."""
    body, details = outcome(("reach", "lift"), 10)
    figure = drawn(body, details)
    (axes,) = figure.axes
    assert bars(axes) == [0.8, 0.8, 1.0, 0.6]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["all episodes (micro mean)", "mean of tasks (macro mean)", "reach", "lift"]
    ends = [
        tuple(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2
    ]
    leaf = details["intervals"]["success"]["per_task"]["lift"]
    assert (leaf["low"], leaf["high"]) in ends
    assert " 0.600  n=10" in texts(figure)
    assert axes.get_xlim() == (0, 1)


def test_arms_stand_side_by_side_over_their_differences():
    """A bar an arm in each group, in colours of their own; below, each difference beside the line of none."""
    body, details = outcome(("reach", "lift"), 10, {"a": 0.9, "b": 0.5, "_c $x^2$": 0.2})
    figure = drawn(body, details)
    upper, lower = figure.axes
    assert len(bars(upper)) == 4 * 3
    assert len({patch.get_facecolor() for patch in upper.patches}) == 3
    assert [text.get_text() for text in upper.get_legend().get_texts()] == ["a", "b", "_c $x^2$"]
    dots = [line.get_xdata()[0] for line in lower.lines if line.get_marker() == "o"]
    assert dots == [pair["mean_diff"] for pair in details["paired"]]
    assert [0, 0] in [list(line.get_xdata()) for line in lower.lines]
    assert "adj. p=0.062" in texts(figure)


def test_forty_tasks_with_long_names_keep_apart():
    """Every label is there, no two are equal, and none reaches over the one below it."""
    figure = drawn(*outcome(LONG, 5))
    labels = figure.axes[0].get_yticklabels()
    assert len({label.get_text() for label in labels}) == 42
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0


def test_of_too_many_tasks_the_lowest_are_drawn_and_the_picture_says_so():
    """A figure of 500 tasks would be higher than any image may be."""
    body, details = outcome([f"t{n}" for n in range(500)], 2)
    figure = drawn(body, details)
    assert len(figure.axes[0].get_yticklabels()) == 2 + 80
    assert "420 task(s) with higher values left out" in texts(figure)


def test_an_incomplete_eval_says_so_in_its_title():
    """With how much there is of each arm."""
    title = drawn(*everything()).get_suptitle()
    assert "INCOMPLETE (completed): arm expert: 20 planned, 19 ran, 17 scored" in title
    assert "INCOMPLETE (completed): arm random" in title


def test_an_eval_with_nothing_scored_is_a_picture_too():
    """It says why there is nothing."""
    figure = drawn(*outcome(seeds=2, not_run=4, status="queued"))
    assert "nothing is scored yet: the eval is queued" in texts(figure)


def test_values_without_intervals_are_bars_alone():
    """And the axis does not promise any."""
    figure = drawn(*outcome(rates={"a": 0.9, "b": 0.5}, intervals=False))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "success: mean"
    assert all(line.get_marker() != "|" for line in axes.lines)


@pytest.mark.parametrize(
    ("values", "limits"),
    [([-3.0, 5.0], (-3.32, 5.32)), ([-2.0, -1.0], (-2.08, 0.0)), ([0.002, 0.004], (0.0, 0.00416))],
)
def test_a_metric_that_is_no_rate_spans_what_there_is(values, limits):
    """Bars reach from zero to either side; small values fill the picture like large ones."""
    body, details = outcome(("t0", "t1"), 3)
    tasks = [{"task": f"t{n}", "value": value, "n": 3} for n, value in enumerate(values)]
    body["metrics"] = {"reward": {"overall": sum(values) / 2, "n": 6, "per_task": tasks}}
    (axes,) = drawn(body, {**details, "intervals": {}, "means": {}, "arms": []}).axes
    assert axes.get_xlim() == pytest.approx(limits)


def test_another_metric_is_drawn_by_name_and_a_wrong_name_is_told():
    """The primary one is `success`; a wrong name lists those there are."""
    body, details = outcome()
    body["metrics"]["a_reward"] = {"overall": 3.0, "n": 20}
    assert "success" in drawn(body, details).get_suptitle()
    assert drawn(body, details, "a_reward").get_suptitle().startswith("a_reward: expert v3 on table v1")
    with pytest.raises(ValueError, match="no metric 'nope'; there are success, a_reward"):
        EvalReport.from_wire(body, details).plot("nope")


def test_hostile_names_are_drawn_as_they_are():
    """Mathematical markup, line breaks and control characters in a name are text."""
    figure = drawn(*outcome(("$\\frac{1}{0}$", "two\nlines", "bell\x07", " "), 3, {"$": 0.5, "b$": 0.5}))
    labels = {label.get_text() for label in figure.axes[0].get_yticklabels()}
    assert {"$\\frac{1}{0}$", "two lines", "bell\\x07", ""} <= labels


def test_the_arms_colours_are_different_for_thirty_arms():
    """Beyond the palette a pattern tells them apart."""
    assert len({(color(n), hatch(n)) for n in range(30)}) == 30
    assert [color(n) for n in range(6)] == list(COLORS)


def test_a_picture_needs_no_pyplot():
    """It has no window, no global state, and a notebook shows it without either."""
    code = (
        "import sys\nfrom tests.supports.outcome import outcome\nfrom seq.report import EvalReport\n"
        "EvalReport.from_wire(*outcome()).plot()._repr_png_()\nprint('matplotlib.pyplot' in sys.modules)\n"
    )
    root = Path(seq.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
