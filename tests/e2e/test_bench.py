"""Every subject of the bench in its smallest size, with its real processes; how fast anything is isn't asked here."""

import psutil
import pytest

from bench import border, interrupt, many, memory, overlap, period, predict

FIELDS = {
    border: {"steps_per_s", "to_bare"},
    interrupt: {"last_act_max_ms", "hold_p50_ms", "hold_p99_ms", "times"},
    many: {"moving_least", "underruns", "period_p50_ms", "period_p99_ms", "acts"},
    memory: {"growth_mb", "last_mb", "acts"},
    overlap: {"moving", "underruns", "underrun_s"},
    period: {"p50_ms", "p99_ms", "max_ms", "periods"},
    predict: {"p50_ms", "p99_ms"},
}


@pytest.mark.parametrize("subject", FIELDS, ids=lambda subject: subject.__name__)
def test_a_subject_yields_its_fields(subject):
    """Each row has the subject's figures, every promise but those of other sizes finds its own, no process is left."""
    before = set(psutil.Process().children(recursive=True))
    rows = subject.run(subject.TINY)
    assert rows
    for row in rows:
        assert row.not_measured is None, row
        assert row.figures.keys() >= FIELDS[subject], row
    there = {row.what: row.figures for row in rows}
    for promise in subject.PROMISES:
        if promise.what in there:
            assert promise.figure in there[promise.what]
    assert set(psutil.Process().children(recursive=True)) <= before
