"""Run a notebook without Jupyter: its code cells in order, each cell's last value shown as a notebook would show it.

`python run.py compare_policies.ipynb --out shown` also writes each page and picture into `shown/`, to look at.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from types import CodeType
from typing import Any


def code_cells(notebook: Path) -> list[str]:
    """The sources of the code cells."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(notebook: Path, out: Path | None = None) -> dict[str, Any]:
    """Run every cell in one namespace and return it; a page or a picture is written into `out` where that is given."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(code_cells(notebook), start=1):
        print(f"[{number}]")
        statements, value = compiled(source, f"{notebook.name}, cell {number}")
        exec(statements, namespace)  # noqa: S102  running the notebook is what this is for
        if value is not None:
            show(eval(value, namespace), f"cell-{number}", out)  # noqa: S307  the same
    return namespace


def compiled(source: str, name: str) -> tuple[CodeType, CodeType | None]:
    """A cell's statements, and the expression it ends in, if it ends in one."""
    tree, last = ast.parse(source, name), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval")
    return compile(tree, name, "exec"), last


def show(value: Any, name: str, out: Path | None) -> None:
    """Print a value; one that has a page or a picture of itself is told by its size, and written."""
    for method, ending in (("_repr_html_", ".html"), ("_repr_png_", ".png")):
        made = getattr(value, method, lambda: None)()
        if made is None:
            continue
        print(f"{name}{ending}: {len(made)} {'characters' if isinstance(made, str) else 'bytes'}")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            content = made.encode("utf-8") if isinstance(made, str) else made
            (out / f"{name}{ending}").write_bytes(content)
        return
    if value is not None:
        print(repr(value))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run a notebook's code cells in order, without Jupyter.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--out", type=Path, help="a folder for the pages and pictures that the cells show")
    given = parser.parse_args()
    run(given.notebook, given.out)
