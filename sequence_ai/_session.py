"""A robot's session: the connect answer, its lease, and what is done when a worker stops answering."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from sequence_ai import _wire
from sequence_ai._codec import JSON
from sequence_ai._contract import check_expected
from sequence_ai._episode import Episode
from sequence_ai._errors import AuthError, SequencesError, Unavailable, Unreachable, said_as
from sequence_ai._transport import Edge, Link, LinkClosedError
from sequence_ai._wire import ConnectAnswer

_log = logging.getLogger("sequence_ai")

_RECONNECTS_AN_ACT = 5
_CRASHES_AN_ACT = 2  # an act that kills whoever runs it must not take every copy from the other robots
_RECONNECT_FIRST_S, _RECONNECT_MOST_S = 0.1, 2.0
_BUSY_FIRST_S, _BUSY_DOUBLINGS = 0.05, 10
_RENEWAL_PAUSE_S = 5.0
_MOVE_TIMEOUT_S, _MOVE_PATIENCE = 1.0, 60.0
# While a robot moves, the gateway is no reason to wait for long.
_GATEWAY_TIMEOUT_S = 5.0
_RELEASE_TIMEOUT_S = 5.0
_EPISODE_END_TIMEOUT_S = 2.0  # the arm is held by now, but whoever called waits


@dataclass(frozen=True)
class SessionOptions:
    """What `connect` was told about the policy it wants. `timeout_s` bounds one request."""

    model: str
    timeout_s: float = 30.0
    embodiment: str | None = None
    expect: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Patience:
    """How long an act may take: `attempt_s` for the first request, twice as long for each after one that timed out.

    `within_s` bounds all of them together; None lets each have `attempt_s`, until the reconnects are used up.
    """

    attempt_s: float
    within_s: float | None = None

    def for_attempt(self, number: int, passed_s: float) -> float:
        """The limit of attempt `number`, counted from 0, begun `passed_s` after the first. At most 0: none is left."""
        if self.within_s is None:
            return self.attempt_s
        return min(self.attempt_s * 2.0**number, self.within_s - passed_s)


@dataclass(frozen=True)
class ActAnswer:
    """A worker's answer, the request id it was asked under, and how long that request took."""

    body: Mapping[str, Any]
    request_id: str
    round_trip_s: float


class _Worker(NamedTuple):
    """A link to one worker under one secret; workers are numbered in the order in which they took over."""

    link: Link
    number: int


