"""The worker's door: `/act`, `/act/episode_end`, `/ping`, each opened by the worker's secret."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from runner.errors import Refused
from runner.worker.answer import Outcome, outcome
from runner.worker.check import ChunkError
from runner.worker.copy import Copy, Inferred
from runner.worker.episodes import Episodes
from runner.worker.parse import Act, Declared, parse, read_body
from runner.worker.repeat import Repeats
from runner.worker.trace import frames
from seq.contract import codec
from seq.contract.internal import WorkerPing, WorkerStart

REQUEST_ID = "X-Seq-Request-Id"
MAX_BODY_BYTES = 4 << 30
_JSON = "application/json"

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Answer:
    """A finished answer, kept for a repeat of its request."""

    status: int
    body: bytes
    headers: dict[str, str]


@dataclass
class Run:
    """One request on its way: `begun` once the copy works on it. Its task goes on whoever still waits for it."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Answer] | None = None


class Service:
    """Asks the one copy, one request at a time in order of arrival; `acts` counts inferences, `errors` failed ones."""

    def __init__(self, start: WorkerStart, copy: Copy, declared: Declared, limit_s: float | None = None) -> None:
        self._start = start
        self._copy = copy
        self._declared = declared
        self._limit_s = start.timeouts.request if limit_s is None else limit_s
        self._free = asyncio.Lock()
        self._repeats: Repeats[Run] = Repeats()
        self._episodes = Episodes()
        self._used = time.monotonic()
        self.draining = False
        self.busy = 0
        self.acts = 0
        self.errors = 0

    async def act(self, request: Request) -> Response:
        """`POST /act`: the chunk for one observation."""
        began = time.perf_counter()
        request_id = request.headers.get(REQUEST_ID)
        if self.draining:
            raise Refused("unavailable", "this worker is ending; connect again", retry_after_s=1, reason="draining")
        raw = await _body(request)
        run = self._repeats.once(request_id, raw, lambda: self._begin(raw, request_id, began))
        answer = await self._finished(run)
        return Response(answer.body, answer.status, answer.headers, _JSON)

    async def episode_end(self, request: Request) -> Response:
        """`POST /act/episode_end`: free what the policy keeps for an episode; unknown ones are no error."""
        episode_id = read_body(await _body(request)).get("episode_id")
        if isinstance(episode_id, str) and self._episodes.end(episode_id):
            self._copy.on_episode(episode_id)
        return _json(200, {})

    async def ping(self, _request: Request) -> Response:
        """`GET /ping`: this process and what it counted."""
        idle = 0.0 if self.busy else time.monotonic() - self._used
        status = "draining" if self.draining else "ready"
        told = WorkerPing(
            pid=os.getpid(), acts=self.acts, errors=self.errors, busy=self.busy, idle_s=idle, status=status
        )
        return _json(200, told.wire())

    def admit(self, request: Request) -> None:
        """Refuse whoever does not hold the secret."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._start.secret.encode()):
            raise Refused("unauthenticated", "this worker is opened by the secret that connect handed out")

    def _begin(self, raw: bytes, request_id: str | None, began: float) -> Run:
        run = Run()
        run.task = asyncio.get_running_loop().create_task(self._run(run, raw, request_id, began))
        return run

    async def _finished(self, run: Run) -> Answer:
        """The run's answer; refused with `timeout` when the copy has worked on it for too long, and still does."""
        if run.task is None:
            raise RuntimeError("a run without its task")
        begun = asyncio.ensure_future(run.begun.wait())
        await asyncio.wait({run.task, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        done, _ = await asyncio.wait({run.task}, timeout=self._limit_s)
        if not done:
            raise Refused("timeout", f"infer took over {self._limit_s:g} s (timeouts.request); it is still running")
        return run.task.result()

    async def _run(self, run: Run, raw: bytes, request_id: str | None, began: float) -> Answer:
        request_id = request_id or f"r-{secrets.token_hex(4)}"
        self.busy += 1
        try:
            body = await self._infer(run, parse(read_body(raw), self._declared, self._start.params), request_id, began)
            return Answer(200, body, {REQUEST_ID: request_id})
        except Refused as refused:
            self.errors += refused.code == "policy_error"
            return _refusal(refused, request_id)
        finally:
            self.busy -= 1
            self._used = time.monotonic()

    async def _infer(self, run: Run, act: Act, request_id: str, began: float) -> bytes:
        for stale in self._episodes.seen(act.episode_id, time.monotonic()):
            self._copy.on_episode(stale)
        waiting = time.perf_counter()
        async with self._free:
            queued = time.perf_counter() - waiting
            run.begun.set()
            inferred = await asyncio.wrap_future(self._copy.infer(act.observation, act.keywords))
        self.acts += 1
        made = _outcome(act, inferred, self._start.code_dir)
        perf = {
            "handler_ms": (time.perf_counter() - began) * 1000,
            "inference_ms": inferred.inference_ms,
            "inference_cpu_ms": inferred.inference_cpu_ms,
            "queue_ms": queued * 1000,
        }
        return _act_body(act, made, request_id, {name: round(value, 3) for name, value in perf.items()})


def create_app(service: Service) -> Starlette:
    """The application over one service; every answer that is not a success is an error body."""
    routes = [
        Route("/act", _door(service, service.act), methods=["POST"]),
        Route("/act/episode_end", _door(service, service.episode_end), methods=["POST"]),
        Route("/ping", _door(service, service.ping), methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _broken})
    app.router.redirect_slashes = False
    return app


def _door(service: Service, endpoint: Endpoint) -> Endpoint:
    async def guarded(request: Request) -> Response:
        try:
            service.admit(request)
            return await endpoint(request)
        except Refused as refused:
            answer = _refusal(refused, request.headers.get(REQUEST_ID))
            return Response(answer.body, answer.status, answer.headers, _JSON)
        except ClientDisconnect:
            return Response(status_code=400)

    return guarded


async def _body(request: Request) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > MAX_BODY_BYTES:
            raise Refused("payload_too_large", "the body is over 4 GiB")
    return bytes(parts)


def _outcome(act: Act, inferred: Inferred, code_dir: str) -> Outcome:
    """The policy's answer; refused with its own words when it raised, or returned what must not be played."""
    if inferred.error is not None:
        raise _policy_error(inferred.error, code_dir)
    try:
        return outcome(act, inferred.value)
    except ChunkError as wrong:
        reason: dict[str, Any] = {} if wrong.reason is None else {"reason": wrong.reason}
        raise Refused("policy_error", str(wrong), **reason) from None


def _policy_error(error: BaseException, code_dir: str) -> Refused:
    kind, message = type(error).__name__, str(error)
    told = {"type": kind, "message": message, "traceback": frames(error, code_dir)}
    return Refused("policy_error", f"the policy raised {kind}: {message}", exception=told)


def _act_body(act: Act, made: Outcome, request_id: str, perf: dict[str, float]) -> bytes:
    body: dict[str, Any] = {
        "id": request_id,
        "request_id": request_id,
        "object": "act.response",
        "created": int(time.time()),
        "outputs": made.outputs,
        "perf": perf,
    }
    if act.model is not None:
        body["model"] = act.model
    if made.action_chunk is not None:
        body["action_chunk"] = made.action_chunk
    if made.warnings:
        body["warnings"] = made.warnings
    try:
        return codec.dumps(body)
    except (TypeError, ValueError) as wrong:
        raise Refused("policy_error", f"what infer returned cannot be sent: {wrong}") from None


def _refusal(refused: Refused, request_id: str | None) -> Answer:
    headers = {} if request_id is None else {REQUEST_ID: request_id}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = f"{refused.retry_after_s:g}"
    body = json.dumps(refused.body(request_id).wire(), default=str).encode()
    return Answer(refused.status, body, headers)


def _json(status: int, body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), status, media_type=_JSON)


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path, wrong method) in the one error shape, with their own status."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = "not_found" if status == 404 else "invalid_request"
    told = Refused(code, f"a worker has no {request.method} {request.url.path}").body().wire()
    return _json(status, told)


async def _broken(_request: Request, error: Exception) -> Response:
    return _json(500, Refused("internal", f"the worker itself failed: {type(error).__name__}").body().wire())
