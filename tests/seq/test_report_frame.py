"""An eval's episodes as a DataFrame."""

from __future__ import annotations

import numpy as np

from seq._report_frame import frame
from seq.report import EvalReport
from tests.supports.outcome import everything, outcome


def test_a_row_an_episode_with_its_metrics_and_axes_as_columns():
    """Every arm's episodes, in the platform's order, with what the CSV has."""
    body, details = outcome(("reach", "lift"), 10, {"expert": 0.9, "random": 0.1})
    found = EvalReport.from_wire(body, details).to_pandas()
    assert list(found.columns) == [
        *("arm", "index", "task", "seed", "suite", "variation.light", "steps", "terminated", "truncated"),
        *("timed_out", "recorded", "error", "attempts", "acts", "success"),
    ]
    assert len(found) == 40
    assert found["success"].dtype == np.float64
    means = found.groupby("arm")["success"].mean()
    assert means["expert"] == body["metrics"]["success"]["overall"]
    assert set(found["variation.light"]) == {"dim", "bright"}


def test_a_metric_that_is_missing_is_nan_and_an_error_is_kept():
    """An episode that errored has no value, not a zero."""
    body, details = everything()
    found = EvalReport.from_wire(body, details).to_pandas()
    errored = found[found["error"].notna()]
    assert len(errored) == 4
    assert errored["success"].isna().all()
    assert found["success"].notna().sum() == 34


def test_names_that_collide_are_told_apart():
    """A metric called like a column of ours, or like an axis, keeps both."""
    row = {
        "index": 0,
        "task": "t",
        "seed": 1,
        "steps": 7,
        "variation": [["light", "dim"]],
        "metrics": {"steps": 3.0, "variation.light": 2.0, "success": 1.0},
    }
    found = frame([row], "a").iloc[0]
    assert (found["steps"], found["metric.steps"]) == (7, 3.0)
    assert (found["variation.light"], found["metric.variation.light"]) == ("dim", 2.0)
    assert found["arm"] == "a"


def test_axes_of_different_episodes_are_joined():
    """What an episode does not vary is left empty there; no episodes are no rows."""
    rows = [{"index": 0, "variation": [["a", "1"]]}, {"index": 1, "variation": [["b", "2"]], "metrics": {"x": 1}}]
    found = frame(rows, "arm")
    assert found["variation.a"].tolist()[0] == "1"
    assert found["variation.a"].isna().tolist() == [False, True]
    assert np.isnan(found["x"][0])
    assert len(frame([], "arm")) == 0
