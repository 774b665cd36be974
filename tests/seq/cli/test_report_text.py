"""The report, the estimate and the CSV as text."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq._numbers import bounds, chance, percent, shown, signed
from seq.cli._estimate import estimate_lines, started_line
from seq.cli._report import CSV_COLUMNS, csv_text, report_lines
from seq.cli._text import duration, money, size
from seq.report import EvalEstimate, EvalReport
from tests.supports.outcome import everything, outcome

REPORT = {
    "status": "completed",
    "metrics": {
        "success": {
            "overall": 0.95,
            "n": 20,
            "per_task": [{"task": "reach", "value": 1.0, "n": 15}, {"task": "lift", "value": 0.8, "n": 5}],
            "per_suite": [{"suite": "easy", "value": 0.95, "n": 20}],
        }
    },
    "cost_usd": 0.0123,
    "dashboard_url": "http://x/evals/1",
    "adapter_lossy": [{"transform": "resize(cam)", "reason": "640x480 to 224x224"}],
    "videos": ["http://x/v1/eval/1/videos/0.mp4"],
    "incomplete": True,
    "errors": ["ValueError in 1 episode\nTraceback"],
    "arms": [
        {
            "arm": "b",
            "model": "panda-still",
            "params": {},
            "metrics": {"success": 0.5},
            "intervals": {"success": [0.1, 0.9]},
            "episodes": 4,
            "failed": 1,
            "not_run": 0,
            "budget_stopped": False,
        }
    ],
    "paired": [{"metric": "success", "arm_a": "A", "arm_b": "B", "n": 20, "mean_diff": 0.12, "interval": [0.01, 0.23]}],
    "timing": {"cold_start_s": {"policy": 3.0}, "step_ms": {"reset": 12.0, "step": 0.5}, "steps": 100},
    "stop_reason": "canceled",
    "arm_params": [
        {
            "arm": "a",
            "policy": {"num_steps": {"value": 10, "source": "policy"}},
            "adapter": {"size": {"value": 96, "source": "cli"}},
            "benchmark": {},
            "eval": {},
            "queries": 25,
            "steps": 100,
        }
    ],
}
DETAILS = {
    "manifest": {
        "model": "panda",
        "model_version": 3,
        "benchmark": "table",
        "benchmark_version": 1,
        "adapter": {"name": "joints", "version": 2, "sha256": "abcdef0123456789"},
        "episodes": 21,
        "seeds": [0, 1, 2, 3, 4],
    },
    "intervals": {
        "success": {
            "overall": {"mean": 0.95, "low": 0.764, "high": 0.991, "n": 20, "small_n": False},
            "per_task": {"lift": {"mean": 0.7, "low": 0.3, "high": 0.9, "n": 5, "small_n": True}},
            "per_suite": {},
            "per_variant": {"light=dim": {"mean": 0.9, "low": 0.6, "high": 1.0, "n": 10, "small_n": False}},
        }
    },
    "progress": {"total": 21, "done": 21, "failed": 1, "not_run": 0},
    "latency": {"act_ms_mean": 12.34, "act_ms_max": 80.0, "acts": 25},
    "load": [{"arm": "a", "benchmark_busy": 0.6, "policy_wait": 0.4, "episodes_moved": 0, "episodes_rerun": 2}],
}


def test_the_report_says_everything_in_order():
    """What ran, the parameters, the end and its cost, the scores, what limits them, the timing, why it stopped."""
    assert report_lines(EvalReport.from_wire(REPORT), DETAILS) == [
        "ran: table v1 + joints v2 (sha256 abcdef012345) + panda v3  21 episode(s), seeds 0..4 (5)",
        "params: policy.num_steps=10 (policy's default) · adapter.size=96 (set)",
        "steps: 100, of which 25 asked the policy",
        "report: completed  cost $0.0123",
        "latency: act mean 12.3 ms, slowest 80.0 ms over 25 act(s)",
        "success:                 0.950  n=20  95% CI [0.764, 0.991]",
        "  suite easy             0.950  n=20",
        "  task reach             1.000  n=15",
        "  task lift              0.800  n=5 *",
        "  variant light=dim      0.900  n=10  95% CI [0.600, 1.000]",
        "adapter: resize(cam) is lossy: 640x480 to 224x224",
        "incomplete: 20 of 21 episode(s) scored (1 failed, 0 not run)",
        "video: http://x/v1/eval/1/videos/0.mp4",
        "error: ValueError in 1 episode\n  Traceback",
        "arm b (panda-still): success 0.500 [0.100, 0.900]  4 ran, 1 failed, 0 not run",
        "compare: B - A  success: +0.120  95% CI [+0.010, +0.230] over 20 paired episode(s)",
        "timing: reset 12.00 ms · step 0.50 ms",
        "start: policy 3.0 s",
        "benchmark: busy 60%, waited for the policy 40%",
        "happened: 0 episode(s) moved to another instance, 2 run again",
        "stopped: canceled",
    ]


def test_a_whole_outcome_reads_from_top_to_bottom():
    """Two arms, one cause of errors, doubts, a regression: every part of the layout, in its order."""
    body, details = everything()
    details["paired"][0] |= {"p_adjusted": 0.062, "comparisons": 2}
    golden = Path(__file__).parents[1] / "golden" / "report.txt"
    assert report_lines(EvalReport.from_wire(body), details) == golden.read_text(encoding="utf-8").split("\n|")[1:]


def test_a_running_comparison_gives_no_verdict():
    """Who looks again and again would find a p that is small by luck: differences are shown, p is not."""
    body, details = everything()
    lines = report_lines(EvalReport.from_wire(body | {"status": "running"}), details)
    (compared,) = [line for line in lines if line.startswith("compare: ")]
    assert "95% CI" in compared
    assert "p=" not in compared
    assert "adjusted" not in compared


def test_a_complete_outcome_says_how_many_episodes_there_were():
    """Planned, ran, scored (and how), errored, not run, even when nothing is amiss; how many starts, too."""
    body, details = outcome()
    lines = report_lines(EvalReport.from_wire(body), {**details, "distinct_starts": {"planned": 20, "seen": 20}})
    assert "episodes: 20 planned, 20 ran, 20 scored (16 succeeded, 4 failed), 0 errored, 0 not run" in lines
    assert "starts: 20 of 20 task-seed pairs scored" in lines
    assert not [line for line in lines if line.startswith(("incomplete", "warning", "error", "arm", "compare"))]


def test_a_value_of_the_benchmarks_own_score_is_no_mean():
    """It is named so, has no interval, and the means are told beside it."""
    body, details = outcome()
    body["metrics"]["success"]["overall"] = 0.5
    details["arms"][0]["scored_by"] = ["success"]
    lines = report_lines(EvalReport.from_wire(body), details)
    assert "success:                 0.500  n=20  by the benchmark's score()" in lines
    assert "  micro mean             0.800  n=20  95% CI [0.584, 0.919]  by episode" in lines
    assert "  task reach             1.000  n=10" in lines


def test_only_a_chosen_subset_that_ran_again_is_no_estimate():
    """A rerun of unsuccessful episodes says so before its scores."""
    manifest = {"rerun_unsuccessful_of": "e0", "metric": "held"}
    assert report_lines(EvalReport.from_wire(REPORT), {"manifest": manifest})[1] == (
        "rerun: only episodes of eval e0 whose held was 0: a chosen subset, so these scores are no estimate of the "
        "policy's"
    )


def test_a_run_that_did_not_regress_says_so():
    """With the sentence that says why."""
    previous = {"eval_id": "e7", "metric": "success", "value": 0.9, "regressed": False, "sentence": "within chance"}
    lines = report_lines(EvalReport.from_wire(REPORT), {"previous": previous})
    assert "previous: eval e7  success 0.900" in lines
    assert "no regression: within chance" in lines


def test_an_error_of_somebodys_code_does_not_act_on_the_terminal():
    """Escapes in a traceback are written out."""
    details = {"errors": [{"cause": "\x1b[31mred", "count": 1, "traceback": "\x1b[2J"}]}
    lines = report_lines(EvalReport.from_wire({**REPORT, "errors": []}), details)
    assert "error: 1 x \\x1b[31mred\n  \\x1b[2J" in lines


def test_a_report_that_rests_on_pretend_cards_says_so_beside_what_ran():
    """Before any time or cost is read."""
    details = {**DETAILS, "manifest": {**DETAILS["manifest"], "pretend": True}}
    assert "cards: pretend" in report_lines(EvalReport.from_wire(REPORT), details)[1]


def test_a_report_without_anything_beside_it_still_reads():
    """The details may be missing: only what is known is said."""
    bare = {"status": "running", "metrics": {}, "cost_usd": 0, "dashboard_url": "", "adapter_lossy": []}
    assert report_lines(EvalReport.from_wire(bare), {}) == ["report: running  cost $0.00"]


def test_the_report_reads_into_plain_values():
    """The documented attributes are there, and a later platform's extra keys do no harm."""
    report = EvalReport.from_wire({**REPORT, "units": {}})
    assert report.metrics["success"].overall == 0.95
    assert [(task.task, task.value, task.n) for task in report.metrics["success"].per_task][1] == ("lift", 0.8, 5)
    assert report.adapter_lossy[0].reason == "640x480 to 224x224"
    assert report.paired[0].interval == (0.01, 0.23)
    assert report.arm_params[0].adapter["size"].value == 96


