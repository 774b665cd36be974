"""What is behind the worker's door: requests to the one copy, each run once, each answer timed."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from runner.errors import Refused
from runner.worker.answer import Outcome, outcome
from runner.worker.check import ChunkError
from runner.worker.copy import Copy, Inferred
from runner.worker.episodes import Episodes
from runner.worker.parse import Act, Declared, parse, read_body
from runner.worker.repeat import Key, Repeats, content_of
from runner.worker.trace import frames, message
from seq.contract import codec
from seq.contract.internal import WorkerPing, WorkerStart

REQUEST_ID = "X-Seq-Request-Id"


@dataclass(frozen=True)
class Asked:
    """One `POST /act` as it arrived; `began` and `read` are when its head and all of it were there, in s."""

    raw: bytes
    encoding: str
    request_id: str | None
    began: float
    read: float


@dataclass(frozen=True)
class Answer:
    """A finished answer, kept for a repeat of its request. A refusal is JSON whatever was asked in."""

    status: int
    body: bytes
    headers: dict[str, str]
    encoding: str = codec.JSON

    def written_in(self, encoding: str) -> Answer:
        """This answer for a repeat that came in another encoding than the request it repeats."""
        if self.status != 200 or encoding == self.encoding:
            return self
        value = codec.decode(codec.parse(self.body, self.encoding))
        return Answer(self.status, codec.dumps(value, encoding), self.headers, encoding)


@dataclass
class Run:
    """One request on its way: `begun` once the copy works on it, or it ended before. It goes on whoever still waits."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    begun_at: float = field(default_factory=time.perf_counter)
    task: asyncio.Task[Answer] | None = None


class Service:
    """Asks the one copy, one request at a time in order of arrival; `acts` counts inferences, `errors` failed ones."""

    def __init__(self, start: WorkerStart, copy: Copy, declared: Declared, limit_s: float | None = None) -> None:
        self.secret = start.secret
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

    async def act(self, asked: Asked) -> Answer:
        """The answer to one act, which runs on should nobody wait for it any more. Raises Refused."""
        body = read_body(asked.raw, asked.encoding)
        key = None if asked.request_id is None else (asked.request_id, content_of(body))
        run = self._repeats.once(key, lambda: self._begin(asked, body, key))
        return (await self._finished(run)).written_in(asked.encoding)

    def end_episode(self, episode_id: Any) -> None:
        """Free what the policy keeps for an episode; an unknown one is no error."""
        if isinstance(episode_id, str) and self._episodes.end(episode_id):
            self._copy.on_episode(episode_id)

    def ping(self) -> WorkerPing:
        """This process and what it counted."""
        idle = 0.0 if self.busy else time.monotonic() - self._used
        status = "draining" if self.draining else "ready"
        return WorkerPing(
            pid=os.getpid(), acts=self.acts, errors=self.errors, busy=self.busy, idle_s=idle, status=status
        )

    def _begin(self, asked: Asked, body: dict[str, Any], key: Key | None) -> Run:
        if self.draining:  # a repeat of what runs or ran here is still answered
            raise Refused("unavailable", "this worker is ending; connect again", retry_after_s=1, reason="draining")
        run = Run()
        run.task = asyncio.get_running_loop().create_task(self._run(run, asked, body))
        run.task.add_done_callback(lambda task: self._repeats.answered(key, _size(task)))
        return run

    async def _finished(self, run: Run) -> Answer:
        """The run's answer; refused with `timeout` when the copy has worked on it for too long, and still does."""
        if run.task is None:
            raise RuntimeError("a run without its task")
        await run.begun.wait()
        left_s = self._limit_s - (time.perf_counter() - run.begun_at)  # a repeat waits no longer than the first
        done, _ = await asyncio.wait({run.task}, timeout=max(0.0, left_s))
        if not done:
            raise Refused("timeout", f"infer took over {self._limit_s:g} s (timeouts.request); it is still running")
        return run.task.result()

    async def _run(self, run: Run, asked: Asked, body: dict[str, Any]) -> Answer:
        request_id = asked.request_id or f"r-{secrets.token_hex(4)}"
        self.busy += 1
        try:
            act = parse(body, self._declared, self._start.params)
            return Answer(200, await self._infer(run, act, asked, request_id), {REQUEST_ID: request_id}, asked.encoding)
        except Refused as refused:
            self.errors += refused.code == "policy_error"
            return refusal(refused, request_id)
        finally:
            run.begun.set()
            self.busy -= 1
            self._used = time.monotonic()

    async def _infer(self, run: Run, act: Act, asked: Asked, request_id: str) -> bytes:
        parsed = time.perf_counter()
        for stale in self._episodes.seen(act.episode_id, time.monotonic()):
            self._copy.on_episode(stale)
        async with self._free:
            begun = run.begun_at = time.perf_counter()
            run.begun.set()
            inferred = await asyncio.wrap_future(self._copy.infer(act.observation, act.keywords))
            ended = time.perf_counter()
            self.acts += 1
            # written before the copy goes on: what it returned may be a buffer that the next call fills anew
            made = _outcome(act, inferred, self._start.code_dir)
            members = _members(act, made, request_id, asked.encoding, self._start.code_dir)
        now = time.perf_counter()
        perf = {
            "handler_ms": now - asked.began,
            "inference_ms": inferred.inference_s,
            "inference_cpu_ms": inferred.inference_cpu_s,
            "queue_ms": begun - parsed,
            "read_ms": asked.read - asked.began,
            "parse_ms": parsed - asked.read,
            "answer_ms": now - ended,
            "overhead_ms": now - asked.began - inferred.inference_s - (begun - parsed),
        }
        members["perf"] = codec.dumps({name: round(spent * 1000, 3) for name, spent in perf.items()}, asked.encoding)
        return codec.joined(members, asked.encoding)


