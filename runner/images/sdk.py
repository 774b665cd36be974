"""The platform's own packages as users' processes get them: a copy by content, put on their PYTHONPATH."""

from __future__ import annotations

import compileall
import functools
import hashlib
import importlib.util
import shutil
import tempfile
from pathlib import Path

from runner.settings import Settings

PACKAGES = ("runner", "seq", "sequence_ai", "sequence_base", "sims")
LEFT_OUT = ("__pycache__", "_content")


def sdk(settings: Settings) -> Path:
    """The folder to put on a PYTHONPATH, copied on first use and whole whenever it exists."""
    sources = {name: _source(name) for name in PACKAGES}
    target = settings.sdk / _digest(tuple(sorted(sources.items())))
    if target.is_dir():
        return target
    settings.sdk.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".copying-", dir=settings.sdk))
    try:
        _copy(sources, scratch, target)
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # another thread may have been first, which is as good
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _source(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"the platform's own package {name!r} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


@functools.lru_cache
def _digest(sources: tuple[tuple[str, Path], ...]) -> str:
    """Read once a process: a platform goes on with the code it started with."""
    digest = hashlib.sha256()
    for name, folder in sources:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not set(path.parts) & set(LEFT_OUT):
                digest.update(f"{name}/{path.relative_to(folder).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _copy(sources: dict[str, Path], scratch: Path, target: Path) -> None:
    for name, folder in sources.items():
        shutil.copytree(folder, scratch / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    # users' processes write no bytecode, so without this each would compile our packages again at its start
    compileall.compile_dir(scratch, quiet=2, stripdir=str(scratch), prependdir=str(target))
    scratch.chmod(0o755)
