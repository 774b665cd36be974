"""Parameters: keywords with a default that a request or an eval may set, read from a signature."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Union

from seq.contract.params import InferParam
from seq.errors import SeqAuthoringError

MAX_PARAMS = 32
PLATFORM_KEYWORDS = ("seed", "episode_id", "instruction", "embodiment")
_TYPES: dict[Any, str] = {int: "int", float: "float", bool: "bool", str: "str"}
_ALLOWED = "int, float, bool or str"


@dataclass(frozen=True)
class Range:
    """Bounds of a number, both allowed: `Annotated[int, seq.Range(1, 8)]`."""

    min: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class OneOf:
    """The values a text may take: `Annotated[str, seq.OneOf("fast", "exact")]`."""

    choices: tuple[str, ...]

    def __init__(self, *choices: str) -> None:
        object.__setattr__(self, "choices", choices)


def parameters(
    function: Callable[..., Any],
    where: str,
    error: type[SeqAuthoringError],
    *,
    positional: int = 0,
    skip: tuple[str, ...] = (),
) -> dict[str, InferParam]:
    """The parameters `function` declares after `self`, `positional` arguments of the platform and the names in `skip`.

    Raises `error`, naming `where`, on one that could not be set: no default, positional-only, another type.
    """
    declared: dict[str, InferParam] = {}
    for argument in list(inspect.signature(function).parameters.values())[1 + positional :]:
        if argument.name in skip or argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        try:
            declared[argument.name] = _parameter(function, argument)
        except ValueError as wrong:
            raise error(f"{where}: parameter {argument.name!r} {wrong}") from wrong
    if len(declared) > MAX_PARAMS:
        raise error(f"{where} declares {len(declared)} parameters; at most {MAX_PARAMS} are taken")
    return declared


def annotation_of(function: Callable[..., Any], argument: inspect.Parameter) -> Any:
    """The annotation as an object; None where there is none or it names something that cannot be found."""
    annotation = argument.annotation
    if annotation is argument.empty:
        return None
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__)  # noqa: S307  the author's own annotation, in the author's own file
    except (NameError, AttributeError, TypeError, SyntaxError):
        return None


def _parameter(function: Callable[..., Any], argument: inspect.Parameter) -> InferParam:
    if argument.kind is argument.POSITIONAL_ONLY:
        raise ValueError("is positional-only, so nobody can set it by name; write it after a *")
    if argument.default is argument.empty:
        raise ValueError("has no default; give it one, such as = 0")
    annotation = annotation_of(function, argument)
    if annotation is None and argument.annotation is not argument.empty:
        raise ValueError(f"is annotated {argument.annotation!r}, which cannot be resolved; use {_ALLOWED}")
    if annotation is None:
        annotation = type(argument.default)
    kind, limits = _unwrap(annotation)
    if kind not in _TYPES:
        raise ValueError(f"must be {_ALLOWED}, got {getattr(kind, '__name__', kind)} (= {argument.default!r})")
    default = _default(kind, annotation, argument.default)
    return InferParam.model_validate({"type": _TYPES[kind], "default": default, **_limits(kind, limits, default)})


def _unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The plain type of `Annotated[...]`, `Optional[...]` and `... | None`, and what `Annotated` carried."""
    if typing.get_origin(annotation) is Annotated:
        inner, *carried = typing.get_args(annotation)
        kind, more = _unwrap(inner)
        return kind, (*carried, *more)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        rest = [item for item in typing.get_args(annotation) if item is not type(None)]
        return _unwrap(rest[0]) if len(rest) == 1 else (annotation, ())
    return annotation, ()


def _optional(annotation: Any) -> bool:
    if typing.get_origin(annotation) is Annotated:
        return _optional(typing.get_args(annotation)[0])
    return type(None) in typing.get_args(annotation)


def _default(kind: Any, annotation: Any, value: Any) -> Any:
    if value is None and _optional(annotation):
        return None
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"is a {_TYPES[kind]} with the default {value!r}; give a default of that type")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"has the default {value!r}, which is no finite number")
    return value


def _limits(kind: Any, carried: tuple[Any, ...], default: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for item in carried:
        if isinstance(item, Range):
            _check_range(kind, item, default)
            limits |= {"min": item.min, "max": item.max}
        elif isinstance(item, OneOf):
            _check_choices(kind, item, default)
            limits |= {"choices": list(item.choices)}
    return limits


def _check_range(kind: Any, bounds: Range, default: Any) -> None:
    low = -math.inf if bounds.min is None else bounds.min
    high = math.inf if bounds.max is None else bounds.max
    if kind not in (int, float) or not low <= high:
        raise ValueError(f"has {bounds}; a Range bounds an int or a float, min not above max")
    if default is not None and not low <= default <= high:
        raise ValueError(f"has the default {default!r} outside {bounds}")


def _check_choices(kind: Any, allowed: OneOf, default: Any) -> None:
    if kind is not str or not allowed.choices or not all(isinstance(item, str) for item in allowed.choices):
        raise ValueError(f"has {allowed}; OneOf lists the texts that a str may be")
    if default is not None and default not in allowed.choices:
        raise ValueError(f"has the default {default!r}, which is not one of {list(allowed.choices)}")
