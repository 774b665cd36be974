# ruff: noqa: N818  the names are the published ones
"""Every error of the client.

```
Exception
├─ SequencesError
│  ├─ InvalidRequest      invalid_request, payload_too_large
│  ├─ AuthError           unauthenticated
│  ├─ PermissionDenied    forbidden
│  ├─ OutOfCredit         insufficient_credit, budget_exhausted
│  ├─ NotFound            not_found
│  ├─ Gone                gone
│  ├─ Conflict            conflict
│  ├─ Unavailable         busy, warming, unavailable, upstream_error, timeout
│  │  └─ Unreachable      (private: no answer came back)
│  ├─ PolicyError         policy_error
│  ├─ InternalError       internal, dependency_missing
│  ├─ CertPinError        (no code: the worker's certificate is not the one the gateway named)
│  └─ ChunkExhausted      (no code: no action left and no observation to ask with)
└─ a built-in exception   policy_error whose details name one, with `.remote_traceback`, `.request_id`, `.code`
```
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, TypeVar, Union

from sequence_ai._plain import is_finite, is_whole, shown
from sequence_ai._shortage import shortage_sentence

Number = Union[int, float]
_Told = TypeVar("_Told", bound="SequencesError")


class SequencesError(Exception):
    """The base of all errors here. Switch on `.code`, show `.hint`, quote `.request_id`."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retryable: bool = False,
        retry_after_s: Number | None = None,
        request_id: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.hint = hint
        self.details = dict(details or {})
        self.body = body

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def said_as(error: _Told, message: str) -> _Told:
    """The same error in other words."""
    other = copy.copy(error)
    other.message = message
    other.args = (message,)
    return other


class InvalidRequest(SequencesError):
    """What was asked for cannot be right: fix the call and try again."""


class AuthError(SequencesError):
    """The key is missing, unknown or revoked."""


class PermissionDenied(SequencesError):
    """The key is known and may not do this."""


class OutOfCredit(SequencesError):
    """The balance or the deployment's budget is used up."""


class NotFound(SequencesError):
    """There is no such thing in this account."""


class Gone(SequencesError):
    """It existed and was taken away."""

    @property
    def replacement(self) -> str | None:
        """The name to use instead, where there is one."""
        return self.details.get("replacement")

    @property
    def since(self) -> str | None:
        """When it was taken away."""
        return self.details.get("since")

    @property
    def reason(self) -> str | None:
        """Why it was taken away."""
        return self.details.get("reason")


class Conflict(SequencesError):
    """The state of things forbids it now: a name taken, a deployment stopped, a limit reached."""


class Unavailable(SequencesError):
    """Nothing is wrong with the request: ask again later."""

    @property
    def warming(self) -> bool:
        """A worker is starting and has not answered yet."""
        return self.code == "warming"

    @property
    def queued(self) -> bool:
        """Every slot is taken and this robot stands in line."""
        return "queue_position" in self.details

    @property
    def queue_position(self) -> int | None:
        """The place in line, 1 being the front."""
        return self.details.get("queue_position")

    @property
    def holds_s(self) -> float:
        """For how long the gateway would hold the next question until there is a slot; 0 where it does not."""
        return self.details.get("holds_s") or 0.0

    @property
    def job_id(self) -> str | None:
        """The id of the start that is being waited for."""
        return self.details.get("job_id")


class Unreachable(Unavailable):
    """No answer came back. `dropped`: a connection was made and broke, so asking again may well work."""

    def __init__(self, message: str, *, dropped: bool = False, **facts: Any) -> None:
        super().__init__(message, retryable=True, **facts)
        self.dropped = dropped


class PolicyError(SequencesError):
    """The policy's own code failed, or returned what its contract forbids."""

    @property
    def exception_type(self) -> str | None:
        """The name of the exception that the policy raised."""
        return _text(_section(self.details, "exception"), "type")

    @property
    def remote_traceback(self) -> str | None:
        """The policy's own traceback, from the worker."""
        return _text(_section(self.details, "exception"), "traceback")


class InternalError(SequencesError):
    """The platform failed; quote `.request_id` when reporting it."""


class CertPinError(SequencesError):
    """The worker's certificate is not the one that the gateway named. Never retried: nothing was sent to it."""


class ChunkExhausted(SequencesError):
    """The buffer is empty and no observation was given to ask for more with."""


class _Code(NamedTuple):
    error: type[SequencesError]
    status: int
    retryable: bool


