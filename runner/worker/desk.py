"""A copy's own socket: acts of who runs on this machine, in the copy's one thread, between the orders of its door."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from selectors import EVENT_READ, EVENT_WRITE

from runner.errors import Refused
from runner.worker import refusals
from runner.worker.acts import ANSWERED, EPISODE_END, REFUSED, SENT
from runner.worker.assign import Assignment
from runner.worker.batching import Batching
from runner.worker.calls import Call, DeskStart, Done
from runner.worker.connection import Connection, ConnectionLostError
from runner.worker.connections import Connections
from runner.worker.copy import Copy
from runner.worker.line import Line
from runner.worker.parse import Declared, parse, read_body
from runner.worker.tally import Tally
from runner.worker.written import Write, brief, members
from seq.contract import codec

TEND_S = 1.0


@dataclass(slots=True)
class _Asked:
    """An act, or an episode's end (`ended`); `waited_s` is how long it lay in the socket while the copy worked."""

    line: Connection[_Asked]
    read_at: float
    call: Call | None = None
    parsed_at: float = 0.0
    came_at: float = 0.0
    waited_s: float = 0.0
    answer: tuple[bytes, bytes] | None = None
    ended: str | None = None


class Desk:
    """`attend` serves the connections until the door has an order. An act is answered as the door would answer it.

    Every connection's requests are done in their order; acts of several wait in one line, and are gathered for a
    batched policy. Nobody who asks is ever waited for. `forget` is called with each episode that ended.
    """

    def __init__(
        self,
        start: DeskStart,
        door: Line,
        copy: Copy,
        declared: Declared,
        batching: Batching,
        forget: Callable[[str], None],
    ) -> None:
        self._start = start
        self._secret = start.secret.encode()
        self._copy = copy
        self._declared = declared
        self._forget = forget
        self._tally = Tally(start.tally)
        self._lines: Connections[_Asked] = Connections(start.name, door)
        self._acts: Assignment[_Asked] = Assignment(1, batching=batching)
        self._come: list[_Asked] = []
        self._draining = False
        self._turn = (time.monotonic(),) * 2  # when the last one began and ended
        self._tend_at = 0.0

    def attend(self) -> None:
        """Serve until the door has an order; whoever asks, door and connections take turns."""
        ordered = False
        while not ordered:
            ordered = self._hear()
            self._take_turn()

    def run(self, calls: Sequence[Call], write: Write = members) -> list[Done]:
        """The acts of one turn, the door's too; the door sees since when."""
        self._tally.begin()
        began = time.monotonic()
        done = self._copy.run(calls, write)
        self._turn = (began, time.monotonic())
        self._tally.end()
        return done

    def drain(self) -> None:
        """Refuse new acts from now on; those that are here are run."""
        self._draining = True

    def end_all(self) -> None:
        """End every episode that was seen here."""
        for episode_id in self._acts.open():
            self._end(episode_id)

    def close(self) -> None:
        """Close every connection, and listen no more."""
        self._lines.close_all()
        self._tally.close()

    def _hear(self) -> bool:
        """Take in what came, or wait for it until something else is due; whether the door has an order."""
        heard = self._lines.wait(self._patience(), time.monotonic())
        for line, events in heard.ready:
            if not line.closed:
                self._serve(line, events)
        self._line_up()
        now = time.monotonic()
        if now >= self._tend_at:
            self._tend(now)
        return heard.door

    def _line_up(self) -> None:
        """Have what came together wait in the order in which it was sent, which is not that in which it is found."""
        if not self._come:
            return
        for one in sorted(self._come, key=attrgetter("came_at")) if len(self._come) > 1 else self._come:
            if one.call is not None:
                self._acts.arrive(one, one.call.act.episode_id, one.parsed_at)
        self._come.clear()
        self._tally.waits(self._acts.waiting)

    def _patience(self) -> float:
        due = self._acts.due()
        return TEND_S if due is None else max(0.0, min(TEND_S, due - time.monotonic()))

    def _take_turn(self) -> None:
        turn = self._acts.next(time.monotonic())
        if turn is None:
            return
        asked = [one for one in turn.acts if not one.line.closed]  # nobody waits for the others any more
        done = self.run([one.call for one in asked if one.call is not None], brief) if asked else []
        self._acts.finished(0, self._turn[1])
        for one, ran in zip(asked, done, strict=True):
            one.answer = self._answer(one, ran)
        self._tally.ran(len(done), sum(ran.refused is not None for ran in done))
        self._tally.waits(self._acts.waiting)
        for line in {one.line: None for one in asked}:
            self._settle(line)

    def _answer(self, asked: _Asked, done: Done) -> tuple[bytes, bytes]:
        if done.inference_s > self._start.limit_s:
            return _refused(refusals.too_long(self._start.limit_s, ended=True))
        if done.refused is not None:
            return _refused(Refused("policy_error", done.refused, **done.details))
        began, ended = self._turn
        now = time.monotonic()
        spent, queued = now - asked.read_at + asked.waited_s, began - asked.parsed_at + asked.waited_s
        perf: dict[str, float] = {
            "handler_ms": round(spent * 1000, 3),
            "inference_ms": round(done.inference_s * 1000, 3),
            "inference_cpu_ms": round(done.inference_cpu_s * 1000, 3),
            "queue_ms": round(queued * 1000, 3),
            "parse_ms": round((asked.parsed_at - asked.read_at) * 1000, 3),
            "answer_ms": round((done.answer_s + now - ended) * 1000, 3),
            "overhead_ms": round((spent - done.inference_s - queued) * 1000, 3),
        }
        if self._acts.batches:
            perf["batch_size"] = done.batch_size
        parts = {**done.members, "perf": codec.dumps(perf, codec.MSGPACK, plain=True)}
        return ANSWERED, codec.joined(parts, codec.MSGPACK)

    def _serve(self, line: Connection[_Asked], events: int) -> None:
        try:
            if events & EVENT_WRITE:
                line.flush(time.monotonic())
            if events & EVENT_READ:
                for frame in line.frames():
                    self._take(line, frame)
        except (ConnectionLostError, MemoryError):
            self._lines.close(line)
        else:
            self._settle(line)

    def _take(self, line: Connection[_Asked], frame: memoryview) -> None:
        """A frame that came on a line: who it is, an act, or an episode's end. Raises ConnectionLostError."""
        if not line.known:
            if not hmac.compare_digest(frame, self._secret):
                raise ConnectionLostError("another secret")
            line.known = True
            return
        asked = _Asked(line, time.monotonic())
        line.asked.append(asked)
        try:
            self._read(asked, frame)
        except Refused as refused:
            asked.answer = _refused(refused)
        except Exception as failed:  # noqa: BLE001  of our own; the copy goes on
            asked.answer = _refused(refusals.broken(failed))

    def _read(self, asked: _Asked, frame: memoryview) -> None:
        body = read_body(frame, codec.MSGPACK)
        if EPISODE_END in body and len(body) == 1:
            asked.ended = str(body[EPISODE_END])
            return
        if self._draining:
            raise refusals.ending()
        asked.call = Call(parse(body, self._declared, self._start.params), "", codec.MSGPACK)
        asked.parsed_at = time.monotonic()
        began, ended = self._turn
        sent = body.get(SENT)
        asked.came_at = asked.read_at
        if isinstance(sent, (int, float)) and sent < ended:
            asked.came_at = max(sent, began)  # whatever it says: what was there before that turn was read before it
        asked.waited_s = max(0.0, ended - asked.came_at)
        self._come.append(asked)

    def _settle(self, line: Connection[_Asked]) -> None:
        """Answer what can be answered, each after what was asked before it, and watch for what comes next."""
        try:
            while line.asked and self._settled(line.asked[0]):
                line.asked.popleft()
        except ConnectionLostError:
            self._lines.close(line)
        self._lines.watch(line)

    def _settled(self, asked: _Asked) -> bool:
        if asked.ended is not None:
            self._end(asked.ended)
        elif asked.answer is None:
            return False
        else:
            asked.line.send(*asked.answer, time.monotonic())
        return True

    def _end(self, episode_id: str) -> None:
        """An episode is over; one that no act named here is none to tell of."""
        if self._acts.ended(episode_id):
            self._forget(episode_id)

    def _tend(self, now: float) -> None:
        """What is to be seen to now and then."""
        self._tend_at = now + TEND_S
        self._lines.tend(now)
        for episode_id in self._acts.stale(now):
            self._end(episode_id)


def _refused(refused: Refused) -> tuple[bytes, bytes]:
    return REFUSED, refusals.written(refused, f"r-{secrets.token_hex(4)}")
