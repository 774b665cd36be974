"""A robot's session: the connect answer, its lease, and what is done when a worker stops answering."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from sequence_ai import _wire
from sequence_ai._contract import check_expected
from sequence_ai._errors import AuthError, SequencesError, Unavailable, Unreachable
from sequence_ai._transport import Answer, Edge, Link
from sequence_ai._warn import warn_caller
from sequence_ai._wire import ConnectAnswer

_log = logging.getLogger("sequence_ai")

_RECONNECTS_AN_ACT = 5
_RECONNECT_FIRST_S, _RECONNECT_MOST_S = 0.1, 2.0
_BUSY_FIRST_S = 0.05
# A renewal is no reason to keep a robot waiting: it is given little time, and not tried again at once.
_RENEWAL_TIMEOUT_S = 5.0
_RENEWAL_PAUSE_S = 5.0
_RELEASE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class SessionOptions:
    """What `connect` was told about the policy it wants. `timeout_s` bounds a connect and waiting for a busy worker."""

    model: str
    timeout_s: float = 30.0
    embodiment: str | None = None
    expect: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ActAnswer:
    """A worker's answer, and the request id it was asked under."""

    body: Mapping[str, Any]
    request_id: str


class Session:
    """One robot's place at one worker at a time. Driven by one thread; `close` may come from any."""

    def __init__(self, options: SessionOptions, gateway: Link, edge: Edge) -> None:
        self._options = options
        self._gateway = gateway
        self._edge = edge
        self._id = edge.new_id(128)
        self._embodiment = options.embodiment
        self._params = options.params
        self._episode = _Episode()
        self._asked = False
        self._closed = False
        self._move_from = 0.0
        self._renew_at: float | None = None
        self._worker: Link | None = None
        self.answer: ConnectAnswer | None = None

    @property
    def embodiment(self) -> str | None:
        """The declared body that this session drives."""
        return self._embodiment

    def open(self) -> ConnectAnswer:
        """The connect answer; the first call asks the gateway for it."""
        return self.answer or self._connect()

    def act(self, fields: Mapping[str, Any], *, timeout_s: float) -> ActAnswer:
        """One act, answered by the worker within `timeout_s`. Replays keep the request id, so it runs at most once.

        A worker that is busy is asked again; one that is gone is looked for anew, at most five times.
        """
        self.open()
        boundary = self._episode.begin(fields.get("episode_id"))
        if boundary:
            self._take_params()
        self._renew_if_due(boundary)
        request_id = f"r-{self._edge.new_id(32)}"
        replays = _Replays(self._edge, busy_until=self._edge.clock.monotonic() + self._options.timeout_s)
        while True:
            try:
                return ActAnswer(self._send(fields, request_id, timeout_s).body, request_id)
            except (AuthError, Unavailable) as error:
                if replays.wait(error):
                    self._reconnect(error)

    def close(self) -> None:
        """Give the slot, or the place in line, back (best effort), and close every connection."""
        self._closed = True
        if self._asked:
            body = {"model": self._options.model, "session": self._id}
            try:
                self._gateway.call("POST", "/v1/act/release", body=body, timeout_s=_RELEASE_TIMEOUT_S)
            except SequencesError as error:
                _log.info("the slot of %s was not given back (%s): its lease ends it", self._options.model, error)
        if self._worker is not None:
            self._worker.close()

    def _send(self, fields: Mapping[str, Any], request_id: str, timeout_s: float) -> Answer:
        assert self._worker is not None  # noqa: S101  `open` came first
        body = {"model": self._options.model, **fields}
        if self._episode.at_worker is not None:
            body["episode_id"] = self._episode.at_worker
        if self._embodiment is not None:
            body.setdefault("embodiment", self._embodiment)
        if self._params:
            body.setdefault("params", dict(self._params))
        headers = {"X-Seq-Request-Id": request_id}
        answer = self._worker.call("POST", "/act", body=body, headers=headers, timeout_s=timeout_s)
        self._episode.begun = True
        echoed = answer.headers.get("X-Seq-Request-Id", request_id)
        if echoed != request_id:
            warn_caller(f"the worker answered request {echoed} where {request_id} was asked")
        return answer

    def _connect(self, *, timeout_s: float | None = None, move: bool = False) -> ConnectAnswer:
        if self._closed:  # from another thread, in the middle of an act: no slot may be taken again
            raise closed(self._options.model)
        self._asked = True
        body = _wire.connect_body(
            self._options.model, self._id, embodiment=self._embodiment, params=self._options.params, move=move
        )
        asked_at = self._edge.clock.monotonic()
        within_s = self._options.timeout_s if timeout_s is None else timeout_s
        told = self._gateway.resend_if_dropped("POST", "/v1/act/connect", body=body, timeout_s=within_s)
        answer = _wire.read_connect(told.body)
        self._adopt(answer, asked_at)
        return answer

    def _adopt(self, answer: ConnectAnswer, asked_at: float) -> None:
        before = self.answer
        same = before is not None and before.same_worker(answer)
        worker = self._worker if same else self._link(answer)  # raises before anything is changed
        self.answer = answer
        if answer.embodiment is not None:
            self._embodiment = answer.embodiment
        # Half of the lease is left for trying again, should the gateway not answer at once.
        self._renew_at = asked_at + answer.lease_s / 2 if answer.lease_s > 0 else None
        if before is None:
            self._take_params()
        left, self._worker = self._worker, worker
        if left is not None and left is not worker:
            left.close()
            self._episode.move_to_new_worker(self._edge.new_id)

    def _link(self, answer: ConnectAnswer) -> Link:
        if self._options.expect:
            check_expected(self._options.expect, answer.action, self._options.model)
        return self._edge.open(answer.worker_url, answer.secret, answer.fingerprint)

    def _take_params(self) -> None:
        """What the platform changed meanwhile counts from an episode's beginning, never in its middle."""
        if self.answer is not None and self.answer.params is not None:
            self._params = self.answer.params

    def _renew_if_due(self, boundary: bool) -> None:
        """Renew the lease when half of it is over; move where the platform asks for it and no episode is under way.

        A renewal that fails does not fail the act: the worker decides whether it still serves this session.
        """
        now = self._edge.clock.monotonic()
        move = boundary and self.answer is not None and self.answer.rotate and now >= self._move_from
        if not move and (self._renew_at is None or now < self._renew_at):
            return
        self._move_from = now + _RENEWAL_PAUSE_S
        try:
            self._connect(timeout_s=min(self._options.timeout_s, _RENEWAL_TIMEOUT_S), move=move)
            if boundary:
                self._take_params()
        except SequencesError as error:
            self._renew_at = now + max(_RENEWAL_PAUSE_S, error.retry_after_s or 0)
            _log.warning("the lease of %s was not renewed (%s): acting on", self._options.model, error)

    def _reconnect(self, cause: SequencesError) -> None:
        """A worker for the act in hand. With no gateway to ask, the worker that is known may still come back."""
        try:
            self._connect()
        except Unreachable:
            if not isinstance(cause, Unreachable):
                raise