EPISODE = {
    "index": 0,
    "task": "reach",
    "seed": 3,
    "suite": None,
    "variation": [["light", "dim"], ["mass", "2"]],
    "steps": 12,
    "terminated": True,
    "truncated": False,
    "timed_out": False,
    "recorded": True,
    "error": None,
    "metrics": {"success": 1.0, "distance": 0.1 + 0.2},
}


def test_the_csv_has_a_row_an_episode_in_index_order():
    """The documented columns, then every metric by name; a missing value is empty; floats keep every bit."""
    other = {**EPISODE, "index": 1, "metrics": {}, "error": "ValueError: x"}
    text = csv_text([other, EPISODE])
    assert text.splitlines() == [
        ",".join([*CSV_COLUMNS, "distance", "success"]),
        "0,reach,3,,light=dim;mass=2,12,true,false,false,true,,0.30000000000000004,1.0",
        "1,reach,3,,light=dim;mass=2,12,true,false,false,true,ValueError: x,,",
    ]


def test_the_csv_of_several_arms_names_each_rows_arm():
    """In a last column, guarded like any text; one arm alone has the published columns."""
    rows = [{**EPISODE, "arm": arm, "index": index} for arm in ("=a", "b") for index in (0, 1)]
    header, *lines = csv.reader(io.StringIO(csv_text(rows)))
    assert header == [*CSV_COLUMNS, "distance", "success", "arm"]
    assert [(line[0], line[-1]) for line in lines] == [("0", "'=a"), ("0", "b"), ("1", "'=a"), ("1", "b")]
    assert csv_text([{**EPISODE, "arm": "b"}]) == csv_text([EPISODE])


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_text_of_the_csv_is_run_by_a_spreadsheet(start):
    """A text that a spreadsheet would run gets a leading quote; a negative number stays a number."""
    row = {**EPISODE, "task": f"{start}cmd", "error": f"{start}x", "seed": -1, "metrics": {"reward": -2.5}}
    cells = next(iter(csv.DictReader(io.StringIO(csv_text([row])))))
    assert cells["task"] == f"'{start}cmd"
    assert cells["error"] == f"'{start}x"
    assert (cells["seed"], cells["reward"]) == ("-1", "-2.5")


