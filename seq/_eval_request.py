"""What an eval is asked for, checked before anything is sent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from seq._bodies import checked
from seq.contract.evals import EvalRequest
from seq.contract.params import Scalar
from sequence_ai import InvalidRequest

_LISTS = ("tasks", "compare")
_GROUPS = ("variants", "sweep")
_COUNTS = ("trials", "policy_instances", "benchmark_instances", "envs")


def eval_request(asked: Mapping[str, Any]) -> EvalRequest:
    """The body of `POST /v1/eval`; None and empty groups mean not given.

    Raises InvalidRequest, naming what was given and what would do, on a value that no platform could take.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    for name in _COUNTS:
        if isinstance(given.get(name), bool):
            raise _wrong(name, given[name], "give a whole number of at least 1")
    given |= {name: _names(name, given[name]) for name in _LISTS if name in given}
    given |= {name: _groups(name, given[name]) for name in _GROUPS if name in given}
    if "params" in given:
        given["params"] = _params(given["params"])
    _refuse_sweep(given.get("sweep") or {}, given.get("params") or {})
    refuse_texts(given)
    if "max_usd" in given:
        refuse_amount("max_usd", given["max_usd"])
    return checked(EvalRequest, {name: value for name, value in given.items() if value not in ([], {})})


def refuse_texts(given: Mapping[str, Any]) -> None:
    """Raises InvalidRequest on a text with nothing in it, and on bytes of the command line that are no text."""
    for name, value in given.items():
        if isinstance(value, str) and not value.strip():
            raise _wrong(name, value, "it is empty")
        try:
            json.dumps(value, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError as wrong:
            raise _wrong(name, value, "it holds what is no text") from wrong


def refuse_amount(name: str, value: Any) -> None:
    """Raises InvalidRequest on what is no number of dollars above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value) or value <= 0:
        raise _wrong(name, value, "give a number of dollars above 0")


def refuse_seconds(name: str, value: Any, *, least: float = 0.0) -> None:
    """Raises InvalidRequest on a time that is no number of seconds; None is none given."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value) or value < least:
        raise _wrong(name, value, f"give a number of seconds of at least {least:g}")


def _names(name: str, value: Any) -> list[str]:
    found = _listed(name, value, "names")
    if name == "tasks" and not found:
        raise _wrong(name, value, "name at least one, or leave it out for all")
    for each in found:
        if not isinstance(each, str) or not each.strip():
            raise _wrong(name, value, "each must be a name")
    _refuse_twice(name, found)
    return found


def _groups(name: str, value: Any) -> dict[str, list[Any]]:
    found = {key: _listed(f"{name} {key!r}", values, "values") for key, values in _mapping(name, value).items()}
    for key, values in found.items():
        which = f"{name} {key!r}"
        if not values:
            raise _wrong(which, values, "give at least one value")
        for each in values:
            if name == "sweep":
                _refuse_value(which, each)
            elif not isinstance(each, str) or not each:
                raise _wrong(which, values, "each value must be a text")
        _refuse_twice(which, values)
    return found


def _params(value: Any) -> dict[str, Scalar]:
    found = _mapping("params", value)
    for key, each in found.items():
        _refuse_value(f"params {key!r}", each)
    return found


def _refuse_value(which: str, value: Any) -> None:
    if not isinstance(value, (bool, int, float, str)):
        raise _wrong(which, value, "give true or false, a number or a text")
    if isinstance(value, (int, float)) and not _finite(value):
        raise _wrong(which, value, "give a finite number")


def _refuse_sweep(sweep: Mapping[str, list[Any]], params: Mapping[str, Scalar]) -> None:
    for name, values in sweep.items():
        if len(values) < 2:
            raise _wrong(f"sweep {name!r}", values, "give at least two values, or set one as a parameter")
        if name in params:
            raise InvalidRequest(f"{name!r} is both set and swept: leave one of the two out", code="invalid_request")


def _refuse_twice(which: str, values: Iterable[Any]) -> None:
    shown = [repr(value) for value in values]
    for each in shown:
        if shown.count(each) > 1:
            raise InvalidRequest(f"{which}: {each} is given twice", code="invalid_request")


def _listed(which: str, value: Any, what: str) -> list[Any]:
    """The items of a list; a text, whose items are its letters, is none."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _wrong(which, value, f"give a list of {what}")
    return list(value)


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key.strip() for key in value):
        raise _wrong(name, value, "give a dict by name")
    return dict(value)


def _finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number too large for any float
        return False


def _wrong(which: str, value: Any, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"{which}: {remedy} (got {value!r})", code="invalid_request")