def _size(task: asyncio.Task[Answer]) -> int:
    return 0 if task.cancelled() or task.exception() is not None else len(task.result().body)


def refusal(refused: Refused, request_id: str | None) -> Answer:
    """A refusal as an answer; without an id where none was asked under."""
    headers = {} if request_id is None else {REQUEST_ID: request_id}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = f"{refused.retry_after_s:g}"
    return Answer(refused.status, json.dumps(refused.body(request_id).wire(), default=str).encode(), headers)


def _outcome(act: Act, inferred: Inferred, code_dir: str) -> Outcome:
    """The policy's answer; refused with its own words when it raised, or returned what must not be played."""
    if inferred.error is not None:
        raise _policy_error(inferred.error, code_dir)
    try:
        return outcome(act, inferred.value)
    except ChunkError as wrong:
        reason: dict[str, Any] = {} if wrong.reason is None else {"reason": wrong.reason}
        raise Refused("policy_error", str(wrong), **reason) from None
    except RecursionError:
        raise Refused("policy_error", "what infer returned nests too deeply, or holds itself") from None
    except BaseException as raised:  # noqa: BLE001  a property of what it returned: the policy's own code too
        raise _policy_error(raised, code_dir) from None


def _policy_error(error: BaseException, code_dir: str) -> Refused:
    kind, text = type(error).__name__, message(error)
    told = {"type": kind, "message": text, "traceback": frames(error, code_dir)}
    return Refused("policy_error", f"the policy raised {kind}: {text}", exception=told)


def _members(act: Act, made: Outcome, request_id: str, encoding: str, code_dir: str) -> dict[str, bytes]:
    """The members of an answer but for its timings, each as it will stand in it, so that they can count the writing."""
    body: dict[str, Any] = {
        "id": request_id,
        "request_id": request_id,
        "object": "act.response",
        "created": int(time.time()),
        "outputs": made.outputs,
    }
    if act.model is not None:
        body["model"] = act.model
    if made.warnings:
        body["warnings"] = made.warnings
    try:
        members = {name: codec.dumps(value, encoding) for name, value in body.items()}
        if made.action_chunk is not None:
            same = made.action_chunk is made.outputs
            members["action_chunk"] = members["outputs"] if same else codec.dumps(made.action_chunk, encoding)
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise Refused("policy_error", f"what infer returned cannot be sent: {message(wrong)}") from None
    except BaseException as raised:  # noqa: BLE001  an object of the policy's own, in the middle of being written
        raise _policy_error(raised, code_dir) from None
    return members