_CODES = {
    "invalid_request": _Code(InvalidRequest, 400, False),
    "payload_too_large": _Code(InvalidRequest, 413, False),
    "unauthenticated": _Code(AuthError, 401, False),
    "forbidden": _Code(PermissionDenied, 403, False),
    "insufficient_credit": _Code(OutOfCredit, 402, False),
    "budget_exhausted": _Code(OutOfCredit, 402, False),
    "not_found": _Code(NotFound, 404, False),
    "conflict": _Code(Conflict, 409, False),
    "gone": _Code(Gone, 410, False),
    "busy": _Code(Unavailable, 429, True),
    "unavailable": _Code(Unavailable, 503, True),
    "warming": _Code(Unavailable, 503, True),
    "upstream_error": _Code(Unavailable, 502, True),
    "timeout": _Code(Unavailable, 504, True),
    "internal": _Code(InternalError, 500, False),
    "policy_error": _Code(PolicyError, 500, False),
    "dependency_missing": _Code(InternalError, 424, False),
}
# The first code of a status is what that status means when no usable code came with it.
_BY_STATUS = {entry.status: code for code, entry in reversed(list(_CODES.items()))}


def from_response(
    status: int,
    body: Any = None,
    *,
    text: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Exception:
    """The one mapping from an answer that is not a success to an exception, which is returned and not raised.

    The body's code picks the class; without a known code, the status does. `text` is shown where the body says nothing.
    """
    fields = _fields(body)
    code = _text(fields, "code")
    if code is None or code not in _CODES:
        code = _BY_STATUS.get(status, "invalid_request" if 400 <= status < 500 else "internal")
    details = _details(fields)
    asked_s = _seconds(fields.get("retry_after_s"))
    facts: dict[str, Any] = {
        "status": status,
        "code": code,
        "retryable": _CODES[code].retryable,
        "retry_after_s": _retry_after(headers) if asked_s is None else asked_s,
        "request_id": _text(fields, "request_id") or _text(fields, "rid") or _header(headers, "X-Seq-Request-Id"),
        "hint": _text(fields, "hint"),
        "details": details,
        "body": body,
    }
    message = shortage_sentence(details) or _message(status, fields, text)
    if code == "policy_error":
        return _users_own(details, facts) or PolicyError(message, **facts)
    return _CODES[code].error(message, **facts)


def _fields(body: Any) -> dict[str, Any]:
    """The body's fields, with the older spelling of "a worker is starting" rewritten to today's."""
    fields = dict(body) if isinstance(body, Mapping) else {}
    older = fields["detail"] if isinstance(fields.get("detail"), Mapping) else fields
    starting = _text(older, "status") == "warming_up" or (older is not fields and _text(older, "code") == "warming")
    if older is not fields:
        fields.update({key: older[key] for key in ("code", "retry_after_s", "hint", "request_id") if key in older})
        fields["detail"] = _text(older, "message") or older.get("detail")
    if starting:
        fields["code"] = "warming"
        fields["detail"] = _text(older, "message") or fields.get("detail") or "the model is starting"
        if _text(older, "warming_job_id"):
            fields["details"] = {**_section(fields, "details"), "job_id": older["warming_job_id"]}
    return {key: value for key, value in fields.items() if value is not None}


def _details(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The details, those left out that the client reads and that cannot be what they claim; `body` still has them."""
    details = _section(fields, "details")
    return {key: value for key, value in details.items() if _READ_DETAILS.get(key, _any)(value)}


def _any(_: Any) -> bool:
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_duration(value: Any) -> bool:
    return value is None or _seconds(value) is not None


def _is_place(value: Any) -> bool:
    return value is None or is_whole(value)


_READ_DETAILS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("job_id", "reason", "replacement", "since"), _is_text),
    **dict.fromkeys(("eta_s", "waited_s", "holds_s"), _is_duration),
    "queue_position": _is_place,
}


def _message(status: int, fields: Mapping[str, Any], text: str | None) -> str:
    detail = fields.get("detail")
    if isinstance(detail, str):
        return detail
    if detail is not None:
        return shown(detail, 300)
    return (text or "").strip()[:300] or f"HTTP {status}"


def _users_own(details: Mapping[str, Any], facts: Mapping[str, Any]) -> Exception | None:
    """The built-in exception that the policy raised, if it is one that a message alone can make."""
    raised = _section(details, "exception")
    kind = getattr(builtins, _text(raised, "type") or "", None)
    # Only Exception: a worker must not be able to raise SystemExit or KeyboardInterrupt in a robot's loop.
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return None
    message = raised.get("message", "")
    try:
        error = kind(message if isinstance(message, str) else shown(message))
    except TypeError:
        return None
    for name in ("request_id", "code", "status", "details"):
        setattr(error, name, facts[name])
    error.remote_traceback = _text(raised, "traceback")  # type: ignore[attr-defined]
    return error


def _section(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _header(headers: Mapping[str, str] | None, name: str) -> str | None:
    found = [value for key, value in (headers or {}).items() if key.lower() == name.lower()]
    return found[0] if found else None


def _retry_after(headers: Mapping[str, str] | None) -> Number | None:
    try:
        return _seconds(float(_header(headers, "Retry-After") or ""))
    except ValueError:  # absent, or a date, which the contract does not use
        return None


def _seconds(value: Any) -> Number | None:
    """A time to wait, from a body or a header: a finite number of at least 0, else None."""
    return value if is_finite(value) and value >= 0 else None
