"""Bodies made from what a user gave: a value that the contract refuses becomes one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sequence_ai import InvalidRequest

M = TypeVar("M", bound=BaseModel)


def checked(model: type[M], fields: Mapping[str, Any]) -> M:
    """`fields` as a `model`, None meaning not given; raises InvalidRequest naming each wrong field and why."""
    try:
        return model.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as wrong:
        raise InvalidRequest(
            "; ".join(_sentence(dict(error)) for error in wrong.errors()), code="invalid_request"
        ) from wrong


def _sentence(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    given = "" if isinstance(error["input"], dict) else f" (got {error['input']!r})"
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {reason}{given}" if where else f"{reason}{given}"
