"""What a process says of itself, so that a result can be repeated: its Python, packages, drawing and machine."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = {
    "numpy": "numpy",
    "mujoco": "mujoco",
    "mujoco_warp": "mujoco-warp",
    "warp": "warp-lang",
    "sapien": "sapien",
    "gymnasium": "gymnasium",
    "gymnasium_robotics": "gymnasium-robotics",
    "mani_skill": "mani-skill",
    "robosuite": "robosuite",
    "metaworld": "metaworld",
    "dm_control": "dm-control",
    "libero": "libero",
    "torch": "torch",
    "jax": "jax",
    "PIL": "pillow",
}
"""Modules whose version a result may depend on, with the distribution that tells it."""
VARIABLES = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "LIBGL_ALWAYS_SOFTWARE", "CUDA_VISIBLE_DEVICES")


def facts() -> dict[str, str]:
    """As of now: a package counts once it is imported, the drawing once something was drawn."""
    told = {"python": platform.python_version(), "machine": _machine()}
    for module, distribution in PACKAGES.items():
        if module in sys.modules:
            with contextlib.suppress(metadata.PackageNotFoundError):
                told[module] = _version(distribution)
    told |= {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return {**told, **_drawing()}


_versions: dict[str, str] = {}


def _version(distribution: str) -> str:
    if distribution not in _versions:
        _versions[distribution] = metadata.version(distribution)
    return _versions[distribution]


def _machine() -> str:
    if "machine" not in _versions:
        name = platform.machine()
        with contextlib.suppress(OSError):
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
            name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
        _versions["machine"] = f"{platform.system()} {name}, {os.cpu_count()} cores"
    return _versions["machine"]


def _drawing() -> dict[str, str]:
    """Who draws, where OpenGL has a context in this thread."""
    gl = sys.modules.get("OpenGL.GL")
    if gl is None:
        return {}
    try:
        renderer, version = gl.glGetString(gl.GL_RENDERER), gl.glGetString(gl.GL_VERSION)
    except Exception:  # noqa: BLE001  PyOpenGL raises errors of its own where there is no context: nothing to tell then
        return {}
    return {"gl": f"{renderer.decode()}, {version.decode()}"} if renderer and version else {}
