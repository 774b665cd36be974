"""What a copy runs on: its Python, and the distributions that it loaded."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from types import ModuleType
from typing import Any

MOST = 40


def facts() -> dict[str, str]:
    """`python` and its version, then each distribution's name and version: those with most modules loaded, 40 at most.

    What no installed distribution holds (the policy's own files) is left out.
    """
    modules = Counter(name.partition(".")[0] for name in list(sys.modules))
    tops = {top: count for top, count in modules.items() if top not in sys.stdlib_module_names}
    found = _by_name(tops)
    found |= _by_record({top: place for top in tops if top not in found and (place := _place(sys.modules.get(top)))})
    sizes: Counter[tuple[str, str]] = Counter()
    for top, dist in found.items():
        told = dist.metadata
        if told and told["Name"] and told["Version"]:  # what was installed by half says neither
            sizes[told["Name"], told["Version"]] += tops[top]
    largest = sorted(sizes, key=lambda one: (-sizes[one], one))[:MOST]
    return {"python": platform.python_version(), **dict(sorted(largest))}


def _by_name(tops: dict[str, int]) -> dict[str, Distribution]:
    """Those whose module is called as they are, which is found at once."""
    found = {}
    for top in tops:
        try:
            found[top] = distribution(top)
        except (PackageNotFoundError, ValueError):
            continue
    return found


def _by_record(places: dict[str, tuple[Path, str]]) -> dict[str, Distribution]:
    """Those that are called otherwise (`PIL`), by the lists of their files; read only where such modules are loaded."""
    found: dict[str, Distribution] = {}
    folders = {folder for folder, _ in places.values()}
    for dist in distributions():
        if Path(str(dist.locate_file(""))) not in folders:
            continue
        record = f"\n{dist.read_text('RECORD') or ''}"
        found |= {top: dist for top, (_, file) in places.items() if f"\n{file}," in record}
    return found


def _place(module: Any) -> tuple[Path, str] | None:
    """The folder that a top-level module lies in, and its own file from there."""
    known = module.__dict__ if isinstance(module, ModuleType) else {}  # to ask for an attribute may import a module
    file = known.get("__file__")
    if not isinstance(file, str):
        return None
    path = Path(file)
    folder = path.parent.parent if "__path__" in known else path.parent
    return folder, path.relative_to(folder).as_posix()
