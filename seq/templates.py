"""The shipped policies, benchmarks and adapters that `seq init NAME` copies, in a checkout and in a wheel alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq.bundle import SKIPPED_FOLDERS
from seq.bundle import archive as packed
from seq.contract.names import DEPLOYMENT_NAME
from seq.errors import SeqAuthoringError

Kind = Literal["policy", "benchmark", "adapter"]

_HERE = Path(__file__).resolve().parent
_PLACES: tuple[tuple[Kind, str, str], ...] = (
    ("policy", "policies", "examples/policies"),
    ("benchmark", "benchmarks", "benchmarks"),
    ("adapter", "adapters", "adapters"),
)


@dataclass(frozen=True)
class Template:
    """A folder to start from; `entry` is the file to deploy."""

    name: str
    kind: Kind
    path: Path

    @property
    def entry(self) -> str:
        """`policy.py`, `benchmark.py` or `adapter.py`."""
        return f"{self.kind}.py"


def templates() -> list[Template]:
    """Every shipped template, policies first, each kind by name."""
    return [
        Template(folder.name, kind, folder)
        for kind, in_wheel, in_checkout in _PLACES
        for folder in _folders(_HERE / "_content" / in_wheel, _HERE.parent / in_checkout)
        if (folder / f"{kind}.py").is_file()
    ]


def template(name: str) -> Template:
    """The template of that name; raises SeqAuthoringError with the names there are."""
    known = {found.name: found for found in templates()}
    if name not in known:
        raise SeqAuthoringError(f"no template {name!r}; there are {', '.join(known) or 'none'}")
    return known[name]


def contents(name: str) -> dict[str, bytes]:
    """A template's files, bytes by relative path; its tests and caches stay behind."""
    root = template(name).path
    return {str(path.relative_to(root).as_posix()): path.read_bytes() for path in _files(root)}


def archive(name: str) -> bytes:
    """A template as a gzip tar, its files at the root."""
    return packed(contents(name))


def copy_template(name: str, directory: Path) -> Template:
    """Writes the template into a new or empty `directory`, whose name becomes a policy's deployment name.

    Raises FileExistsError when the directory holds anything, SeqAuthoringError when no policy may have its name.
    """
    found = template(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory} exists and is not empty; name a new directory")
    own_name = directory.resolve().name
    if found.kind == "policy" and not re.fullmatch(DEPLOYMENT_NAME, own_name):
        raise SeqAuthoringError(
            "the folder's name becomes the policy's, of 1-64 letters, digits, '.', '_' or '-', starting with a letter "
            f"or digit; got {own_name!r}"
        )
    for relative, content in contents(name).items():
        target = directory / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(named_after(content, found.name, own_name) if relative == "policy.py" else content)
    return found


def named_after(source: bytes, template_name: str, name: str) -> bytes:
    """A policy's source with its first `name="<template>"` made `name="<name>"`."""
    pattern = rb'name="' + re.escape(template_name.encode()) + rb'"'
    return re.sub(pattern, b'name="' + name.encode() + b'"', source, count=1)


def _folders(*places: Path) -> Iterator[Path]:
    """The folders of the first place that is there."""
    for place in places:
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if path.is_dir())
            return


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part in SKIPPED_FOLDERS or part.startswith(".") for part in parts)
        if (
            path.is_file()
            and not path.is_symlink()
            and not hidden
            and not path.name.startswith("test_")
            and path.suffix != ".pyc"
        ):
            yield path
