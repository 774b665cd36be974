"""From what a user names (`file.py`, `file.py:Class`, `pkg.module:Class`) to the one decorated class meant."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from seq._marks import ADAPTER, BENCHMARK, POLICY
from seq.errors import SeqAuthoringError, sentence

_OURS = ("seq", "sequence_ai", "sequence_base", "runner", "sims")
_KINDS = {POLICY: "policy", BENCHMARK: "benchmark", ADAPTER: "adapter"}


def load(target: str, *, module: bool = False) -> type:
    """The decorated class that `target` names; with `module` it is a module's name (`-m pkg.module[:Class]`).

    Raises SeqAuthoringError, in one sentence: no such file, a syntax error, a missing package, no class or several.
    """
    where, _, name = target.partition(":") if not _is_windows_path(target) else (target, "", "")
    if module or not _is_file(where):
        found, label = _by_name(where), where
    else:
        found, label = _by_file(Path(where)), where
    return _named(found, name, label) if name else _only(found, label)


def kind_of(cls: type) -> str | None:
    """ "policy", "benchmark" or "adapter"; None on a class that is none of them."""
    return next((kind for attribute, kind in _KINDS.items() if attribute in vars(cls)), None)


def _is_windows_path(target: str) -> bool:
    return len(target) > 2 and target[1] == ":" and target[2] in "\\/"


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or "\\" in where


def _by_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SeqAuthoringError(f"there is no file {path}; give the path of a .py file, or pkg.module:Class")
    if path.suffix != ".py":
        raise SeqAuthoringError(f"{path} is not a .py file")
    path = path.resolve()
    root, name = _module_name(path)
    if not all(part.isidentifier() for part in name.split(".")):
        raise SeqAuthoringError(
            f"{path.name} cannot be imported; name it with letters, digits and '_', such as {_suggest(path.stem)}.py"
        )
    if "." not in name:
        _refuse_shadowing(name, path)
        return _guarded(path.name, lambda: _run(name, path), root)
    return _guarded(path.name, lambda: _import_from(name, root), root)


def _module_name(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name there: of a file in packages, below the outermost."""
    parts, folder = [] if path.stem == "__init__" else [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts or [path.stem])


def _refuse_shadowing(name: str, path: Path) -> None:
    """A worker importing `name` would get the other module of that name."""
    places = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed = PathFinder.find_spec(name, sorted(places))
    if name in (*sys.stdlib_module_names, *_OURS) or (installed is not None and installed.origin != str(path)):
        raise SeqAuthoringError(
            f"{path.name} has the name of an installed module, {name!r}; rename the file, e.g. my_{name}.py"
        )


def _run(name: str, path: Path) -> ModuleType:
    """The file as the module `name`, run anew: another file of that name may have been loaded before."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SeqAuthoringError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def _import_from(name: str, root: Path) -> ModuleType:
    """The module `name` of a package under `root`; a package of that name loaded from elsewhere is put aside."""
    top = name.partition(".")[0]
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if loaded is not None and root not in Path(loaded).resolve().parents:
        for stale in [known for known in sys.modules if known == top or known.startswith(f"{top}.")]:
            del sys.modules[stale]
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _by_name(name: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise SeqAuthoringError(
            f"{name!r} is neither a .py file nor a module; write file.py, file.py:Class or pkg.module:Class"
        )
    here = Path.cwd()
    with _first_on_path(here):
        try:
            missing = importlib.util.find_spec(name) is None
        except ModuleNotFoundError:
            missing = True
    if missing:
        raise SeqAuthoringError(f"no module {name!r} here or among the installed packages; write file.py for a file")
    return _guarded(name, lambda: importlib.import_module(name), here)


def _guarded(label: str, run: Callable[[], ModuleType], root: Path) -> ModuleType:
    """`run()` with `root` first on the path, whatever the user's file raises told in one sentence."""
    try:
        with _first_on_path(root):
            return run()
    except SeqAuthoringError as wrong:
        raise type(wrong)(f"{label}: {wrong}") from wrong
    except SyntaxError as wrong:
        file = Path(wrong.filename or label).name
        place = "" if file == label else f" in {file}"
        raise SeqAuthoringError(f"{label}: syntax error{place}, line {wrong.lineno}: {wrong.msg}") from wrong
    except ModuleNotFoundError as wrong:
        raise SeqAuthoringError(
            f"{label}{_line(wrong, label)}: the package {wrong.name!r} is not installed here; install it, or "
            "import it inside the methods that use it, which run in the image"
        ) from wrong
    except ValidationError as wrong:
        raise SeqAuthoringError(f"{label}{_line(wrong, label)}: {wrong.title}: {sentence(wrong)}") from wrong
    except (Exception, SystemExit) as wrong:
        raise SeqAuthoringError(f"{label}{_line(wrong, label)} raised {type(wrong).__name__}: {wrong}") from wrong


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _line(wrong: BaseException, label: str) -> str:
    """Where in the user's file it went wrong."""
    frames = traceback.extract_tb(wrong.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == label]
    return f", line {lines[-1]}" if lines else ""


def _declared(module: ModuleType) -> dict[str, type]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and value.__name__ == name and kind_of(value)
    }


def _only(module: ModuleType, label: str) -> type:
    found = _declared(module)
    if not found:
        raise SeqAuthoringError(
            f"{label} declares no policy, benchmark or adapter; decorate a class, e.g. with @seq.policy"
        )
    if len(found) > 1:
        names = ", ".join(f"{name} ({kind_of(cls)})" for name, cls in found.items())
        raise SeqAuthoringError(
            f"{label} declares {len(found)}: {names}; say which with {label}:{next(iter(found))}, or keep one a file"
        )
    return next(iter(found.values()))


def _named(module: ModuleType, name: str, label: str) -> type:
    found: Any = vars(module).get(name)
    if not isinstance(found, type) or kind_of(found) is None:
        there = ", ".join(_declared(module)) or "none"
        raise SeqAuthoringError(f"{label} declares no {name!r}; its policies, benchmarks and adapters are: {there}")
    return found


def _suggest(stem: str) -> str:
    word = "".join(letter if letter.isalnum() else "_" for letter in stem)
    return f"my_{word}" if word[:1].isdigit() else word
