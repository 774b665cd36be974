"""The notebooks of the examples, cell by cell, against a real platform."""

import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.harness import ROOT, Platform

NOTEBOOKS = ROOT / "examples/notebooks"


def test_the_comparison_runs_from_top_to_bottom(shared: Platform, tmp_path: Path) -> None:
    """Every cell runs as a user would run it: the expert is far ahead, on the same episodes, and all of it is shown."""
    done = subprocess.run(
        [sys.executable, NOTEBOOKS / "run.py", NOTEBOOKS / "compare_policies.ipynb", "--out", tmp_path / "shown"],
        env=shared.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'completed'" in done.stdout
    scored = re.search(r"all tasks  (\d\.\d+)  n=(\d+)", done.stdout)
    assert scored, done.stdout
    assert (float(scored[1]) >= 0.8, int(scored[2])) == (True, 20)
    difference = re.search(r"panda-random - panda-expert  success: (\S+) \[(\S+), (\S+)\]  n=20", done.stdout)
    assert difference, done.stdout
    assert float(difference[1]) <= -0.7
    assert float(difference[3]) < 0, "the interval of the difference holds zero"
    assert "gate passed: success >= 0.8" in done.stdout
    page = (tmp_path / "shown/cell-4.html").read_text(encoding="utf-8")
    for told in ("panda-expert", "panda-random", "panda-tabletop", "mean of tasks (macro mean)", "Paired differences"):
        assert told in page
    for picture in ("cell-5.png", "cell-6.png"):
        assert (tmp_path / "shown" / picture).read_bytes().startswith(b"\x89PNG")
    frame = (tmp_path / "shown/cell-7.html").read_text(encoding="utf-8")
    assert all(task in frame for task in ("reach", "push", "lift", "stack"))
