"""Around every request: its id, its line in the log, its size, and the answer when the platform itself is wrong."""

from __future__ import annotations

import re
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.context import Context
from runner.errors import Refused

MAX_BODY_BYTES = 16 * 1024 * 1024
DRAINED_BYTES = 4 * MAX_BODY_BYTES
REQUEST_ID = "X-Seq-Request-Id"

_log = structlog.get_logger("gateway")
_KEY_IN_PATH = re.compile(r"seq_live_[\w-]{8,}")


class Requests:
    """ASGI middleware: every request gets an id, sent back in a header and named in the log.

    The log names method, path, status, time, request id and key id: never headers, query strings or bodies.
    """

    def __init__(self, app: ASGIApp, ctx: Context) -> None:
        self._app = app
        self._ctx = ctx

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; what the application fails at becomes `internal`, the traceback goes to the log."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = f"r-{self._ctx.new_id()[:8]}"
        answer = _Answer(send, state["request_id"])
        began = self._ctx.clock.monotonic()
        try:
            await self._app(scope, _limited(receive), answer.send)
        except Exception:
            _log.exception("failed", method=scope["method"], path=_path(scope), request_id=answer.request_id)
            if answer.status is not None:
                raise
            await _internal(answer.request_id)(scope, receive, answer.send)
        _told(scope, answer, self._ctx.clock.monotonic() - began)


class _Answer:
    """Notes an answer's status on its way out and adds the request id to it."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), (REQUEST_ID.lower().encode(), self.request_id.encode())]
        await self._send(message)


def _limited(receive: Receive) -> Receive:
    """`receive`, which refuses a body past the limit after reading on a while, so that its sender gets the answer."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen <= MAX_BODY_BYTES:
            return message
        while message.get("more_body") and seen <= DRAINED_BYTES:
            message = await receive()
            seen += len(message.get("body", b""))
        raise HTTPException(413)

    return counted


def _internal(request_id: str) -> JSONResponse:
    refused = Refused("internal", "the platform failed at this request", hint="its log tells more, by the request id")
    return JSONResponse(refused.body(request_id).wire(), status_code=refused.status)


def _told(scope: Scope, answer: _Answer, seconds: float) -> None:
    quiet = scope["path"] == "/healthz" or scope["path"].startswith("/internal/")
    fields: dict[str, Any] = {"method": scope["method"], "path": _path(scope), "status": answer.status}
    fields |= {"ms": round(seconds * 1000, 1), "request_id": answer.request_id, "key_id": scope["state"].get("key_id")}
    (_log.debug if quiet else _log.info)("request", **fields)


def _path(scope: Scope) -> str:
    return _KEY_IN_PATH.sub("seq_live_…", scope["path"])
