"""The environment variables of a user's process: all of them, since none of the platform's own may reach it."""

from __future__ import annotations

from pathlib import Path

from runner.images.environment import Environment
from runner.images.steps import SYSTEM_PATH


def process_env(environment: Environment, *paths: Path) -> dict[str, str]:
    """The whole environment of a process of a user's code; `paths` become its PYTHONPATH, in order.

    HOME is a folder of the environment: the real one may hold the platform's key.
    """
    return {
        **environment.variables,
        "PATH": f"{environment.root / 'bin'}:{SYSTEM_PATH}",
        "VIRTUAL_ENV": str(environment.root),
        "PYTHONPATH": ":".join(str(path) for path in paths),
        "HOME": str(environment.root / "home"),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "SEQ_MANIFEST": "1",
    }
