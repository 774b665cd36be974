"""The worker's door: `/act`, `/act/episode_end`, `/ping`, each opened by the worker's secret."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from runner.errors import Refused
from runner.worker import refusals
from runner.worker.parse import read_body
from runner.worker.service import REQUEST_ID, Answer, Asked, Service, refusal
from seq.contract import codec

MAX_BODY_BYTES = 4 << 30

Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(service: Service) -> Starlette:
    """The application over one service; every answer that is not a success is an error body, in JSON."""

    async def act(request: Request) -> Response:
        began = time.perf_counter()
        encoding = _encoding(request)
        raw = await _body(request)
        asked = Asked(raw, encoding, request.headers.get(REQUEST_ID), began, time.perf_counter())
        return _response(await service.act(asked))

    async def episode_end(request: Request) -> Response:
        encoding = _encoding(request)
        service.end_episode(read_body(await _body(request), encoding).get("episode_id"))
        return _json(200, {})

    async def ping(_request: Request) -> Response:
        return _json(200, service.ping().wire())

    routes = [
        Route("/act", _door(service, act), methods=["POST"]),
        Route("/act/episode_end", _door(service, episode_end), methods=["POST"]),
        Route("/ping", _door(service, ping), methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _broken})
    app.router.redirect_slashes = False
    return app


def _door(service: Service, endpoint: Endpoint) -> Endpoint:
    async def guarded(request: Request) -> Response:
        try:
            _admit(request, service.secret)
            return await endpoint(request)
        except Refused as refused:
            return _response(refusal(refused, request.headers.get(REQUEST_ID)))
        except ClientDisconnect:
            return Response(status_code=400)

    return guarded


def _admit(request: Request, secret: str) -> None:
    """Refuse whoever does not hold the secret."""
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), secret.encode()):
        raise Refused("unauthenticated", "this worker is opened by the secret that connect handed out")


def _encoding(request: Request) -> str:
    """What the body is written in, by its content type; without one it is JSON."""
    packed = request.headers.get("Content-Encoding", "identity")
    if packed != "identity":
        raise Refused("invalid_request", f"the body is packed as {packed[:40]!r}; send it as it is")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    for encoding, known in codec.CONTENT_TYPES.items():
        if kind in (known, "" if encoding == codec.JSON else known):
            return encoding
    known = " or ".join(codec.CONTENT_TYPES.values())
    raise Refused("invalid_request", f"the body's content type is {kind[:80]!r}; a worker reads {known}")


async def _body(request: Request) -> bytes:
    told = request.headers.get("Content-Length", "")
    if told.isdecimal() and int(told[:20]) > MAX_BODY_BYTES:
        raise Refused("payload_too_large", "the body is over 4 GiB")
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise Refused("payload_too_large", "the body is over 4 GiB")
        parts.append(part)
    return b"".join(parts)


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, answer.headers, codec.CONTENT_TYPES[answer.encoding])


def _json(status: int, body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), status, media_type=codec.CONTENT_TYPES[codec.JSON])


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path, wrong method) in the one error shape, with their own status."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = "not_found" if status == 404 else "invalid_request"
    told = Refused(code, f"a worker has no {request.method} {request.url.path}").body().wire()
    return _json(status, told)


async def _broken(_request: Request, error: Exception) -> Response:
    return _json(500, refusals.broken(error).body().wire())