class Session:
    """One robot's place at one worker at a time.

    `enter` is for the thread that drives; `act` may run beside it and beside itself, `close` may come from any thread.
    `reopen` gives another link to the gateway, for what is left to say when the handle has closed `gateway`.
    """

    def __init__(self, options: SessionOptions, gateway: Link, reopen: Callable[[], Link], edge: Edge) -> None:
        self._options = options
        self._gateway = gateway
        self._reopen = reopen
        self._edge = edge
        self._id = edge.new_id(128)
        self._embodiment = options.embodiment
        self._params = options.params
        self._episode = Episode(None, edge.new_id)
        self._connecting = threading.Lock()
        self._asked = False
        self._hold_s = 0.0
        self._slot_lost: Unavailable | None = None
        self._lease_ends: float | None = None
        self._acted_at = edge.clock.monotonic()
        self._closed = False
        self._renewing = False
        self._move_from = 0.0
        self._renew_at: float | None = None
        self._worker: _Worker | None = None
        self.answer: ConnectAnswer | None = None
        self.encoding = JSON

    @property
    def embodiment(self) -> str | None:
        """The declared body that this session drives."""
        return self._embodiment

    @property
    def must_ask(self) -> bool:
        """Entering an episode now takes a question to the gateway."""
        return self.answer is None or self._may_move()

    def open(self) -> ConnectAnswer:
        """The connect answer; the first call asks the gateway for it."""
        if self.answer is not None:
            return self.answer
        with self._connecting:
            return self.answer or self._connect()

    def enter(self, episode: str | None) -> Episode:
        """The episode of the acts to come (None: none); what the platform changed counts from its beginning on.

        A worker that the platform takes away is left here, where no episode is under way.
        """
        self.open()
        if episode is not None and episode == self._episode.name:
            return self._episode
        self._episode = Episode(episode, self._edge.new_id)
        self._move_if_asked()
        if self.answer is not None and self.answer.params is not None:
            self._params = self.answer.params
        return self._episode

    def act(
        self,
        fields: Mapping[str, Any],
        episode: Episode,
        patience: Patience,
        wanted: Callable[[], bool] = lambda: True,
    ) -> ActAnswer:
        """One act, answered by the worker. Replays keep the request id, so it runs at most once; what a model copy died
        of is asked again once, under another.

        A worker that is busy is asked again; one that is gone is looked for anew, at most five times. Ends early, with
        Unavailable, once it is not `wanted` any more, and where the gateway has given this robot's slot to another.
        """
        self.open()
        self._renew_if_due()
        self._check_slot()
        request_id = f"r-{self._edge.new_id(32)}"
        began = self._acted_at = self._edge.clock.monotonic()
        replays = _Replays(self._edge, patience, self._options.timeout_s)
        failed: SequencesError | None = None
        while True:
            worker = self._known_worker()
            asked_at = self._edge.clock.monotonic()
            limit = patience.for_attempt(replays.timeouts, asked_at - began)
            if failed is not None and limit <= 0:  # looking for a worker took what time there was
                raise _given_up(failed) from failed
            try:
                body = self._send(worker, fields, episode, request_id, limit)
                return ActAnswer(body, request_id, self._edge.clock.monotonic() - asked_at)
            except LinkClosedError:
                if worker is self._known_worker():  # else a renewal moved on between the two lines above
                    raise
            except (AuthError, Unavailable) as error:
                failed = error
                search = replays.wait(error)
                if not wanted():
                    raise Unavailable("nobody waits for this act any more", code="unavailable") from error
                if search:
                    self._replace(worker, error)
                if _crashed(error):  # under its own id it would never run again
                    request_id = f"r-{self._edge.new_id(32)}"
                if (_crashed(error) or _drained(error)) and worker is self._known_worker():
                    episode.forgotten()

    def end_episode(self, episode: Episode) -> None:
        """Tell the worker that an episode is over (best effort): what its policy remembers of it can go."""
        worker, name = self._worker, episode.last_id
        if worker is None or name is None or not episode.begun:
            return
        try:
            worker.link.call("POST", "/act/episode_end", body={"episode_id": name}, timeout_s=_EPISODE_END_TIMEOUT_S)
        except SequencesError as error:
            _log.info("the end of episode %s was not told (%s): the worker ends it when it stays idle", name, error)

    def close(self) -> None:
        """Give the slot, or the place in line, back (best effort), and close every connection."""
        self._closed = True
        try:
            if self._asked:
                self._release(self._gateway)
        finally:
            if self._worker is not None:
                self._worker.link.close()

    def _release(self, gateway: Link) -> None:
        body = {"model": self._options.model, "session": self._id}
        try:
            gateway.call("POST", "/v1/act/release", body=body, timeout_s=_RELEASE_TIMEOUT_S)
        except SequencesError as error:
            _log.info("the slot of %s was not given back (%s): its lease ends it", self._options.model, error)

    def _known_worker(self) -> _Worker:
        if self._closed or self._worker is None:  # closed from another thread, in the middle of an act
            raise closed(self._options.model)
        return self._worker

    def _send(
        self, worker: _Worker, fields: Mapping[str, Any], episode: Episode, request_id: str, limit_s: float
    ) -> Mapping[str, Any]:
        body = {"model": self._options.model, **fields}
        name = episode.id_at(worker.number)
        if name is not None:
            body["episode_id"] = name
        if self._embodiment is not None:
            body.setdefault("embodiment", self._embodiment)
        if self._params:
            body.setdefault("params", dict(self._params))
        answer = worker.link.call("POST", "/act", body=body, timeout_s=limit_s, request_id=request_id)
        episode.begun = True
        return answer.body

    def _connect(self, *, timeout_s: float | None = None, move: bool = False) -> ConnectAnswer:
        """Ask the gateway; the caller holds `_connecting`."""
        if self._was_closed():  # no slot may be taken again
            raise closed(self._options.model)
        self._asked = True
        within_s = self._options.timeout_s if timeout_s is None else timeout_s
        body = _wire.connect_body(
            self._options.model,
            self._id,
            embodiment=self._embodiment,
            params=self._options.params,
            move=move,
            wait_s=min(self._hold_s, within_s / 2),
        )
        asked_at = self._edge.clock.monotonic()
        try:
            told = self._gateway.resend_if_dropped("POST", "/v1/act/connect", body=body, timeout_s=within_s)
        except Unavailable as error:
            self._hold_s = error.holds_s
            raise
        self._hold_s = 0.0
        answer = _wire.read_connect(told.body)
        if self._was_closed():  # while the gateway thought about it: what it gave goes back
            link = self._reopen()  # the handle's own link to the gateway is closed by now
            self._release(link)
            link.close()
            raise closed(self._options.model)
        self._adopt(answer, asked_at)
        return answer

    def _was_closed(self) -> bool:
        return self._closed

    def _adopt(self, answer: ConnectAnswer, asked_at: float) -> None:
        before, worker = self.answer, self._worker
        if before is None or worker is None or not before.same_worker(answer):
            number = 0 if worker is None else worker.number + 1
            self._worker = _Worker(self._link(answer), number)  # raises before anything is changed
            if worker is not None:
                worker.link.close()
        self.answer = answer
        if answer.embodiment is not None:
            self._embodiment = answer.embodiment
        # Half of the lease is left for trying again, should the gateway not answer at once.
        self._renew_at = asked_at + answer.lease_s / 2 if answer.lease_s > 0 else None
        self._lease_ends = asked_at + answer.lease_s if answer.lease_s > 0 else None

    def _link(self, answer: ConnectAnswer) -> Link:
        if self._options.expect:
            check_expected(self._options.expect, answer.action, self._options.model)
        self.encoding = _wire.best_encoding(answer)
        return self._edge.open(answer.worker_url, answer.secret, answer.fingerprint, self.encoding)

    def _may_move(self) -> bool:
        asked_to = self.answer is not None and self.answer.rotate
        return asked_to and self._edge.clock.monotonic() >= self._move_from

    def _move_if_asked(self) -> None:
        if not self._may_move():
            return
        asked_at = self._edge.clock.monotonic()
        self._renew(timeout_s=_MOVE_TIMEOUT_S, move=True)
        # A gateway that took its time is not asked again soon: a robot may be waiting for each of these.
        now = self._edge.clock.monotonic()
        self._move_from = now + max(_RENEWAL_PAUSE_S, _MOVE_PATIENCE * (now - asked_at))

    def _renew_if_due(self) -> None:
        """Renew the lease beside the act, from half of it on: a gateway that does not answer delays no robot.

        Only acts renew, so the slot of a robot that does nothing is given to another in time. One that rested until its
        lease had ended asks before it acts: by then another may drive there.
        """
        now = self._edge.clock.monotonic()
        if self._renewing or self._renew_at is None or now < self._renew_at:
            return
        if self._rested(now):
            self._renew(timeout_s=_GATEWAY_TIMEOUT_S)
            return
        self._renewing = True
        try:
            self._edge.clock.later(0, self._renew_beside)
        except RuntimeError as error:  # no thread is to be had: the act matters more
            self._renewing = False
            self._put_off(error)

    def _rested(self, now: float) -> bool:
        if self.answer is None or self._lease_ends is None:
            return False
        return now >= self._lease_ends and now - self._acted_at >= self.answer.lease_s / 2

    def _check_slot(self) -> None:
        """Raise once what the gateway said of a lease that had run out: another robot may drive there by now."""
        lost, self._slot_lost = self._slot_lost, None
        if lost is not None:
            self.answer = None  # whoever goes on has to ask for a slot first
            raise said_as(lost, f"this robot's lease ended unrenewed, and its slot is gone: {lost.message}")

    def _renew_beside(self) -> None:
        try:
            self._renew(timeout_s=_GATEWAY_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001  nobody else would hear of it, and every act would try again
            self._put_off(error)
        finally:
            self._renewing = False

    def _put_off(self, error: Exception, seconds: float = 0.0) -> None:
        self._renew_at = self._edge.clock.monotonic() + max(_RENEWAL_PAUSE_S, seconds)
        _log.warning("the lease of %s was not renewed (%s): acting on", self._options.model, error)

    def _renew(self, *, timeout_s: float, move: bool = False) -> None:
        """A renewal that fails fails no act, unless it says, after the lease has ended, that the slot is gone."""
        try:
            with self._connecting:
                self._connect(timeout_s=min(self._options.timeout_s, timeout_s), move=move)
        except SequencesError as error:
            ended = self._lease_ends is not None and self._edge.clock.monotonic() >= self._lease_ends
            if ended and isinstance(error, Unavailable) and (error.queued or error.warming):
                self._slot_lost = error
            elif move:
                _log.warning(
                    "%s asked to be left, and its gateway did not say for whom (%s)", self._options.model, error
                )
            else:
                self._put_off(error, error.retry_after_s or 0.0)

    def _replace(self, lost: _Worker, cause: SequencesError) -> None:
        """A worker for the act in hand. With no gateway to ask, the worker that is known may still come back."""
        with self._connecting:
            if self._worker is not lost:  # another act found the way meanwhile
                return
            unreachable = isinstance(cause, Unreachable)
            most_s = _GATEWAY_TIMEOUT_S if unreachable else self._options.timeout_s
            try:
                self._connect(timeout_s=min(self._options.timeout_s, most_s))
            except Unreachable as gateway:
                if not unreachable:
                    raise
                _log.info("the gateway does not answer either (%s): asking the worker that is known again", gateway)
            except Unavailable as none:
                raise said_as(none, f"the worker is lost ({cause.message}), and {none.message}") from cause


class _Replays:
    """Whether an act that failed is sent again, and how: the recovery table of one act."""

    def __init__(self, edge: Edge, patience: Patience, busy_s: float) -> None:
        self._clock = edge.clock
        self._chance = edge.chance
        self._patience = patience
        self._began = edge.clock.monotonic()
        self._busy_s = busy_s
        self._busy = 0
        self._reconnects = 0
        self._crashes = 0
        self.timeouts = 0

    def wait(self, error: SequencesError) -> bool:
        """Wait as the error asks for; True when a worker must be asked for first. Raises the error when it is final."""
        if error.code == "busy":
            self._wait_for_a_turn(error)
            return False
        if not (_drained(error) or _crashed(error) or isinstance(error, (AuthError, Unreachable))):
            raise error
        self._crashes += _crashed(error)
        if self._crashes == _CRASHES_AN_ACT:
            raise said_as(error, f"{_CRASHES_AN_ACT} model copies died of this act: {error.message}") from error
        if self._reconnects == _RECONNECTS_AN_ACT:
            raise _given_up(error) from error
        self._reconnects += 1
        self.timeouts += error.code == "timeout"
        pause = 0.0
        if not isinstance(error, AuthError):
            pause = min(_RECONNECT_FIRST_S * 2 ** (self._reconnects - 1), _RECONNECT_MOST_S)
        self._sleep(pause, error)
        return not _crashed(error)

    def _wait_for_a_turn(self, error: SequencesError) -> None:
        growing = _BUSY_FIRST_S * 2 ** min(self._busy, _BUSY_DOUBLINGS)
        most = max(_BUSY_FIRST_S, min(error.retry_after_s or 1, growing))
        pause = most * self._chance.uniform(0.5, 1.0)
        if self._passed_s() + pause > self._busy_s:
            raise error
        self._busy += 1
        self._sleep(pause, error)

    def _sleep(self, seconds: float, error: SequencesError) -> None:
        if self._patience.for_attempt(self.timeouts, self._passed_s() + seconds) <= 0:
            raise _given_up(error) from error
        if seconds > 0:
            self._clock.sleep(seconds)

    def _passed_s(self) -> float:
        return self._clock.monotonic() - self._began


def _crashed(error: SequencesError) -> bool:
    """The model copy that ran the act died in it, and the worker has others."""
    return error.details.get("reason") == "crashed"


def _drained(error: SequencesError) -> bool:
    """The worker is leaving, or has lost what it remembered of the episode."""
    return error.details.get("reason") == "draining"


def _given_up(error: SequencesError) -> SequencesError:
    if isinstance(error, Unreachable):
        return Unavailable(f"worker unreachable: {error.message}", code="unavailable", retryable=True)
    return error


def closed(model: str) -> SequencesError:
    """What every use of a closed handle is answered with."""
    return SequencesError(f"this handle of {model} is closed: connect again", code="internal")
