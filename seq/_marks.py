"""Method decorators only leave marks; the class decorator gathers them into a declaration.

A mark is a hook's name and its options, kept on the function. One method may carry several hooks; one hook belongs to
one method.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from seq.errors import BenchmarkDefinitionError, PolicyDefinitionError, SeqAuthoringError

Method = TypeVar("Method", bound=Callable[..., Any])

POLICY_HOOKS = ("load", "warmup", "infer", "on_episode", "shutdown", "plan")
BENCHMARK_HOOKS = ("setup", "reset", "observation", "step", "check", "score")
POLICY, BENCHMARK, ADAPTER = "__seq_policy__", "__seq_benchmark__", "__seq_adapter__"
CONCURRENT = "__seq_concurrent__"
_ATTRIBUTE = "__seq_marks__"


@dataclass(frozen=True)
class Handler:
    """`module:Class`, and the file that defines it (kept, since another file may later be loaded under that name)."""

    ref: str
    file: Path | None

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return self.ref.partition(":")[0]


@dataclass(frozen=True)
class Marked:
    """A hook as found on a class: the method's name, the function, and what its decorator was given."""

    method: str
    function: Callable[..., Any]
    options: Mapping[str, Any]


def mark(function: Method, hook: str, **options: Any) -> Method:
    """`function`, carrying `hook`. Raises the matching definition error on what cannot be a hook."""
    error = BenchmarkDefinitionError if hook in BENCHMARK_HOOKS else PolicyDefinitionError
    if isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        raise error(f"@seq.{hook} is on a {kind}; the platform calls it on an instance: write a plain method with self")
    if not isinstance(function, FunctionType):
        raise error(f"@seq.{hook} is on a {type(function).__name__}; put it directly above a method of the class")
    if inspect.iscoroutinefunction(function):
        raise error(
            f"@seq.{hook} is on the async method {function.__name__!r}; write a plain def: it gets its own thread"
        )
    marks: dict[str, Mapping[str, Any]] = getattr(function, _ATTRIBUTE, {})
    if hook in marks:
        raise error(f"@seq.{hook} is twice on the method {function.__name__!r}; write it once")
    setattr(function, _ATTRIBUTE, {**marks, hook: options})
    return function


def gather(cls: type, error: type[SeqAuthoringError]) -> dict[str, Marked]:
    """Every hook of `cls` and its bases by name; raises `error` when two methods carry the same one."""
    found: dict[str, Marked] = {}
    for name, value in _members(cls).items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        marks: Mapping[str, Mapping[str, Any]] = getattr(function, _ATTRIBUTE, {})
        if marks and function is not value:
            hook = next(iter(marks))
            raise error(
                f"{cls.__name__}.{name} is a {type(value).__name__} with @seq.{hook}; write a plain method with self"
            )
        for hook, options in marks.items():
            if hook in found:
                both = f"{found[hook].method!r} and {name!r}"
                raise error(f"{cls.__name__} has @seq.{hook} on two methods, {both}; keep one")
            found[hook] = Marked(name, function, options)
    return found


def _members(cls: type) -> dict[str, Any]:
    """Attributes as an instance sees them: of a name defined twice, the most derived."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            members.pop(name, None)
            members[name] = value
    return members


def refuse_foreign(
    cls: type, hooks: Mapping[str, Marked], own: tuple[str, ...], what: str, error: type[SeqAuthoringError]
) -> None:
    """Raises `error` on a hook that belongs to the other kind of class."""
    for hook, marked in hooks.items():
        if hook not in own and hook != "batched":
            raise error(
                f"{cls.__name__}.{marked.method} carries @seq.{hook}, which is not for {what}; its hooks: {list(own)}"
            )


def require_call(
    cls: type, marked: Marked, hook: str, arguments: tuple[str, ...], error: type[SeqAuthoringError]
) -> None:
    """Raises `error` unless the method can be called with `arguments`, by position."""
    try:
        inspect.signature(marked.function).bind_partial("self", *arguments)
    except TypeError as wrong:
        raise error(
            f"{cls.__name__}.{marked.method}: @seq.{hook} is called as ({', '.join(('self', *arguments))}): {wrong}"
        ) from wrong


def handler_of(cls: type, error: type[SeqAuthoringError]) -> Handler:
    """How a worker finds `cls`; raises `error` when it could not import it."""
    if not isinstance(cls, type):
        raise error(f"the decorator is on {cls!r}; put it above a class")
    if cls.__module__ == "__main__":
        raise error(
            f"{cls.__name__} is defined in the script that runs (__main__); put it into a file of its own and import it"
        )
    if cls.__qualname__ != cls.__name__:
        raise error(
            f"{cls.__qualname__} is defined inside another class or function; move it to the top level of its file"
        )
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return Handler(f"{cls.__module__}:{cls.__name__}", None if file is None else Path(file).resolve())
