"""Driving a deployed policy: `connect`, and the handle it gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, NamedTuple, TypeVar, overload

from sequence_ai import _arguments, _wire
from sequence_ai._acts import VALIDATE, Acts, RunAsker, warn_of_resets
from sequence_ai._asking import in_path
from sequence_ai._buffer import ChunkBuffer
from sequence_ai._clock import Alarm
from sequence_ai._credentials import Credentials, resolve
from sequence_ai._episode import Episode
from sequence_ai._errors import ChunkExhausted, InvalidRequest, SequencesError, Unavailable
from sequence_ai._instruction import Instruction
from sequence_ai._latency import LatencyReports
from sequence_ai._loop import Bounds, Callbacks, Loop
from sequence_ai._session import ActAnswer, Patience, Session, SessionOptions, closed
from sequence_ai._startup import OnQueue, OnWarming, Startup
from sequence_ai._status import OnStatus, Progress, Status
from sequence_ai._transport import Edge, Link, current_edge
from sequence_ai._types import Observation, Prediction, RunOutcome
from sequence_ai._warn import warn_caller

T = TypeVar("T")

_OF_CONNECT = ("timeout_s", "control_hz", "api_key", "base_url", "expect", "on_warming", "on_queue")
_LABEL_TIMEOUT_S = 30.0
_ACT_MOST_S = 1e6
_POLL_LEAST_S = 0.5
_TIMEOUT_MOST_S = 86_400
# `act` is bounded by time: more rows than any controller plays in it.
_ROWS_A_SECOND, _ROWS_MORE = 1000, 1000


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
    if not isinstance(model, str) or not model.strip():
        raise InvalidRequest(f"model is {model!r}: give the name of a deployment (`seq policy ls` lists yours)")
    if validate not in VALIDATE:
        raise InvalidRequest(f"validate is {validate!r}: give one of {list(VALIDATE)}")
    with _refusing():
        timeout_s = _arguments.number("timeout_s", timeout_s, above=0, most=_TIMEOUT_MOST_S)
        startup_timeout_s = _arguments.number("startup_timeout_s", startup_timeout_s, least=0)
        if control_hz is not None:
            control_hz = _arguments.number("control_hz", control_hz, above=0, most=_wire.MOST_HZ)
    expected, given = _arguments.mapping("expect", expect), _arguments.mapping("params", params)
    options = SessionOptions(model, timeout_s, embodiment, expected, given)
    edge = current_edge()
    startup = Startup(model, startup_timeout_s, on_warming, on_queue, edge.chance)
    return Policy(resolve(api_key, base_url), options, startup, validate=validate, control_hz=control_hz, edge=edge)


@contextmanager
def _refusing() -> Iterator[None]:
    """An argument of `connect` that cannot be right is an InvalidRequest."""
    try:
        yield
    except (TypeError, ValueError) as wrong:
        raise InvalidRequest(str(wrong), code="invalid_request") from None


class Stopped(BaseException):
    """`interrupt()` came while a call other than `run` waited. No `except Exception` of a caller swallows it."""


class Policy:
    """One robot's handle, driven by one thread at a time: a second is refused, for two loops on one buffer interleave.

    Made by `connect`. Use it as a context manager, or `close` it: that gives its slot to the next robot. Only
    `interrupt` and `set_instruction` are for other threads than the one that drives.
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
        self._control_hz = control_hz
        self._edge = edge
        self._clock = edge.clock
        self._alarms: list[Alarm] = []

        def open_gateway() -> Link:
            return edge.open(credentials.base_url, credentials.api_key)

        self._gateway = open_gateway()
        self._session = Session(options, self._gateway, open_gateway, edge)
        self._reports = LatencyReports(self._gateway, edge.clock)
        self._acts = Acts(options.model, self._session, self._reports, edge.clock, validate)
        self._instruction = Instruction(edge.clock)
        self._buffer = ChunkBuffer()
        self._played: ChunkBuffer | None = None
        self._driver = threading.RLock()
        self._interrupts = 0
        self._answered = False
        self._closed = False
        self._resets: tuple[Episode | None, int] = (None, 0)
        self._ran: RunAsker | None = None
        self._outcome: RunOutcome | None = None

    @property
    def model(self) -> str:
        """The name it was connected by."""
        return self._options.model

    @property
    def buffered(self) -> int:
        """How many actions are left to play before the policy is asked again."""
        return len(self._buffer if self._played is None else self._played)

    @property
    def contract(self) -> dict[str, Any] | None:
        """What the policy declares, as `{"action", "observation", "embodiment"}`; None before the first connect."""
        answer = self._session.answer
        if answer is None:
            return None
        return {"action": answer.action, "observation": answer.observation, "embodiment": self._session.embodiment}

    @property
    def instruction(self) -> str | None:
        """The sentence that every observation of a run is given; None when observations speak for themselves."""
        return self._instruction.now.text

    @property
    def outcome(self) -> RunOutcome | None:
        """How the last run went, one that raised included (`reason` is then `raised:<class>`); None before any."""
        return self._outcome

    def set_instruction(self, text: str) -> None:
        """Give the policy this sentence from the next request on, without stopping. From any thread.

        It stays for later runs, too, until another comes or an `act` returns. The same text again changes nothing.
        Raises TypeError on anything but text.
        """
        if not isinstance(text, str):
            raise TypeError(f"an instruction is text, not a {type(text).__name__}")
        self._instruction.set(text)

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
            fields = _arguments.options(options, self.predict, _OF_CONNECT)
            if not isinstance(observation, Observation):
                return _wire.read_outputs(self._one_act(lambda: {"inputs": observation, **fields}).body)
            answer = self._one_act(lambda: {"observation": self._acts.body(observation), **fields})
            prediction = self._acts.prediction(answer)
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

    def run(
        self,
        observe: Callable[[], Observation],
        act: Callable[[list[float]], object],
        *,
        max_actions: int,
        validate: Callable[[list[float]], object] | None = None,
        hold: Callable[[], object] | None = None,
        on_chunk: Callable[[Prediction], object] | None = None,
        on_underrun: Callable[[float], object] | None = None,
        on_status: OnStatus | None = None,
        progress: Progress = "auto",
        prefetch: bool = True,
        lookahead: int = 1,
        open_loop_horizon: int | None = None,
        max_seconds: float | None = None,
        until: Callable[[], object] | None = None,
        startup_timeout_s: float | None = None,
        smooth_seam: int = 0,
        **options: Any,
    ) -> RunOutcome:
        """Drive the robot: observe, ask, and play the rows at their rate while the next chunk is on its way.

        An action of a model is no safe command: `validate` belongs between them. A run begins with an empty buffer, and
        leaves none. All callbacks are called on this thread; only requests run beside it.

        Args:
            observe: gives an Observation; called for each request.
            act: is given one row, as the policy defines it, within the declared limits.
            max_actions: rows to play at most, above 0.
            validate: is given each row first; false stops the run, and the row is not played.
            hold: called when the run ends early, whatever the cause: a stop, a limit, an exception of any callback.
            on_chunk: is given each Prediction that is taken into play.
            on_underrun: is given the seconds that the arm had no command, after each such wait.
            on_status: is given "starting", "running" and "done".
            progress: True writes the status to stderr, False never, "auto" on a terminal.
            prefetch: ask while the current chunk plays; False asks when it is used up, with the newest observation.
            lookahead: how many chunks to have, played one and those asked for; from 2 on, asked for at once.
            open_loop_horizon: rows of each chunk to play, instead of what the chunk says.
            max_seconds: the longest the run may take, waiting included; 0 ends it before anything is sent.
            until: asked before each row; true ends the run.
            startup_timeout_s: how long to wait for the first chunk, instead of `connect`'s.
            smooth_seam: lead the first rows of each chunk out of the last action; absolute action spaces only.
            **options: go with every request (`seed`, `params`, `episode_id`, ...).

        Raises:
            ValueError: a limit cannot be right.
            SequencesError: what the platform or the policy answered; or no answer came within `timeout_s` in mid-run.
        """
        bounds = Bounds(
            max_actions=_arguments.whole("max_actions", max_actions, 1),
            max_seconds=None if max_seconds is None else _arguments.number("max_seconds", max_seconds),
            control_hz=self._control_hz,
            prefetch=bool(prefetch),
            lookahead=_arguments.whole("lookahead", lookahead, 1),
            open_loop_horizon=None
            if open_loop_horizon is None
            else _arguments.whole("open_loop_horizon", open_loop_horizon, 1),
            timeout_s=self._options.timeout_s,
        )
        smooth_seam = _arguments.whole("smooth_seam", smooth_seam, 0)
        robot = Callbacks(observe, act, validate, hold, until, on_chunk, on_underrun)
        for name, value in {**vars(robot), "on_status": on_status}.items():
            if value is not None or name in ("observe", "act"):
                _arguments.function(name, value)
        startup = self._startup.within(startup_timeout_s)
        fields = _arguments.options(options, self.run, _OF_CONNECT)
        with self._driving(), self._stoppable() as (alarm, interrupted):
            if validate is None:
                warn_caller("this run checks no action (validate=None): right for a bench, not for a real robot")
            name = fields.pop("episode_id", None) or self._edge.new_id(128)
            asker = self._ran = RunAsker(self._acts, self._session, self._instruction, name, fields)
            buffer = ChunkBuffer(smooth_seam)
            status = Status(on_status, progress)
            loop = Loop(asker, robot, bounds, buffer, self._clock, alarm, interrupted, startup, status)
            outer, self._played = self._played, buffer
            try:
                return loop.run()
            finally:
                self._played = outer
                self._outcome = loop.outcome
                self._buffer.clear()
                self._answered = self._answered or loop.outcome.chunks > 0
                self._session.end_episode(asker.episode)

    def act(
        self,
        instruction: str,
        observe: Callable[[], Observation],
        act: Callable[[list[float]], object],
        *,
        max_seconds: float,
        until: Callable[[], object] | None = None,
        **kw: Any,
    ) -> RunOutcome:
        """`run` with a sentence and a time bound, the shape in which a language model calls it as a tool.

        The sentence is put into every observation until this returns, so an old one cannot leak into a chunk;
        `set_instruction` changes it meanwhile. Everything that `run` takes can be given here too. Raises ValueError
        unless `max_seconds` is above 0.
        """
        max_seconds = _arguments.number("max_seconds", max_seconds, above=0, most=_ACT_MOST_S)
        kw.setdefault("max_actions", int(max_seconds * _ROWS_A_SECOND) + _ROWS_MORE)
        with self._driving():
            outer = self.instruction if self._played is not None else None  # this may be called from a callback
            self.set_instruction(instruction)
            try:
                return self.run(observe, act, max_seconds=max_seconds, until=until, **kw)
            finally:
                self._instruction.set(outer)

    def interrupt(self) -> None:
        """Stop what is under way: the robot is held before this control period is over. From any thread, any time.

        A run that is stopped so returns its outcome, with the reason "interrupted". Between runs it does nothing: each
        run begins anew.
        """
        self._interrupts += 1
        self._ring()

    def ready(self) -> Readiness:
        """Whether a worker is up, without waiting; starts one that is not. Holds no running worker: only acts do."""
        self._check_open()
        query = {"model": self.model}
        answer = self._gateway.resend_if_dropped("GET", "/v1/act/ready", query=query, timeout_s=self._options.timeout_s)
        return Readiness(bool(answer.body.get("ready")), answer.body.get("eta_s"))

    def wait_until_ready(self, timeout_s: float = 300.0, poll_s: float = 5.0) -> float:
        """Wait for a worker to be up, asking every `poll_s` seconds; the seconds waited. Needs no observation.

        Raises Unavailable with `.warming` when it is not up within `timeout_s`. `interrupt()` breaks out of it.
        """
        timeout_s, poll_s = _arguments.number("timeout_s", timeout_s), _arguments.number("poll_s", poll_s)
        began, _waiting = self._clock.monotonic(), False
        with self._stoppable() as (alarm, interrupted):
            while True:
                state = self.ready()
                waited = self._clock.monotonic() - began
                if state.ready:
                    return waited
                if waited >= timeout_s:
                    raise Unavailable(
                        f"{self.model} is still starting after {waited:.0f} s",
                        status=503,
                        code="warming",
                        retryable=True,
                        retry_after_s=state.eta_s,
                    )
                self._nap(max(_POLL_LEAST_S, min(poll_s, timeout_s - waited)), alarm, interrupted)

    def label(self, success: bool, notes: str = "", *, episode_id: str | None = None) -> str:
        """Say how the last run's episode went, or the named one's, in what the deployment captured; its id.

        Raises InvalidRequest when there was no run yet and none is named, and where the deployment captures nothing.
        """
        self._check_open()
        ids = [] if episode_id is None else [episode_id]
        if self._ran is not None and episode_id in (None, self._ran.episode.name):
            ids = self._ran.episode.ids
        if not ids:
            raise InvalidRequest(
                "there is no episode to label yet: run() one, or name one with episode_id=", code="invalid_request"
            )
        body = {"success": bool(success), "notes": notes}
        for one in ids:
            path = f"/v1/deployments/{in_path(self.model)}/episodes/{in_path(one)}/label"
            self._gateway.resend_if_dropped("POST", path, body=body, timeout_s=_LABEL_TIMEOUT_S)
        return str(ids[0])

    def close(self) -> None:
        """Give the slot, or the place in line, to the next robot. Later calls raise; closing again does nothing.

        A run under way in another thread is stopped first, as by `interrupt`.
        """
        if self._closed:
            return
        self._closed = True
        self._ring()
        try:
            self._session.close()
        finally:
            try:
                self._reports.close()
            finally:
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

    def _one_act(self, fields: Callable[[], Mapping[str, Any]]) -> ActAnswer:
        if self._answered:
            return self._act_now(fields, Patience(self._options.timeout_s))
        answer = self._wait_out(
            lambda left_s: self._act_now(
                fields, Patience(self._options.timeout_s, max(self._options.timeout_s, left_s))
            )
        )
        self._answered = True
        return answer

    def _act_now(self, fields: Callable[[], Mapping[str, Any]], patience: Patience) -> ActAnswer:
        made = dict(fields())
        episode = self._session.enter(made.get("episode_id"))
        told = self._resets[1] if self._resets[0] is episode else 0
        try:
            return self._acts.ask(made, episode, patience, lambda: True)
        finally:
            self._resets = (episode, warn_of_resets(episode, told))

    def _wait_out(self, attempt: Callable[[float], T]) -> T:
        """The first success of `attempt(seconds left)`, made again for as long as the startup budget allows."""
        began, waiting = self._clock.monotonic(), False
        with self._stoppable() as (alarm, interrupted):
            while True:
                try:
                    return attempt(max(0.0, self._startup.budget_s - (self._clock.monotonic() - began)))
                except Unavailable as error:
                    pause = self._startup.pause(error, self._clock.monotonic() - began, waiting=waiting)
                waiting = True
                self._nap(pause, alarm, interrupted)

    @contextmanager
    def _stoppable(self) -> Iterator[tuple[Alarm, Callable[[], bool]]]:
        """An alarm of one's own that interrupt() and close() ring, and whether they came since the block began.

        What came before was meant for something else.
        """
        before, alarm = self._interrupts, self._clock.alarm()
        self._alarms.append(alarm)
        try:
            yield alarm, lambda: self._interrupts != before or self._closed
        finally:
            self._alarms.remove(alarm)

    def _ring(self) -> None:
        for alarm in list(self._alarms):
            alarm.set()

    def _nap(self, seconds: float, alarm: Alarm, interrupted: Callable[[], bool]) -> None:
        until = self._clock.monotonic() + seconds
        while not interrupted():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            alarm.wait(left)
        self._check_open()
        raise Stopped(f"interrupt() came while {self.model} was waited for")
