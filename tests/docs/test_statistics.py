"""The page on an eval's numbers says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from runner.evals.stats import enough_episodes, episodes, pairs, pass_chance
from tools.coverage import BEGIN, END, dependent, macros, others, rates

PAGE = (Path(__file__).resolve().parents[2] / "docs/statistics.md").read_text(encoding="utf-8")


def test_the_planning_numbers_are_those_of_the_code():
    """Every row of the table."""
    rows = re.findall(r"^\| (0\.\d\d) and (0\.\d\d) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 7
    for rate_a, rate_b, *numbers in rows:
        a, b = float(rate_a), float(rate_b)
        assert [int(number.replace(",", "")) for number in numbers] == [
            episodes(a, b),
            pairs(a, b, 0.3),
            pairs(a, b, 0.6),
        ]


def test_the_gate_of_the_page_is_that_of_the_code():
    """A true rate of 0.8 against a bar of 0.7."""
    assert "12 % of runs" in PAGE
    assert round(1 - pass_chance(0.8, 0.7, 10), 2) == 0.12
    assert f"(here {enough_episodes(0.8, 0.7)})" in PAGE


def test_the_page_has_a_row_for_every_simulated_case():
    """A case that was added or renamed is to be simulated anew."""
    written = PAGE.split(BEGIN)[1].split(END)[0]
    cases = [case.metric for case in (*rates(), *others(), *dependent(), *macros())]
    assert [case for case in cases if f"\n| {case} | " not in written] == []
