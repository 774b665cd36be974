"""Every error code, with its HTTP status, whether a retry can help, and the command's exit number.

```
status  codes
400     invalid_request          402  insufficient_credit, budget_exhausted
401     unauthenticated          413  payload_too_large
403     forbidden                424  dependency_missing
404     not_found                429  busy
409     conflict                 500  policy_error, internal
410     gone                     502  upstream_error      503  warming, unavailable      504  timeout
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from seq.contract._model import Lenient


@dataclass(frozen=True)
class CodeFacts:
    """What one error code means on the wire and on the command line."""

    status: int
    retryable: bool
    exit: int


CODES: dict[str, CodeFacts] = {
    "invalid_request": CodeFacts(400, False, 2),
    "payload_too_large": CodeFacts(413, False, 2),
    "unauthenticated": CodeFacts(401, False, 3),
    "forbidden": CodeFacts(403, False, 3),
    "insufficient_credit": CodeFacts(402, False, 6),
    "budget_exhausted": CodeFacts(402, False, 6),
    "not_found": CodeFacts(404, False, 4),
    "gone": CodeFacts(410, False, 4),
    "conflict": CodeFacts(409, False, 5),
    "busy": CodeFacts(429, True, 7),
    "warming": CodeFacts(503, True, 7),
    "unavailable": CodeFacts(503, True, 7),
    "upstream_error": CodeFacts(502, True, 7),
    "timeout": CodeFacts(504, True, 7),
    "policy_error": CodeFacts(500, False, 1),
    "internal": CodeFacts(500, False, 1),
    "dependency_missing": CodeFacts(424, False, 1),
}

EXIT_GATE_MISSED = 8
EXIT_INTERRUPTED = 130


class ErrorBody(Lenient):
    """The body of every answer that is not a success."""

    detail: str
    code: str
    retryable: bool
    retry_after_s: float | None = None
    request_id: str | None = None
    hint: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


def error_body(
    code: str,
    detail: str,
    *,
    hint: str | None = None,
    retry_after_s: float | None = None,
    request_id: str | None = None,
    details: dict[str, Any] | None = None,
) -> ErrorBody:
    """The body for `code`; raises KeyError on a code that is not in `CODES`."""
    return ErrorBody(
        detail=detail,
        code=code,
        retryable=CODES[code].retryable,
        retry_after_s=retry_after_s,
        request_id=request_id,
        hint=hint,
        details=details or {},
    )
