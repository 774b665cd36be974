"""How a failure is shown, and which number the command ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from seq.contract.errors import CODES
from seq.errors import SeqAuthoringError
from sequence_ai import (
    AuthError,
    Conflict,
    Gone,
    InvalidRequest,
    NotFound,
    OutOfCredit,
    PermissionDenied,
    PolicyError,
    SequencesError,
    Unavailable,
)

# For errors raised on this machine without a code of the wire.
_BY_CLASS: tuple[tuple[type[BaseException], str], ...] = (
    (SeqAuthoringError, "invalid_request"),
    (InvalidRequest, "invalid_request"),
    (AuthError, "unauthenticated"),
    (PermissionDenied, "forbidden"),
    (OutOfCredit, "insufficient_credit"),
    (NotFound, "not_found"),
    (Gone, "gone"),
    (Conflict, "conflict"),
    (Unavailable, "unavailable"),
    (PolicyError, "policy_error"),
    (SequencesError, "internal"),
    (OSError, "internal"),  # a file that cannot be read or written here
)


def code_of(error: BaseException) -> str | None:
    """The error's code; None for an exception that is not a failure of a request: a bug, to be seen whole."""
    code = getattr(error, "code", None)
    if isinstance(code, str) and code in CODES:
        return code
    return next((code for kind, code in _BY_CLASS if isinstance(error, kind)), None)


def exit_code(code: str) -> int:
    """The command's exit number for an error code."""
    return CODES[code].exit


def failure_lines(error: BaseException, code: str) -> list[str]:
    """What stderr gets: the sentence, what the platform listed, the policy's traceback, the hint, the request id."""
    lines = [f"error[{code}]: {_message(error)}"]
    lines += [f"  {item}" for item in _listed(getattr(error, "details", None) or {})]
    remote = getattr(error, "remote_traceback", None)
    lines += str(remote).rstrip().splitlines() if remote else []
    hint, request_id = getattr(error, "hint", None), getattr(error, "request_id", None)
    lines += [f"hint: {hint}"] if hint else []
    lines += [f"request_id: {request_id}"] if request_id and CODES[code].status == 500 else []
    return lines


def _message(error: BaseException) -> str:
    if isinstance(error, SequencesError):
        return error.message
    if isinstance(error, SeqAuthoringError) or (isinstance(error, OSError) and not hasattr(error, "code")):
        return str(error)
    return f"{type(error).__name__}: {error}"  # the policy's own exception, by its built-in name


def _listed(details: Mapping[str, Any]) -> Iterator[str]:
    for value in details.values():
        if isinstance(value, (list, tuple)):
            yield from (str(item) for item in value if isinstance(item, (str, int, float)))
