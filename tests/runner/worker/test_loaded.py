"""What a copy says it runs on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

MOST = 40


def told_by(program: str, *path: Path) -> Any:
    """What a process that ran this says."""
    program = f"{program}\nimport json; from runner.worker.loaded import facts; print(json.dumps(facts()))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), *map(str, path)])}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    return json.loads(ran.stdout)


def install(folder: Path, name: str, module: str, submodules: int) -> None:
    """A distribution of one package, with so many modules in it."""
    package = folder / module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("".join(f"import {module}.m{number}\n" for number in range(submodules)))
    for number in range(submodules):
        (package / f"m{number}.py").touch()
    info = folder / f"{name}-1.{submodules}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.{submodules}\n")
    (info / "RECORD").write_text(f"{module}/__init__.py,,\n")


def test_what_was_loaded_is_told_with_its_version():
    """Python, and distributions by their own names, also where a module is called otherwise; no others."""
    loaded = told_by("import numpy, PIL.Image, msgpack")
    assert loaded.pop("python") == platform.python_version()
    assert {"numpy", "pillow", "msgpack"} <= set(loaded)
    assert "httpx" not in loaded
    assert loaded == {name: importlib.metadata.version(name) for name in loaded}


def test_of_many_distributions_those_of_which_most_was_loaded_are_told(tmp_path):
    """Forty at most, whatever their modules are called."""
    for number in range(50):
        install(tmp_path, f"dist-{number:02}", f"called_{number:02}", submodules=number + 1)
    loaded = told_by("\n".join(f"import called_{number:02}" for number in range(50)), tmp_path)
    assert len(loaded) == 1 + MOST
    largest = {f"dist-{number:02}": f"1.{number + 1}" for number in range(15, 50)}
    assert largest.items() <= loaded.items()


def test_modules_of_no_distribution_are_left_out(tmp_path):
    """A policy's own file, one that was never a file, and a module that imports when it is looked at."""
    (tmp_path / "own_policy.py").touch()
    (tmp_path / "broken-1.dist-info").mkdir()
    program = """
import sys, types, own_policy
sys.modules["made"] = types.ModuleType("made")
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise ImportError(name)
sys.modules["lazy"] = Lazy("lazy")
sys.modules["odd"] = None
sys.modules["broken"] = types.ModuleType("broken")
"""
    assert not {"own_policy", "own-policy", "made", "lazy", "odd", "broken"} & set(told_by(program, tmp_path))
