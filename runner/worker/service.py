"""What is behind the worker's door: requests to the copies, each run once, each answer timed."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.errors import Refused
from runner.worker import refusals
from runner.worker.calls import Call
from runner.worker.parse import Declared, parse, read_body
from runner.worker.pool import CopyDiedError, Pool, Ran
from runner.worker.repeat import Key, Repeats, content_of
from runner.worker.tally import Counted
from seq.contract import codec
from seq.contract.internal import GroupMember, WorkerPing, WorkerStart

REQUEST_ID = "X-Seq-Request-Id"
MOST_KEPT = 4096  # more than can be under way: what is forgotten could run twice


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
    """One request on its way: `begun` once a copy works on it, or it ended before. It goes on whoever still waits."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    begun_at: float = field(default_factory=time.perf_counter)
    task: asyncio.Task[Answer] | None = None

    def begin(self, at: float) -> None:
        """A copy works on it since then (`time.perf_counter`)."""
        self.begun_at = at
        self.begun.set()


class Service:
    """Asks the copies, in order of arrival; `acts` counts inferences, `errors` failed ones.

    A request id runs at most once here: what a repeat is answered with is kept, also where its copy died in the middle
    of it. Only what was refused before a copy could begin may be asked again under the same id. `beside` tells of the
    acts that did not come to the door.
    """

    def __init__(self, start: WorkerStart, pool: Pool, declared: Declared, limit_s: float | None = None) -> None:
        self.secret = start.secret
        self._start = start
        self._pool = pool
        self._declared = declared
        self._limit_s = start.timeouts.request if limit_s is None else limit_s
        self._repeats: Repeats[Run] = Repeats(MOST_KEPT)
        self._used = time.monotonic()
        self.machines: Callable[[], list[GroupMember] | None] = lambda: None
        self.beside: Callable[[], Counted] = Counted
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
        if isinstance(episode_id, str):
            self._pool.end_episode(episode_id)

    def ping(self) -> WorkerPing:
        """This process and what it counted."""
        beside = self.beside()
        busy = self.busy + beside.busy
        return WorkerPing(
            pid=os.getpid(),
            acts=self.acts + beside.acts,
            errors=self.errors + beside.errors,
            busy=busy,
            copies=self._pool.serving,
            restarts=self._pool.restarts,
            idle_s=0.0 if busy else max(0.0, time.monotonic() - max(self._used, beside.used)),
            status="draining" if self.draining else "ready",
            group=self.machines(),
        )

    def _begin(self, asked: Asked, body: dict[str, Any], key: Key | None) -> Run:
        if self.draining:  # a repeat of what runs or ran here is still answered
            raise refusals.ending()
        episode_id = body.get("episode_id")
        if isinstance(episode_id, str) and self._pool.take_lost(episode_id):
            raise _state_lost()
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
            raise refusals.too_long(self._limit_s, ended=False)
        return run.task.result()

    async def _run(self, run: Run, asked: Asked, body: dict[str, Any]) -> Answer:
        request_id = asked.request_id or f"r-{secrets.token_hex(4)}"
        self.busy += 1
        try:
            call = Call(parse(body, self._declared, self._start.params), request_id, asked.encoding)
            parsed = time.perf_counter()
            ran = await self._pool.run(call, run.begin)
            self.acts += 1
            return self._answer(asked, request_id, parsed, ran)
        except CopyDiedError as died:
            return refusal(_died(died), request_id)
        except Refused as refused:
            self.errors += refused.code == "policy_error"
            return refusal(refused, request_id)
        finally:
            run.begun.set()
            self.busy -= 1
            self._used = time.monotonic()

    def _answer(self, asked: Asked, request_id: str, parsed: float, ran: Ran) -> Answer:
        """The copy's answer with its timings. Raises Refused with the policy's words where it has none."""
        done = ran.done
        if done.refused is not None:
            raise Refused("policy_error", done.refused, **done.details)
        now = time.perf_counter()
        spent = now - asked.began
        perf_s = {
            "handler_ms": spent,
            "inference_ms": done.inference_s,
            "inference_cpu_ms": done.inference_cpu_s,
            "queue_ms": ran.begun - parsed,
            "read_ms": asked.read - asked.began,
            "parse_ms": parsed - asked.read,
            "answer_ms": done.answer_s + now - ran.ended,
            "ipc_ms": ran.ended - ran.begun - done.inference_s - done.answer_s,
            "overhead_ms": spent - done.inference_s - (ran.begun - parsed),
        }
        perf: dict[str, float] = {name: round(seconds * 1000, 3) for name, seconds in perf_s.items()}
        if self._pool.batches:
            perf["batch_size"] = done.batch_size
        members = {**done.members, "perf": codec.dumps(perf, asked.encoding)}
        return Answer(200, codec.joined(members, asked.encoding), {REQUEST_ID: request_id}, asked.encoding)


def _size(task: asyncio.Task[Answer]) -> int:
    return 0 if task.cancelled() or task.exception() is not None else len(task.result().body)


def _died(died: CopyDiedError) -> Refused:
    return Refused(
        "unavailable",
        f"the model copy that ran this act {died}; another takes the next act, this one is not run again",
        retry_after_s=1,
        reason="crashed",
    )


def _state_lost() -> Refused:
    return Refused(
        "unavailable",
        "the model copy that held this episode's state died; connect again, and the episode begins anew",
        retry_after_s=1,
        reason="draining",
    )


def refusal(refused: Refused, request_id: str | None) -> Answer:
    """A refusal as an answer; without an id where none was asked under."""
    headers = {} if request_id is None else {REQUEST_ID: request_id}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = f"{refused.retry_after_s:g}"
    return Answer(refused.status, refusals.written(refused, request_id), headers)
