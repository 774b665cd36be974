"""Environments by content: made once under a lock, whole whenever their marker is there."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from runner.images import pythons
from runner.images.commands import Log
from runner.images.errors import BuildError
from runner.images.steps import Workshop, carry_out, check_image, local_source
from runner.settings import Settings
from seq.contract.image import ImageSpec

RUNTIME_PACKAGES = ("httptools", "httpx", "msgpack", "numpy", "pillow", "pydantic", "starlette", "uvicorn", "uvloop")
_LAYOUT = 1
_MARKER = ".ready"


@dataclass(frozen=True)
class Environment:
    """A Python environment of an image: its folder, its interpreter, and the image's own variables."""

    hash: str
    root: Path
    python: Path
    variables: dict[str, str]


@functools.lru_cache
def runtime_pins() -> tuple[str, ...]:
    """The packages every environment starts with, at the platform's own versions."""
    return tuple(f"{name}=={version(name)}" for name in RUNTIME_PACKAGES)


def build(settings: Settings, image: ImageSpec, bundle_dir: Path, log: Log) -> Environment:
    """The image's environment, made now or found from earlier; `log` gets every line.

    Raises Refused for an image this machine cannot make, BuildError for a step that failed; nothing is left of it then.
    """
    check_image(image)
    python = pythons.resolve(image)
    image_hash = content_hash(image, python, bundle_dir)
    settings.envs.mkdir(parents=True, exist_ok=True)
    with _locked(settings.envs / f".{image_hash}.lock"):
        made = _made(settings, image_hash)
        if made is not None:
            log(f"image {image_hash[:12]}: made earlier")
            return made
        root = settings.envs / image_hash
        shutil.rmtree(root, ignore_errors=True)  # half of one, where a platform was killed
        try:
            variables = _make(image, python, root, bundle_dir, log)
            (root / _MARKER).write_text(json.dumps({"variables": variables}))
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
    log(f"image {image_hash[:12]}: made")
    return Environment(image_hash, root, root / "bin" / "python", variables)


def find(settings: Settings, image_hash: str) -> Environment:
    """An environment made earlier; raises BuildError where it is not there."""
    made = _made(settings, image_hash)
    if made is None:
        raise BuildError(f"the environment {image_hash[:12]} is no longer on this machine; deploy it again")
    return made


def content_hash(image: ImageSpec, python: Path, bundle_dir: Path) -> str:
    """The name of an image's environment: equal for equal Python, pins, steps and added files."""
    added = {
        step.add_local.src: _tree_hash(local_source(step.add_local, bundle_dir))
        for step in image.steps
        if step.add_local is not None
    }
    # Whether a system package is there is checked anew each time and changes nothing inside.
    content = [_LAYOUT, str(python), runtime_pins(), [step.wire() for step in image.steps], added]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _tree_hash(source: Path) -> str:
    digest = hashlib.sha256()
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    for path in files:
        digest.update(f"{path.relative_to(source.parent).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _made(settings: Settings, image_hash: str) -> Environment | None:
    root = settings.envs / image_hash
    try:
        kept = json.loads((root / _MARKER).read_text())
    except FileNotFoundError:
        return None
    python = root / "bin" / "python"
    return Environment(image_hash, root, python, kept["variables"]) if python.exists() else None


def _make(image: ImageSpec, python: Path, root: Path, bundle_dir: Path, log: Log) -> dict[str, str]:
    tools = root.parent / f".{root.name}.tools"
    root.mkdir()
    workshop = Workshop(root, bundle_dir, tools, log)
    try:
        tools.mkdir(exist_ok=True)
        (tools / "uv").unlink(missing_ok=True)
        (tools / "uv").symlink_to(pythons.uv())
        _base(workshop, python)
        variables: dict[str, str] = {}
        for step in image.steps:
            variables = carry_out(step, workshop, variables)
    finally:
        shutil.rmtree(tools, ignore_errors=True)
    return variables


def _base(workshop: Workshop, python: Path) -> None:
    """An empty environment with the runtime packages, installed first so that a user's pins win."""
    venv = ["venv", "--seed", "--no-project", "--allow-existing", "--python", str(python), str(workshop.root)]
    workshop.run([pythons.uv(), *venv], "uv venv", {})
    (workshop.root / "home").mkdir(exist_ok=True)
    workshop.run([pythons.uv(), "pip", "install", *runtime_pins()], f"uv pip install {' '.join(runtime_pins())}", {})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one thread of one process at a time; the system frees it when the process ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
