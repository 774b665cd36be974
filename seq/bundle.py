"""The code a declaration travels with: the same sources make the same bytes, so a version is known by its hash."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath

from seq._marks import Handler
from seq.contract.code import MAX_BUNDLE_BYTES, MAX_RAW_BYTES, CodeBundle
from seq.errors import PolicyDefinitionError, SeqAuthoringError
from seq.image import Image, LocalModule, local_archive_path

_CACHES = frozenset({"__pycache__", ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
SKIPPED_FOLDERS = _CACHES | {".venv", ".tox", "build", "dist", "node_modules"}
_SKIPPED_SUFFIXES = (".pyc", ".pyo")


@dataclass(frozen=True)
class Bundle:
    """A gzip tar and what it holds: size in bytes by archive path, sorted."""

    data: bytes
    files: Mapping[str, int]

    @property
    def sha256(self) -> str:
        """Hex digest of the gzip bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def wire(self) -> CodeBundle:
        """As a request carries it."""
        return CodeBundle(data=base64.b64encode(self.data).decode(), sha256=self.sha256)


def pack(sources: Mapping[str, Path]) -> Bundle:
    """`sources`, file by archive path, as a bundle; raises SeqAuthoringError above 8 MiB packed or 64 MiB unpacked."""
    sizes = {name: path.stat().st_size for name, path in sorted(sources.items())}
    if sum(sizes.values()) > MAX_RAW_BYTES:
        raise SeqAuthoringError(_too_big("the code", sum(sizes.values()), MAX_RAW_BYTES, sizes))
    data = archive({name: path.read_bytes() for name, path in sources.items()})
    if len(data) > MAX_BUNDLE_BYTES:
        raise SeqAuthoringError(_too_big("the packed code", len(data), MAX_BUNDLE_BYTES, sizes))
    return Bundle(data, sizes)


def archive(contents: Mapping[str, bytes]) -> bytes:
    """A gzip tar of `contents`, bytes by archive path, without anything that differs between two runs or machines."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(contents.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def code_bundle(handler: Handler, image: Image) -> Bundle | None:
    """The handler's file or package and what its image adds; None when an installed module is all there is to run."""
    sources = {**handler_sources(handler), **_local_sources(image)}
    return pack(sources) if sources else None


def context_bundle(image: Image) -> Bundle | None:
    """The folder a Dockerfile's COPY lines see; None without one."""
    if image.context is None:
        return None
    return pack(dict(_walk(image.context, _CACHES)))


def handler_sources(handler: Handler) -> dict[str, Path]:
    """File by archive path of the module the class is in: alone, or its whole package; empty when it is installed."""
    file = source_file(handler)
    if _installed(file):
        return {}
    parts = handler.module.split(".")
    if len(parts) == 1 and file.name != "__init__.py":
        return {file.name: file}
    depth = len(parts) if file.name == "__init__.py" else len(parts) - 1
    return _package(file.parents[depth - 1])


def source_file(handler: Handler) -> Path:
    """The file that defines the class; raises SeqAuthoringError when it has none."""
    if handler.file is None:
        raise SeqAuthoringError(f"{handler.ref} is in no file that could be uploaded; save it as one and deploy that")
    return handler.file


def _local_sources(image: Image) -> dict[str, Path]:
    sources: dict[str, Path] = {}
    for number, local in enumerate(image.local_paths()):
        inside = local_archive_path(number, local)
        method = "add_local_dir" if local.folder else "add_local_file"
        if local.folder != local.path.is_dir() or not local.path.exists():
            raise PolicyDefinitionError(f"{method}: {local.path} is not a {'folder' if local.folder else 'file'}")
        if local.folder:
            sources |= {f"{inside}/{relative}": path for relative, path in _walk(local.path, _CACHES)}
        else:
            sources[inside] = local.path
    for module in image.local_modules():
        sources |= _module_sources(module)
    return sources


def _module_sources(module: LocalModule) -> dict[str, Path]:
    top = module.name.partition(".")[0]
    found = PathFinder.find_spec(top, [str(module.beside), *sys.path])
    if found is None or not (found.origin or found.submodule_search_locations):
        raise PolicyDefinitionError(
            f"add_local_python_source: no module {top!r} beside {module.beside} or on the Python path"
        )
    if found.submodule_search_locations:
        return _package(Path(next(iter(found.submodule_search_locations))))
    file = Path(str(found.origin))
    if file.suffix != ".py":
        raise PolicyDefinitionError(f"add_local_python_source: {top!r} is {file}, which is not Python source")
    return {file.name: file}


def _package(folder: Path) -> dict[str, Path]:
    return {f"{folder.name}/{relative}": path for relative, path in _walk(folder, SKIPPED_FOLDERS)}


def _walk(folder: Path, skipped: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """Regular files below `folder` with their relative POSIX paths, sorted.

    Links, bytecode, virtual environments and the folders in `skipped` are left out.
    """
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in set(folders) - skipped if not Path(root, name, "pyvenv.cfg").exists())
        for name in sorted(files):
            path = Path(root, name)
            if path.is_symlink() or not path.is_file() or name.endswith(_SKIPPED_SUFFIXES):
                continue
            yield str(PurePosixPath(path.relative_to(folder))), path


def _installed(file: Path) -> bool:
    places = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    return any(place in file.parents for place in places)


def _too_big(what: str, size: int, limit: int, sizes: Mapping[str, int]) -> str:
    return (
        f"{what} is {size / 2**20:.1f} MiB and at most {limit / 2**20:.0f} MiB go up; the largest files are "
        f"{', '.join(_largest(sizes))}; put weights and data on a volume"
    )


def _largest(sizes: Mapping[str, int]) -> Iterable[str]:
    ranked = sorted(sizes, key=lambda name: sizes[name], reverse=True)
    return [f"{name} ({sizes[name] / 2**20:.1f} MiB)" for name in ranked[:3]]
