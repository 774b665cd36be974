"""How any part of the platform refuses: one exception, whose code decides the status, the retry and the exit number.

And how the platform itself says that it cannot start.
"""

from __future__ import annotations

from typing import Any

from seq.contract.errors import CODES, ErrorBody, error_body

LISTED = 20
EXIT_USAGE, EXIT_CONFLICT, EXIT_FAILED = 2, 5, 1


class Refused(Exception):  # noqa: N818  it reads as what happened: `raise Refused(...)`
    """A request that cannot be done, said for a person: what was given, what would be right, what to do.

    `code` is a key of `seq.contract.errors.CODES`; `details` carries what a program may act on.
    """

    def __init__(
        self, code: str, detail: str, *, hint: str | None = None, retry_after_s: float | None = None, **details: Any
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status = CODES[code].status
        self.detail = detail
        self.hint = hint
        self.retry_after_s = retry_after_s
        self.details = details

    def body(self, request_id: str | None = None) -> ErrorBody:
        """The refusal as it crosses the wire."""
        return error_body(
            self.code,
            self.detail,
            hint=self.hint,
            retry_after_s=self.retry_after_s,
            request_id=request_id,
            details=self.details,
        )


def no_such(kind: str, name: str, known: list[str] | None = None) -> Refused:
    """`not_found` for a name that is not there or not the caller's; lists the caller's own names when given."""
    listed = sorted(known or [])
    hint = f"yours: {', '.join(listed[:LISTED])}{', ...' if len(listed) > LISTED else ''}" if listed else None
    return Refused("not_found", f"no {kind} named {name!r}", hint=hint)


class StartError(Exception):
    """The platform cannot start; the message is one sentence, `exit_code` what the process ends with."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
