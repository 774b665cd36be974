"""Importing what a user wrote: a benchmark from its unpacked bundle, an adapter from its source text."""

from __future__ import annotations

import importlib
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from runner.worker.trace import readable
from seq.contract.adapters import content_hash
from seq.contract.internal import AdapterRef


class UserCodeError(Exception):
    """A user's file could not be used; the message is a sentence, `traceback` the user's own frames."""

    def __init__(self, message: str, trace: str | None = None) -> None:
        super().__init__(message)
        self.traceback = trace


def load_class(code_dir: str, handler_ref: str) -> type[Any]:
    """The class `module:Class` of an unpacked bundle; raises UserCodeError."""
    module_name, _, class_name = handler_ref.partition(":")
    if code_dir not in sys.path:
        sys.path.insert(0, code_dir)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit, KeyboardInterrupt) as failed:
        raise UserCodeError(f"importing {module_name} failed: {sentence(failed)}", frames(failed, code_dir)) from failed
    found: type[Any] | None = getattr(module, class_name, None)
    if found is None:
        raise UserCodeError(f"{module_name} has no class {class_name}")
    return found


def load_adapter(ref: AdapterRef) -> Any:
    """An instance of the adapter, built with the eval's parameters; raises UserCodeError, also on a wrong hash."""
    if content_hash(ref.class_name, ref.source) != ref.sha256:
        raise UserCodeError(f"adapter {ref.name}@v{ref.version} arrived altered: its content does not match its hash")
    module = types.ModuleType(f"adapter_{ref.sha256[:12]}")
    module.__file__ = f"{ref.name}.py"
    sys.modules[module.__name__] = module
    try:
        exec(compile(ref.source, module.__file__, "exec"), module.__dict__)  # noqa: S102  running it is the point
        return module.__dict__[ref.class_name](**ref.params)
    except (Exception, SystemExit, KeyboardInterrupt) as failed:
        raise UserCodeError(
            f"adapter {ref.name}@v{ref.version} cannot be made: {sentence(failed)}", frames(failed)
        ) from failed


def sentence(error: BaseException) -> str:
    """`ValueError: the text` in one line."""
    text = " ".join(readable(str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def frames(error: BaseException, root: str | None = None) -> str:
    """The traceback from the user's first frame on, with paths below `root` shown relative to it.

    Without a frame of the user's, only the exception itself: our own lines would tell nothing.
    """
    ours = (*(f"{Path(__file__).parents[2]}/{package}/" for package in ("runner", "seq", "sequence_ai")), "<frozen")
    stack = traceback.extract_tb(error.__traceback__)
    users = next((stack[i:] for i, frame in enumerate(stack) if not frame.filename.startswith(ours)), None)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(users)] if users else []
    text = readable("".join(lines + traceback.format_exception_only(error)))
    return text.replace(f"{root}/", "") if root else text
