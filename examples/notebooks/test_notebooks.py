"""The notebooks' cells on an outcome as the platform sends it; `tests/e2e/test_notebook.py` runs them on a real one."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import seq
from seq.report import EvalReport
from tests.supports.outcome import outcome

HERE = Path(__file__).parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))


def runner():
    """The file `run.py` beside this one."""
    spec = importlib.util.spec_from_file_location("notebook_runner", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    """Outputs are somebody's machine and somebody's numbers; the text is written as Jupyter writes it."""
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def test_every_cell_of_the_comparison_runs(monkeypatch, capsys, tmp_path):
    """What is asked of the platform is the two policies on the same episodes; page, pictures and frame are shown."""
    asked = []

    def answered(*names, **options):
        asked.append((names, options))
        tasks = ("reach", "push", "lift", "stack")
        body, details = outcome(tasks, options["trials"], {names[0]: 0.95, options["compare"][0]: 0.05})
        per_task = [{"task": task, "value": 0.1, "n": 5} for task in tasks]
        body["metrics"]["goal_distance_m"] = {"overall": 0.1, "n": 20, "per_task": per_task}
        body["paired"] = [
            {**{key: pair[key] for key in ("metric", "arm_a", "arm_b", "n", "mean_diff")}, "interval": [-1.0, -0.7]}
            for pair in details["paired"]
        ]
        return EvalReport.from_wire(body, details)

    monkeypatch.setattr(seq, "eval", answered)
    namespace = runner().run(HERE / "compare_policies.ipynb", tmp_path)
    ((names, options),) = asked
    assert names == ("panda-expert", "panda-tabletop")
    assert (options["compare"], options["adapter"]) == (["panda-random"], "panda-joints")
    assert len(namespace["episodes"]) == 40
    shown = capsys.readouterr().out
    assert "panda-random - panda-expert  success: -" in shown
    assert "gate passed: success >= 0.8" in shown
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["cell-4.html", "cell-5.png", "cell-6.png", "cell-7.html"]
    assert "panda-expert v3 and 1 more arm(s)" in (tmp_path / "cell-4.html").read_text(encoding="utf-8")
    assert (tmp_path / "cell-5.png").read_bytes().startswith(b"\x89PNG")


def test_a_cell_that_fails_says_where(tmp_path):
    """The traceback names the notebook and the cell."""
    cells = [{"cell_type": "code", "source": [line]} for line in ("x = 1", "x / 0")]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    with pytest.raises(ZeroDivisionError) as raised:
        runner().run(path)
    assert "n.ipynb, cell 2" in str(raised.traceback[-1])