@given(st.dictionaries(st.text(min_size=1), st.floats(allow_nan=False), max_size=4), st.text())
def test_whatever_an_episode_holds_comes_back_from_the_csv(metrics, error):
    """Any text and any float survives: quotes, commas and line breaks (made one kind) included."""
    lines = error.replace("\r\n", "\n").replace("\r", "\n")
    text = csv_text([{**EPISODE, "metrics": metrics, "error": error}])
    header, row = csv.reader(io.StringIO(text, newline=""))
    guarded = error.startswith(("=", "+", "-", "@"))
    assert row[header.index("error")] == (f"'{lines}" if guarded else lines)
    assert [float(cell) for cell in row[len(CSV_COLUMNS) :]] == [metrics[name] for name in sorted(metrics)]


ANSWER = {
    "estimate": {"wall_clock_s": 240, "cost_usd": 0.06, "vlm_calls": 0, "held_usd": 0.09},
    "cards": {
        "policy": {"instances": 1, "gpu": "L4", "cards_each": 1},
        "benchmark": {"instances": 1, "gpu": "L4", "cards_each": 1},
        "total": 2,
        "limit": 8,
        "in_use": {"serving": 3, "eval": None},
        "available": 5,
        "short": 0,
        "would_queue": False,
        "queue_timeout_s": 600,
    },
    "layout": {
        "policy": [{"model": "arm-a", "instances": 1, "gpu": "L4", "cards_each": 1}],
        "benchmark": {"gpu": "L4", "envs": 16, "instances_per_arm": 1},
        "arms": [{"arm": "a", "model": "arm-a", "settings": {"policy": {"k": {"value": 2, "source": "cli"}}}}],
        "episodes_per_arm": 80,
        "cards": {"total": 2},
    },
    "notes": ["16 environments share 2 cores"],
}


def test_a_dry_run_says_layout_cards_and_estimate():
    """The numbers and their grouping; a count that could not be read is unknown."""
    assert estimate_lines(ANSWER) == [
        "policy: arm-a x 1 on L4",
        "benchmark: 1 x L4, 16 envs each",
        "arm a (arm-a): policy.k=2 (cli)",
        "episodes: 80 per arm",
        "cards: 2 at once (1 policy, 1 benchmark)",
        "  account: limit 8, serving 3, evals unknown, free 5 -> would start now",
        "estimate: about 4 min, about $0.0600; a real run would hold $0.0900",
        "note: 16 environments share 2 cores",
    ]


