"""Flag values that are more than one word, read before anything is sent; a refusal names the flag and what would do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sequence_ai import InvalidRequest

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

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
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _wrong(flag: str, text: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"{flag} {text!r}: {remedy}", code="invalid_request")
