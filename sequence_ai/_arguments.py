"""Arguments of calls, taken or refused in one sentence each before anything is sent or moves."""

from __future__ import annotations

import difflib
import inspect
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from sequence_ai._errors import InvalidRequest

# What a worker or a policy knows by these names; any other option passes through all the same.
_KNOWN_OPTIONS = ("seed", "params", "episode_id", "embodiment", "action_horizon", "robot", "return_world_prediction")
_OWN_FIELDS = ("model", "inputs", "observation")
_ALIKE = 0.8


def number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """`value` as a float inside the limits; numpy's numbers are numbers. Raises TypeError or ValueError naming it."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is {_short(value)}: it must be a number")
    taken = float(value)
    if math.isnan(taken) or not (taken > above and taken >= least and taken <= most):
        wanted = [f"above {above:g}"] if above > -math.inf else []
        wanted += [f"at least {least:g}"] if least > -math.inf else []
        wanted += [f"at most {most:g}"] if most < math.inf else []
        raise ValueError(f"{name} is {taken:g}: it must be {' and '.join(wanted) or 'a number'}")
    return taken


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int. Raises TypeError or ValueError naming it."""
    try:
        taken = operator.index(value)
    except TypeError:
        taken = None
    if taken is None or isinstance(value, bool):
        raise TypeError(f"{name} is {_short(value)}: it must be a whole number")
    if taken < least:
        raise ValueError(f"{name} is {taken}: it must be at least {least}")
    return taken


def function(name: str, value: Any) -> None:
    """Raise TypeError unless `value` is a function that can be called and does its work then."""
    if not callable(value):
        raise TypeError(f"{name} is {_short(value)}: give a function")
    # Called and never awaited, it would do nothing; and what it returns is always true.
    if any(map(inspect.iscoroutinefunction, (value, value.__call__))):
        raise TypeError(f"{name} is an async function, and the loop awaits nothing: give a plain one")


def mapping(name: str, value: Any) -> Mapping[str, Any] | None:
    """`value`, which is a dict or None. Raises InvalidRequest on anything else."""
    if value is None or isinstance(value, Mapping):
        return value
    raise InvalidRequest(f"{name} is {_short(value)}: give a dict", code="invalid_request")


def options(given: Mapping[str, Any], of: Callable[..., Any], others: Iterable[str] = ()) -> dict[str, Any]:
    """Options of an act without those that are None.

    Raises InvalidRequest on what the client fills in itself, and TypeError on what looks like an argument of the call
    `of`, or is one of `others`, which belong elsewhere: a misspelt bound must not be passed on and forgotten.
    """
    own = sorted(set(given) & set(_OWN_FIELDS))
    if own:
        raise InvalidRequest(f"{own} cannot be options of an act: the client fills them in", code="invalid_request")
    for name in set(given) - set(_KNOWN_OPTIONS):
        if name in others:
            raise TypeError(f"{name} is an argument of connect(), not of {of.__name__}()")
        close = difflib.get_close_matches(name, [*inspect.signature(of).parameters, *_KNOWN_OPTIONS], 1, _ALIKE)
        if close:
            raise TypeError(f"{of.__name__}() has no argument {name!r}: did you mean {close[0]!r}?")
    return {name: value for name, value in given.items() if value is not None}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
