"""Flag values that are more than one word, read before anything is sent; a refusal names the flag and what would do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sequence_ai import InvalidRequest

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

_LONGEST_NUMBER = 400  # Python reads no whole number of very many digits
_RERUNS = {"rerun_of": "--rerun-failed", "rerun_unsuccessful_of": "--rerun-unsuccessful"}
_INHERITED = {
    "adapter": "--adapter",
    "suite": "--suite",
    "tasks": "--tasks",
    "trials": "--trials",
    "variants": "--variants",
    "params": "--param",
    "sweep": "--sweep",
    "compare": "--compare",
}

Scalar = bool | int | float | str


def words(flag: str, text: str | None) -> list[str] | None:
    """`a,b` as a list; None when the flag was not given."""
    if text is None:
        return None
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise _wrong(flag, text, "give names separated by commas, like a,b")
    return found


def assignments(flag: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """`NAME=VALUE` flags as a dict; a name given twice is refused."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals or not value:
            raise _wrong(flag, text, f"give {example}")
        if name.strip() in found:
            raise _wrong(flag, text, f"{name.strip()} is given twice")
        found[name.strip()] = value
    return found


def variants(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """`--variants AXIS=V1,V2`, repeatable."""
    given = assignments("--variants", texts, "AXIS=V1,V2")
    return {axis: words("--variants", values) or [] for axis, values in given.items()} or None


def params(texts: Sequence[str]) -> dict[str, Scalar] | None:
    """`--param [SIDE.]NAME=VALUE`, repeatable."""
    given = assignments("--param", texts, "[SIDE.]NAME=VALUE")
    return {name: scalar(value) for name, value in given.items()} or None


def sweep(texts: Sequence[str]) -> dict[str, list[Scalar]] | None:
    """`--sweep [SIDE.]NAME=V1,V2`, repeatable, at least two values each."""
    found: dict[str, list[Scalar]] = {}
    for name, values in assignments("--sweep", texts, "[SIDE.]NAME=V1,V2").items():
        found[name] = [scalar(value) for value in words("--sweep", values) or []]
        if len(found[name]) < 2:
            raise _wrong("--sweep", f"{name}={values}", "give at least two values, or use --param for one")
    return found or None


def scalar(text: str) -> Scalar:
    """`true`/`false`, an int, a float, else the text."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) <= _LONGEST_NUMBER and _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def refuse_rerun(asked: Mapping[str, Any]) -> None:
    """Raises InvalidRequest on a rerun together with what it takes from its eval, and on `--metric` without one."""
    reruns = [flag for name, flag in _RERUNS.items() if asked.get(name) is not None]
    if len(reruns) > 1:
        raise InvalidRequest(f"{' and '.join(reruns)}: give one of the two", code="invalid_request")
    inherited = [flag for name, flag in _INHERITED.items() if asked.get(name) is not None]
    if reruns and inherited:
        raise InvalidRequest(
            f"{reruns[0]} takes its adapter, its starts and its arms from that eval: leave out {', '.join(inherited)}",
            code="invalid_request",
        )
    if asked.get("metric") is not None and asked.get("rerun_unsuccessful_of") is None:
        raise InvalidRequest("--metric goes with --rerun-unsuccessful", code="invalid_request")


def refuse_unjudged(flags: Mapping[str, object], *, ended: bool) -> None:
    """Raises InvalidRequest on flags about the report of an eval whose end is not waited for."""
    given = [flag for flag, value in flags.items() if value]
    if given and not ended:
        raise InvalidRequest(
            f"{', '.join(given)}: there is no report with --dry-run or --no-wait; `seq eval report ID` takes it later",
            code="invalid_request",
        )


def _wrong(flag: str, text: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"{flag} {text!r}: {remedy}", code="invalid_request")
