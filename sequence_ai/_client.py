"""Driving a deployed policy: `connect`, and the handle it gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Callable, NamedTuple, overload

from sequence_ai import _wire
from sequence_ai._buffer import ChunkBuffer
from sequence_ai._contract import mismatches, newest_frames
from sequence_ai._credentials import Credentials, resolve
from sequence_ai._errors import ChunkExhausted, InvalidRequest, SequencesError, Unavailable
from sequence_ai._session import ActAnswer, Session, SessionOptions, closed
from sequence_ai._startup import OnQueue, OnWarming, Startup
from sequence_ai._transport import Edge, current_edge
from sequence_ai._types import Observation, Prediction
from sequence_ai._warn import warn_caller

_VALIDATE = ("warn", "strict", "off")
_OWN_FIELDS = ("model", "inputs", "observation")


class Readiness(NamedTuple):
    """One look at a deployment; `eta_s` is a guess in seconds, not a countdown, and None when there is none."""

    ready: bool
    eta_s: float | None


def connect(
    model: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    control_hz: float | None = None,
    timeout_s: float = 30.0,
    validate: str = "warn",
    startup_timeout_s: float = 1800.0,
    on_warming: OnWarming | None = None,
    embodiment: str | None = None,
    expect: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    on_queue: OnQueue | None = None,
) -> Policy:
    """A handle on the deployment `model`, for one control loop. Nothing is sent until its first request.

    Args:
        model: the deployment's name, or its id.
        api_key: else SEQUENCES_API_KEY, else the local platform's own.
        base_url: else SEQUENCES_BASE_URL, else the local platform, else the hosted one.
        control_hz: play at this rate instead of the chunk's.
        timeout_s: the longest one request may take.
        validate: what an observation that the policy would refuse does: "warn" (and is sent), "strict" (raises), "off".
        startup_timeout_s: how long to wait for a worker that starts, or for a place in line, before the first answer.
        on_warming: called as `(waited_s, retry_s)` at each wait for a worker, instead of a line on stderr.
        embodiment: which declared body this handle drives.
        expect: fields that the declared action contract must have, such as `{"action_space": "joint_velocity"}`.
        params: inference parameters of every act; those of a single call replace them.
        on_queue: called as `(position, eta_s, waited_s, reason)` at each wait in line, instead of a line on stderr.

    Raises:
        AuthError: there is no key for the address.
        InvalidRequest: an argument cannot be right.
    """
    _check_arguments(model, validate, control_hz, timeout_s, startup_timeout_s)
    options = SessionOptions(model, timeout_s, embodiment, expect, params)
    edge = current_edge()
    startup = Startup(model, startup_timeout_s, on_warming, on_queue, edge.clock, edge.chance)
    return Policy(resolve(api_key, base_url), options, startup, validate=validate, control_hz=control_hz, edge=edge)


class Policy:
    """One robot's handle, driven by one thread at a time: a second is refused, for two loops on one buffer interleave.

    Made by `connect`. Use it as a context manager, or `close` it: that gives its slot to the next robot.
    """

    def __init__(
        self,
        credentials: Credentials,
        options: SessionOptions,
        startup: Startup,
        *,
        validate: str,
        control_hz: float | None,
        edge: Edge,
    ) -> None:
        self._options = options
        self._startup = startup
        self._validate = validate
        self._control_hz = control_hz
        self._edge = edge
        self._gateway = self._edge.open(credentials.base_url, credentials.api_key)
        self._session = Session(options, self._gateway, self._edge)
        self._buffer = ChunkBuffer()
        self._driver = threading.RLock()
        self._answered = False
        self._told_of_history = False
        self._closed = False

    @property
    def model(self) -> str:
        """The name it was connected by."""
        return self._options.model

    @property
    def buffered(self) -> int:
        """How many actions are left to play before the policy is asked again."""
        return len(self._buffer)

    @property
    def contract(self) -> dict[str, Any] | None:
        """What the policy declares, as `{"action", "observation", "embodiment"}`; None before the first connect."""
        answer = self._session.answer
        if answer is None:
            return None
        return {"action": answer.action, "observation": answer.observation, "embodiment": self._session.embodiment}

    @overload
    def predict(self, observation: Observation, **options: Any) -> Prediction: ...

    @overload
    def predict(self, observation: Any, **options: Any) -> Any: ...

    def predict(self, observation: Any, **options: Any) -> Any:
        """One inference.

        An `Observation` is answered with a `Prediction`, whose chunk also fills the buffer of `next_action`. Anything
        else is sent untouched, and what the policy returned comes back untouched. Options (`seed`, `episode_id`,
        `params`, ...) go to the policy as they are; those that are None are left out. Before the first answer of this
        handle, a starting worker and a place in line are waited out; after it they are raised.

        Raises:
            SequencesError: what the platform or the policy answered, by its class; or another thread is driving.
            InvalidRequest: with `validate="strict"`, the policy would refuse the observation.
        """
        with self._driving():
            fields = _options(options)
            if not isinstance(observation, Observation):
                return _wire.read_outputs(self._act(lambda: {"inputs": observation, **fields}).body)
            answer = self._act(lambda: {"observation": _wire.observation_body(self._checked(observation)), **fields})
            prediction = _wire.read_prediction(answer.body, request_id=answer.request_id, model=self.model)
            self._buffer.fill(prediction.action_chunk)
            return prediction

    def next_action(self, observation: Observation | None = None, **options: Any) -> list[float]:
        """The next action to play, inside the declared limits; the policy is asked only when none is left.

        With actions left, the observation is ignored and nothing is sent. Raises ChunkExhausted when there is neither.
        """
        with self._driving():
            if not self._buffer:
                self._refill(observation, options)
            action = self._session.answer.action if self._session.answer else None
            return self._buffer.pop(action)

    def ready(self) -> Readiness:
        """Whether a worker is up, without waiting; starts one that is not. Holds no running worker: only acts do."""
        self._check_open()
        query = {"model": self.model}
        answer = self._gateway.resend_if_dropped("GET", "/v1/act/ready", query=query, timeout_s=self._options.timeout_s)
        return Readiness(bool(answer.body.get("ready")), answer.body.get("eta_s"))

    def wait_until_ready(self, timeout_s: float = 300.0, poll_s: float = 5.0) -> float:
        """Wait for a worker to be up, asking every `poll_s` seconds; the seconds waited. Needs no observation.

        Raises Unavailable with `.warming` when it is not up within `timeout_s`.
        """
        clock = self._edge.clock
        began = clock.monotonic()
        while True:
            state = self.ready()
            waited = clock.monotonic() - began
            if state.ready:
                return waited
            if waited >= timeout_s:
                raise Unavailable(
                    f"{self.model} is still starting after {waited:.0f} s",
                    code="warming",
                    retryable=True,
                    retry_after_s=state.eta_s,
                )
            clock.sleep(min(poll_s, timeout_s - waited))

    def close(self) -> None:
        """Give the slot, or the place in line, to the next robot. Later calls raise; closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._session.close()
        self._gateway.close()

    def __enter__(self) -> Policy:  # noqa: PYI034  typing.Self is not on 3.9, and nothing derives from this
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Policy({self.model!r}{', closed' if self._closed else ''})"

    @contextmanager
    def _driving(self) -> Iterator[None]:
        if not self._driver.acquire(blocking=False):
            raise SequencesError(
                f"another thread drives this handle of {self.model}: connect once for each control loop",
                code="conflict",
            )
        try:
            self._check_open()
            yield
        finally:
            self._driver.release()

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self.model)

    def _refill(self, observation: Observation | None, options: Mapping[str, Any]) -> None:
        if observation is None:
            raise ChunkExhausted("no action is left to play: give next_action an observation to ask for more with")
        if not isinstance(observation, Observation):
            raise InvalidRequest(
                f"next_action needs a sequence_ai.Observation, not a {type(observation).__name__}: raw inputs have no "
                "action chunk to play; use predict"
            )
        self.predict(observation, **options)
        if not self._buffer:
            raise ChunkExhausted(f"{self.model} answered with an empty chunk")

    def _act(self, fields: Callable[[], Mapping[str, Any]]) -> ActAnswer:
        if self._answered:
            return self._session.act(fields(), timeout_s=self._options.timeout_s)
        answer = self._startup.wait_out(
            lambda left_s: self._session.act(fields(), timeout_s=max(self._options.timeout_s, left_s))
        )
        self._answered = True
        return answer

    def _checked(self, observation: Observation) -> Observation:
        """The observation as it is sent: held against the contract, and with no more frames than the policy reads."""
        declared = self._session.open().observation
        if declared is None:
            return observation
        if self._validate != "off":
            self._complain(observation, declared)
        kept = newest_frames(observation.images, declared.get("history") or 1)
        dropped = len(observation.images) - len(kept)
        if dropped and not self._told_of_history:
            self._told_of_history = True
            warn_caller(
                f"{dropped} older frame(s) are not sent: {self.model} reads {declared.get('history') or 1} a view"
            )
        return replace(observation, images=kept)

    def _complain(self, observation: Observation, declared: Mapping[str, Any]) -> None:
        found = mismatches(observation, declared)
        refused = [mismatch.text for mismatch in found if mismatch.refused]
        if refused and self._validate == "strict":
            raise InvalidRequest(
                f"{self.model} would refuse this observation: {'; '.join(refused)}", code="invalid_request"
            )
        for mismatch in found:
            warn_caller(mismatch.text)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    own = sorted(set(options) & set(_OWN_FIELDS))
    if own:
        raise InvalidRequest(f"{own} cannot be options of an act: the client fills them in")
    return {name: value for name, value in options.items() if value is not None}


def _check_arguments(
    model: Any, validate: str, control_hz: float | None, timeout_s: float, startup_timeout_s: float
) -> None:
    if not isinstance(model, str) or not model.strip():
        raise InvalidRequest(f"model is {model!r}: give the name of a deployment (`seq policy ls` lists yours)")
    if validate not in _VALIDATE:
        raise InvalidRequest(f"validate is {validate!r}: give one of {list(_VALIDATE)}")
    for name, value in (("control_hz", control_hz), ("timeout_s", timeout_s)):
        if value is not None and not value > 0:
            raise InvalidRequest(f"{name} is {value!r}: it must be above 0")
    if not startup_timeout_s >= 0:
        raise InvalidRequest(f"startup_timeout_s is {startup_timeout_s!r}: it must be at least 0 (0: do not wait)")
