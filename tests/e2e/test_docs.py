"""The documentation's own files, run as a reader would."""

import re

from tests.e2e.harness import ROOT, Platform


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_benchmark_of_the_docs_is_scored_by_their_policy(shared: Platform, tmp_path) -> None:
    """docs/benchmarks.md from top to bottom: both files deploy as printed, and the run they end in succeeds."""
    benchmark, policy = blocks("docs/benchmarks.md", "python")
    for name, text in (("reach.py", benchmark), ("straight.py", policy)):
        (tmp_path / name).write_text(text)
        shared.seq("deploy", tmp_path / name)
    out = shared.seq("eval", "run", "straight", "--benchmark", "reach-2d", "--envs", "2")
    assert re.search(r"success: +1\.000 +n=40", out), out


def test_the_page_on_benchmarks_stays_under_two_pages() -> None:
    """How to write a benchmark is told in under two pages of 60 lines."""
    assert len((ROOT / "docs/benchmarks.md").read_text(encoding="utf-8").splitlines()) <= 120
