"""Every answer that is not a success, in the wire's one shape."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from runner.errors import Refused
from runner.gateway.requests import MAX_BODY_BYTES

_TOLD_AT_MOST = 5


def install(app: FastAPI) -> None:
    """Answer refusals, malformed requests and unknown paths by the wire's error body."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)


def render(refused: Refused, request_id: str, *, status: int | None = None) -> JSONResponse:
    """A refusal as an answer; `status` where the code's own does not fit."""
    headers = {} if refused.retry_after_s is None else {"Retry-After": f"{refused.retry_after_s:g}"}
    return JSONResponse(refused.body(request_id).wire(), status_code=status or refused.status, headers=headers)


def _refused(request: Request, refused: Exception) -> JSONResponse:
    assert isinstance(refused, Refused)  # noqa: S101  tells the type checker what the registration holds
    return render(refused, request.state.request_id)


def _malformed(request: Request, wrong: Exception) -> JSONResponse:
    assert isinstance(wrong, RequestValidationError)  # noqa: S101  as above
    sentences = [_sentence(error) for error in wrong.errors()]
    shown = "; ".join(sentences[:_TOLD_AT_MOST])
    rest = f" (and {len(sentences) - _TOLD_AT_MOST} more)" if len(sentences) > _TOLD_AT_MOST else ""
    return render(Refused("invalid_request", shown + rest), request.state.request_id)


def _http(request: Request, wrong: Exception) -> JSONResponse:
    assert isinstance(wrong, HTTPException)  # noqa: S101  as above
    request_id, path = request.state.request_id, request.url.path
    if wrong.status_code == 404:
        return render(Refused("not_found", f"this platform has no path {path}"), request_id)
    if wrong.status_code == 413:
        limit = f"{MAX_BODY_BYTES // 1024**2} MiB"
        return render(Refused("payload_too_large", f"the body is over {limit}, the most there may be"), request_id)
    if wrong.status_code == 405:
        detail = f"{path} does not take {request.method}"
        answer = render(Refused("invalid_request", detail), request_id, status=405)
        answer.headers.update(wrong.headers or {})
        return answer
    return render(Refused("invalid_request", str(wrong.detail)), request_id)


def _sentence(error: dict[str, Any]) -> str:
    """One finding: where, why, and what was given where that is short (a long value may be code or a whole file)."""
    if error["type"] == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    field = ".".join(str(part) for part in error["loc"][1:]) or "the body"
    if error["type"] == "extra_forbidden":
        return f"{field}: no such field"
    if error["type"] == "missing":
        return f"{field}: is required"
    given = error.get("input")
    told = f", got {given!r}" if isinstance(given, (int, float, str)) and len(repr(given)) <= 60 else ""
    reason = error["msg"].removeprefix("Value error, ")
    return f"{field}: {reason[:1].lower()}{reason[1:]}{told}"
