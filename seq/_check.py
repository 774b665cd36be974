"""The checks that declarations share. Each raises the error it is given with one sentence: what came, what would do."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from seq.contract.names import DEPLOYMENT_NAME
from seq.errors import SeqAuthoringError, sentence

Model = TypeVar("Model", bound=BaseModel)
Error = type[SeqAuthoringError]


def whole(name: str, value: Any, error: Error, *, low: int, high: int | None = None) -> int:
    """`value` when it is an int (no bool) in range."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        span = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise error(f"{name}= must be a whole number {span}, got {value!r}")
    return value


def number(name: str, value: Any, error: Error, *, low: float, high: float = math.inf, unit: str = "") -> float:
    """`value` when it is a finite int or float (no bool) in range."""
    wrong = isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)
    if wrong or not low <= value <= high:
        span = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of at least {low:g}"
        raise error(f"{name}= must be a number {span}{unit}, got {value!r}")
    checked: float = value
    return checked


def text(name: str, value: Any, error: Error, *, longest: int = 4000) -> str:
    """`value` when it is a non-empty string of at most `longest` characters."""
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        got = f"one of {len(value)}" if isinstance(value, str) and value.strip() else repr(value)
        raise error(f"{name}= must be a text of 1 to {longest} characters, got {got}")
    return value


def flag(name: str, value: Any, error: Error) -> bool:
    """`value` when it is True or False."""
    if not isinstance(value, bool):
        raise error(f"{name}= must be True or False, got {value!r}")
    return value


def choice(name: str, value: Any, error: Error, allowed: tuple[str, ...]) -> str:
    """`value` when it is one of `allowed`."""
    if value not in allowed:
        raise error(f"{name}= must be one of {list(allowed)}, got {value!r}")
    return str(value)


def public_name(value: Any, error: Error, pattern: str = DEPLOYMENT_NAME, first: str = "a letter or digit") -> str:
    """`value` when it may name a deployment, a benchmark or an adapter."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise error(f"name= must be 1-64 letters, digits, '.', '_' or '-', starting with {first}, got {value!r}")
    return value


def strings(name: str, value: Any, error: Error, *, example: str) -> tuple[str, ...]:
    """`value` as a tuple when it is a list of non-empty strings; a bare string is not."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"{name}= must be a list, e.g. {name}={example}, got {value!r}")
    items = tuple(value)
    for item in items:
        if not isinstance(item, str) or not item.strip():
            raise error(f"{name}= must hold texts, e.g. {name}={example}, got {item!r}")
    return items


def instances(name: str, value: Any, error: Error, kind: type, *, example: str) -> tuple[Any, ...]:
    """`value` as a tuple when it is a list of `kind`."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, kind) for item in value):
        raise error(f"{name}= must be a list of {kind.__name__}, e.g. {name}={example}, got {value!r}")
    return tuple(value)


def model(name: str, value: Any, error: Error, kind: type[Model]) -> Model | None:
    """`value` as a contract object: None, the object itself, or a dict of its fields."""
    if value is None or isinstance(value, kind):
        return value
    if not isinstance(value, dict):
        raise error(f"{name}= must be a seq.{kind.__name__}(...) or a dict of its fields, got {value!r}")
    try:
        return kind.model_validate(value)
    except ValidationError as wrong:
        raise error(f"{name}= is not a {kind.__name__}: {sentence(wrong)}") from wrong


def known(decorator: str, options: Iterable[str], allowed: Iterable[str], error: Error) -> None:
    """Raises on the first option that is not allowed, with those that are."""
    names = sorted(allowed)
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise error(f"{decorator} got unknown argument {name!r}{hint}; allowed: {', '.join(names)}")
