"""The file, the table and the picture of a run."""

import dataclasses
import json

import pytest
from PIL import Image

from bench import picture, table
from bench.__main__ import main
from bench.machine import Machine
from bench.results import Measured, Results
from bench.rows import Row

ROWS = {
    "predict": [
        Row("ours, JSON, 15 kB", {"p50_ms": 1.0, "p99_ms": 2.0}),
        Row("published client, 15 kB", not_measured="no network"),
        Row("ours, JSON, 150 kB", {"p50_ms": 2.0, "p99_ms": 3.0}),
    ],
    "overlap": [
        Row("ours, 0.1 of a chunk", {"moving": 1.0}),
        Row("published client, 0.1 of a chunk", not_measured="no network"),
    ],
    "memory": [Row("our client", {"growth_mb": 0.0}, {"acts": [1, 2], "rss_mb": [30.0, 30.0]})],
    "engine": [
        Row("bare loop, 1 environment", {"ours_to_it": 1.1, "ours_to_it_high": 1.2}),
        Row("2 cores for 1, 8 environments", not_measured="it takes two cores"),
        Row("eval run to the first step", {"p50_s": 2.0}),
    ],
    "reports": [Row("the report", {"s": 5.0, "peak_gib": 1.0, "episodes": 1000})],
}


MACHINE = Machine(cpu="a cpu", cores=2, memory_gib=4, system="a system", load_1m=0.1)


def results():
    subjects = [Measured(name, "", rows, (), 1.0) for name, rows in ROWS.items()]
    return Results("2026-01-01 00:00 UTC", MACHINE, {"python": "3.11"}, 0, subjects)


def test_the_file_holds_every_figure_and_every_reason(tmp_path):
    """Subjects by name, rows with their figures, and why one has none."""
    results().write(tmp_path / "results.json")
    told = json.loads((tmp_path / "results.json").read_text())
    rows = told["subjects"]["predict"]["rows"]
    assert rows[0]["figures"] == {"p50_ms": 1.0, "p99_ms": 2.0}
    assert rows[1]["not_measured"] == "no network"
    assert told["machine"]["cpu"] == "a cpu"


def test_the_picture_is_drawn_of_whatever_was_run(tmp_path):
    """Panels of the subjects there are; a row without figures is no obstacle."""
    picture.draw(results(), tmp_path / "results.png")
    with Image.open(tmp_path / "results.png") as drawn:
        assert drawn.format == "PNG"


def test_without_a_panel_there_is_no_picture(tmp_path):
    """Subjects that are figures alone leave no empty file."""
    row = Row("acts within the slots of a worker", {"acts": 5})
    alone = dataclasses.replace(results(), subjects=[Measured("acts", "", [row], (), 1.0)])
    picture.draw(alone, tmp_path / "results.png")
    assert not (tmp_path / "results.png").exists()


def test_the_table_is_plain_where_nobody_looks(capsys):
    """Every row with its figures, no control sequences."""
    table.show(results())
    printed = capsys.readouterr().out
    assert "not measured: no network" in printed
    assert "p99_ms 2" in printed
    assert "\x1b" not in printed


def test_a_busy_machine_is_said_to_be():
    """The title says it, since times of such a run say little."""
    assert "busy" not in results().where
    assert "busy" in str(dataclasses.replace(MACHINE, load_1m=1.5))


def test_a_wrong_subject_is_answered_with_those_there_are():
    """Nothing is run."""
    there = "predict, period, overlap, interrupt, many, memory, acts, start, handover, capacity, border, "
    there += "engine, reports"
    with pytest.raises(SystemExit, match=f"no subject speed; there are: {there}"):
        main(["speed"])