def test_a_dry_run_says_what_the_eval_can_tell_and_where_its_time_goes():
    """The range of the estimate, the longest tasks, the wait for cards, and the planning sentences."""
    breakdown = [{"arm": "a", "task": f"t{n}", "episodes": 20, "seconds": 10.0 * n} for n in range(10)]
    estimate = {**ANSWER["estimate"], "low_s": 180, "high_s": 360, "breakdown": breakdown}
    queue = {"cards": 2, "available": 1, "gives_up_at": "12:00"}
    lines = estimate_lines({**ANSWER, "estimate": estimate, "queue": queue, "planning": ["160 pairs tell 0.1 apart"]})
    assert "estimate: about 4 min (3 min to 6 min), about $0.0600; a real run would hold $0.0900" in lines
    assert "  t9: 20 episode(s), 2 min of work" in lines
    assert "  2 more: 10 s of work" in lines
    assert "queue: needs 2 card(s), 1 free now, gives up at 12:00" in lines
    assert "planning: 160 pairs tell 0.1 apart" in lines
    both = [{**row, "arm": arm} for row in breakdown[:1] for arm in "ab"]
    assert "  b on t0: 20 episode(s), 0.0 s of work" in estimate_lines(
        {**ANSWER, "estimate": {**estimate, "breakdown": both}}
    )


@pytest.mark.parametrize(
    ("cards", "verdict"),
    [
        ({"short": 2, "reason": "gpu_busy", "would_queue": True}, "2 short (gpu_busy): would wait up to 600 s"),
        ({"short": 1, "would_queue": False}, "1 short: would be refused"),
        ({"short": 4, "total": 12}, "4 short: it needs 12 and the account's limit is 8, so it never fits"),
    ],
)
def test_a_dry_run_that_does_not_fit_says_what_would_happen(cards, verdict):
    """How many are short, why, and whether a real run would wait, be refused or never fit."""
    lines = estimate_lines({**ANSWER, "cards": {**ANSWER["cards"], **cards}})
    assert any(line.endswith(verdict) for line in lines)


def test_the_estimate_reads_into_a_plain_value():
    """The documented attributes of a dry run from Python."""
    estimate = EvalEstimate.from_wire(ANSWER)
    assert (estimate.wall_clock_s, estimate.cost_usd, estimate.held_usd, estimate.gpus_granted) == (
        240.0,
        0.06,
        0.09,
        2,
    )


def test_a_run_that_waits_for_cards_says_so():
    """A started eval names its estimate and what is held; one in line, the cards and when it gives up."""
    assert started_line({"eval_id": "e", "estimate": ANSWER["estimate"]}) == (
        "eval e: started, about 4 min, about $0.0600; $0.0900 held"
    )
    queue = {"cards": 2, "available": None, "waited_s": 0, "gives_up_at": "12:00"}
    assert started_line({"eval_id": "e", "queue": queue}) == (
        "eval e: in line for 2 card(s), unknown free now, gives up at 12:00"
    )


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(4.2), "4.2 s"),
        (duration(75), "75 s"),
        (duration(240), "4 min"),
        (duration(7200), "2.0 h"),
        (shown(0.0057), "0.00570"),
        (shown(0.00001234), "1.23e-05"),
        (shown(-0.0004), "-0.000400"),
        (bounds(0.0008, 0.009), "[0.00080, 0.00900]"),
        (bounds(0.0089, 0.236), "[0.009, 0.236]"),
        (bounds(-0.05, 0.0, sign=True), "[-0.050, +0.000]"),
        (shown(float("nan")), "nan"),
        (shown(-2e-17), "0.000"),
        (shown(12345678.0), "1.23457e+07"),
        (signed(0.0), "+0.000"),
        (signed(-0.5), "-0.500"),
        (chance(0.0000001), "<0.001"),
        (percent(0.0004), "under 0.1 %"),
        (percent(0.9996), "over 99.9 %"),
        (money(0), "$0.00"),
        (money(0.00123), "$0.0012"),
        (money(12.345), "$12.35"),
        (size(512), "512 B"),
        (size(3 << 20), "3.0 MiB"),
        (size(5 << 40), f"{5 * 1024.0:.1f} GiB"),
    ],
)
def test_numbers_read_in_their_best_unit(shown, expected):
    """One unit a value, few digits."""
    assert shown == expected