class _Replays:
    """Whether an act that failed is sent again, and how: the recovery table of one act."""

    def __init__(self, edge: Edge, *, busy_until: float) -> None:
        self._edge = edge
        self._busy_until = busy_until
        self._busy = 0
        self._reconnects = 0

    def wait(self, error: SequencesError) -> bool:
        """Wait as the error asks for; True when a worker must be asked for first. Raises the error when it is final."""
        if error.code == "busy":
            self._wait_for_a_turn(error)
            return False
        draining = error.details.get("reason") == "draining"
        if not (draining or isinstance(error, (AuthError, Unreachable))):
            raise error
        if self._reconnects == _RECONNECTS_AN_ACT:
            raise _given_up(error) from error
        self._reconnects += 1
        if not isinstance(error, AuthError):
            pause = _RECONNECT_FIRST_S * 2 ** (self._reconnects - 1)
            self._edge.clock.sleep(min(pause, _RECONNECT_MOST_S))
        return True

    def _wait_for_a_turn(self, error: SequencesError) -> None:
        most = min(error.retry_after_s or 1, _BUSY_FIRST_S * 2**self._busy)
        pause = most * self._edge.chance.uniform(0.5, 1.0)
        if self._edge.clock.monotonic() + pause > self._busy_until:
            raise error
        self._busy += 1
        self._edge.clock.sleep(pause)


@dataclass
class _Episode:
    """The caller's episode and what it is called at the worker, which never saw the part played elsewhere."""

    name: str | None = None
    at_worker: str | None = None
    begun: bool = False  # a worker answered an act of it, so a policy may remember something

    def begin(self, name: str | None) -> bool:
        """Note the episode of the act to come; True when no episode is under way before it."""
        if name is not None and name == self.name:
            return False
        self.name, self.at_worker, self.begun = name, name, False
        return True

    def move_to_new_worker(self, new_id: Callable[[int], str]) -> None:
        if self.name is None or not self.begun:
            return
        self.at_worker = new_id(128)
        warn_caller(
            f"the worker changed in the middle of episode {self.name}: what the policy remembered of it is lost"
        )


def _given_up(error: SequencesError) -> SequencesError:
    if isinstance(error, Unreachable):
        return Unavailable(
            f"worker unreachable after {_RECONNECTS_AN_ACT} reconnects: {error.message}",
            code="unavailable",
            retryable=True,
        )
    return error


def closed(model: str) -> SequencesError:
    """What every use of a closed handle is answered with."""
    return SequencesError(f"this handle of {model} is closed: connect again")
