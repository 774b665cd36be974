"""Which Pythons this machine has. None is ever downloaded."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from runner.errors import Refused
from seq.contract.image import ImageSpec

SUPPORTED = ("3.11", "3.12", "3.13")
DEFAULT = "3.11"
_BASE = re.compile(r"^(?:docker\.io/)?(?:library/)?(debian|python):([A-Za-z0-9._-]+)(?:@sha256:[0-9a-f]{64})?$")


def uv() -> str:
    """The uv beside this interpreter, else the one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise Refused("dependency_missing", "uv is not installed", hint='pip install "sequence-ai[platform]"')
    return found


@functools.lru_cache
def pythons() -> dict[str, Path]:
    """The supported Pythons found here, by version: this one, what uv finds on the machine, what pyenv holds."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": Path(sys.executable)}
    for version in SUPPORTED:
        path = found.get(version) or _uv_finds(version) or _pyenv_holds(version)
        if path is not None:
            found[version] = path
    return {version: path for version, path in sorted(found.items()) if version in SUPPORTED}


def _uv_finds(version: str) -> Path | None:
    command = [uv(), "python", "find", "--no-project", "--system", version]
    env = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    answer = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    return Path(answer.stdout.strip()) if answer.returncode == 0 else None


def _pyenv_holds(version: str) -> Path | None:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return next(iter(sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)), None)


def wanted(image: ImageSpec) -> str:
    """The Python version an image asks for; raises Refused for a base that only a container engine could start from."""
    match = _BASE.match(image.base or "")
    if match is None:
        raise Refused(
            "invalid_request",
            f"the image starts from {image.base or 'a Dockerfile'}, and no container engine is here: "
            "this platform takes debian:* and python:* bases",
            hint="seq.Image.debian_slim() with uv_pip_install(...) makes a Python environment without a container",
        )
    kind, tag = match.groups()
    own = re.match(r"^(\d+\.\d+)", tag) if kind == "python" else None
    if image.python not in (None, "image"):
        return str(image.python)
    if own is None and (kind == "python" or image.python == "image"):
        raise Refused(
            "invalid_request",
            f"the image's Python cannot be told from {image.base!r} where no container engine is here",
            hint='write the version: python="3.11", or a base such as python:3.12-slim',
        )
    return own.group(1) if own else DEFAULT


def resolve(image: ImageSpec) -> Path:
    """The interpreter for an image; raises Refused naming those found where the machine lacks it."""
    version = wanted(image)
    path = pythons().get(version)
    if path is None:
        raise Refused(
            "invalid_request",
            f"the image asks for Python {version}, which this machine lacks; it has {', '.join(pythons())}",
            hint="install that Python on the machine, or ask for one it has; none is downloaded",
        )
    return path
