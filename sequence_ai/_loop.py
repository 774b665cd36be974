"""The control loop: asks for chunks, plays their rows on time, stops when told. Pure: callables and a clock come in.

A robot's loop is read under stress, so it stands here in the order in which it happens: `run`, `_play`, then each step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Protocol

from sequence_ai._buffer import ChunkBuffer
from sequence_ai._clock import Alarm, Clock
from sequence_ai._errors import PolicyError, Unavailable, Unreachable
from sequence_ai._fetch import Fetch
from sequence_ai._startup import Startup
from sequence_ai._status import DONE, RUNNING, STARTING, Status
from sequence_ai._types import Observation, Prediction, RunOutcome

# A prefetch begins while this many times the usual round trip is left to play, and one period more.
_PREFETCH_AHEAD = 1.25
_NEWEST_WEIGHT = 0.3
# An answer that the arm waited for in vain is thrown away when it took this many times the usual, and this long; so is
# what is left of a plan when the loop itself stood still for that long.
_STALE_RATIO, _STALE_LEAST_S = 2.0, 1.0
# A request is asked for again on a new connection when it takes this many times the usual, and this long.
_SLOW_RATIO, _SLOW_LEAST_S = 4.0, 2.0
COMPLETED = "completed"
_RAISED = "raised:"


@dataclass(frozen=True)
class Question:
    """An observation made ready to be sent, on the driving thread.

    `instructed_at` is when its sentence was set, if no question before it had that sentence; else None.
    """

    fields: Mapping[str, Any]
    instructed_at: float | None = None


class Asker(Protocol):
    """Whom the loop asks. `wanted` says whether anybody still waits; asked before each step that takes time."""

    def connected(self) -> bool:
        """Whether a worker is known, so that nothing has to be asked for before the first observation."""

    def connect(self, wanted: Callable[[], bool]) -> None:
        """Reach a worker. Beside the loop."""

    def prepare(self, observation: Observation) -> Question:
        """Check an observation and make it ready. On the driving thread."""

    def ask(self, question: Question, attempt_s: float, within_s: float, wanted: Callable[[], bool]) -> Prediction:
        """The answer, beside the loop: within `within_s` in all, asked anew when one attempt takes `attempt_s`."""

    def limits(self) -> Mapping[str, Any] | None:
        """The declared action contract, None without one."""

    def episode_resets(self) -> int:
        """How often a new worker took over in this episode."""

    def warn_of_resets(self) -> None:
        """Warn of those since the last time."""


@dataclass(frozen=True)
class Callbacks:
    """The robot's side of a run."""

    observe: Callable[[], Observation]
    act: Callable[[list[float]], object]
    validate: Callable[[list[float]], object] | None = None
    hold: Callable[[], object] | None = None
    until: Callable[[], object] | None = None
    on_chunk: Callable[[Prediction], object] | None = None
    on_underrun: Callable[[float], object] | None = None


@dataclass(frozen=True)
class Bounds:
    """How far and how fast a run goes. Times in s, rates in Hz."""

    max_actions: int
    max_seconds: float | None = None
    control_hz: float | None = None
    prefetch: bool = True
    lookahead: int = 1
    open_loop_horizon: int | None = None
    timeout_s: float = 30.0


@dataclass
class _Asked:
    """A chunk on its way."""

    fetch: Fetch[Prediction]
    observed_at: float
    actions: int  # played when the observation was taken


@dataclass
class _Tally:
    """What a run counts."""

    chunks: int = 0
    underruns: int = 0
    underrun_s: float = 0.0
    stale_answers: int = 0
    late_ticks: int = 0
    swaps: int = 0
    max_lag_s: float | None = None
    observe_s: float = 0.0
    ages_s: float = 0.0
    max_age_s: float = 0.0
    max_age_rows: int = 0
    aged: int = 0
    action_space: str | None = None


@dataclass
class Loop:
    """One run. `buffer` starts empty; `interrupted` and `alarm` belong to whoever may stop it from another thread.

    `outcome` stands once the run has ended, also when it raised.
    """

    asker: Asker
    robot: Callbacks
    bounds: Bounds
    buffer: ChunkBuffer
    clock: Clock
    alarm: Alarm
    interrupted: Callable[[], bool]
    startup: Startup
    status: Status
    outcome: RunOutcome = field(default_factory=lambda: RunOutcome(0, 0, 0.0))
    _actions: int = 0
    _began: float = 0.0
    _tick: float | None = None
    _round_trip_s: float | None = None
    _round_trip_is_cold: bool = True
    _asked: deque[_Asked] = field(default_factory=deque)
    _unplayed: deque[_Asked] = field(default_factory=deque)
    _count: _Tally = field(default_factory=_Tally)

    def run(self) -> RunOutcome:
        """Play until something ends it; unless that is `max_actions`, `hold` is called. Raises what callbacks raise."""
        self._began = self.clock.monotonic()
        reason = _RAISED
        try:
            self.status.tell(STARTING)
            reason = self._play()
        except BaseException as error:
            reason = f"{_RAISED}{type(error).__name__}"
            raise
        finally:
            self._end(reason)
        return self.outcome

    def _play(self) -> str:
        while self._actions < self.bounds.max_actions:
            if not self.buffer:
                stop = self._take_delivery()
                if stop is not None:
                    return stop
            stop = self._stopped()
            if stop is not None:
                return stop
            self._prefetch()
            if self.robot.until is not None and self.robot.until():
                return "until"
            if self._is_old(self._late_s()):
                self._restart_schedule()
                self._drop_plan()
                continue
            row = self._next_row()
            if self.robot.validate is not None and not self.robot.validate(list(row)):
                return "validate"
            if self.interrupted():  # it may have come while `until` or `validate` took their time
                return "interrupted"
            self._act(row)
            self._wait_for_the_next_tick()
        return COMPLETED

    def _end(self, reason: str) -> None:
        early = True
        try:
            self._drop_what_was_asked()
            self.outcome = self._outcome(reason, self.clock.monotonic() - self._began)
            self.status.tell(DONE)
            early = reason != COMPLETED
        except BaseException as error:
            self._note(error)
            raise
        finally:
            if early:
                self._hold()

    def _hold(self) -> None:
        try:
            if self.robot.hold is not None:
                self.robot.hold()
        except BaseException as error:
            self._note(error)
            raise

    def _note(self, error: BaseException) -> None:
        """The first exception is the reason, also where an ending of another kind came before it."""
        if not self.outcome.reason.startswith(_RAISED):
            self.outcome = replace(self.outcome, reason=f"{_RAISED}{type(error).__name__}", stopped_early=True)

    # Stopping

    def _stopped(self) -> str | None:
        if self.interrupted():
            return "interrupted"
        return "timeout" if self._left_s() <= 0 else None

    def _left_s(self) -> float:
        if self.bounds.max_seconds is None:
            return float("inf")
        return self.bounds.max_seconds - (self.clock.monotonic() - self._began)

    def _wait(self, until: float) -> str | None:
        """Wait for `until` by the clock, or for a stop, whose name is returned."""
        while True:
            stop = self._stopped()
            left = until - self.clock.monotonic()
            if stop is not None or left <= 0:
                return stop
            self.alarm.wait(min(left, self._left_s()))

    def _wait_for(self, fetch: Fetch[Any], patience: float) -> str | None:
        """The same until the fetch is done. Raises Unavailable when it takes longer than `patience`.

        A fetch that is not waited for to its end is abandoned: it must change nothing afterwards.
        """
        until = fetch.began + patience
        while not fetch.done:
            stop = self._stopped()
            if stop is not None:
                fetch.abandon()
                return stop
            left = until - self.clock.monotonic()
            if left <= 0:
                fetch.abandon()
                raise self._too_late(patience)
            self.alarm.wait(min(left, self._left_s()))
        return None

    # Asking

    def _take_delivery(self) -> str | None:
        """Block until the next chunk is in the buffer; a stop's name when one came first."""
        if self._actions == 0:
            return self._first_chunk()
        stop = self._stopped()
        if stop is not None:
            return stop
        waits = not (self._asked and self._asked[0].fetch.done)
        dry_since = self.clock.monotonic()
        stop = self._next_chunk()
        if waits:
            self._tick = None
            dry_s = self.clock.monotonic() - dry_since
            self._count.underruns += 1
            self._count.underrun_s += dry_s
            if stop is None and self.robot.on_underrun is not None:
                self.robot.on_underrun(dry_s)
        return stop

    def _first_chunk(self) -> str | None:
        """Wait out a worker that starts, or a place in line: nothing moves yet. Each attempt observes anew."""
        waiting = False
        while True:
            waited = self.clock.monotonic() - self._began
            patience = max(self.bounds.timeout_s, self.startup.budget_s - waited)
            stop, refusal = self._connected(patience)
            if stop is None and refusal is None:
                stop, refusal = self._asked_once(patience)
            if stop is not None or refusal is None:
                return stop
            pause = self.startup.pause(refusal, self.clock.monotonic() - self._began, waiting=waiting)
            waiting = True
            stop = self._wait(self.clock.monotonic() + pause)
            if stop is not None:
                return stop

    def _connected(self, patience: float) -> tuple[str | None, Unavailable | None]:
        stop = self._stopped()
        if stop is not None or self.asker.connected():
            return stop, None
        fetch = Fetch.start(self.clock, self.alarm, self.asker.connect)
        stop = self._wait_for(fetch, patience)
        if stop is None and fetch.refusal is None:
            fetch.result()
        return stop, fetch.refusal

    def _asked_once(self, patience: float) -> tuple[str | None, Unavailable | None]:
        """A stop, or what the platform refused the first question with; with neither, the chunk is in the buffer."""
        self._ask(patience)
        asked = self._asked[0]
        stop = self._wait_for(asked.fetch, patience)
        if stop is not None:
            return stop, None
        self._asked.clear()
        if asked.fetch.refusal is None:
            self._receive(asked)
        return None, asked.fetch.refusal

    def _next_chunk(self) -> str | None:
        """The chunk after the first, within `timeout_s` of the moment the buffer ran dry.

        An answer that took far longer than usual is not played: the world went on. What failed is raised.
        """
        until = self.clock.monotonic() + self.bounds.timeout_s
        while True:
            stop = self._stopped()
            if stop is not None:
                return stop
            if not self._asked:
                self._ask(max(0.0, until - self.clock.monotonic()))
            asked = self._asked[0]
            was_late = not asked.fetch.done
            stop = self._wait_for(asked.fetch, until - asked.fetch.began)
            if stop is not None:
                return stop
            self._asked.popleft()
            if asked.fetch.failed or not (was_late and self._is_stale(asked.fetch)):
                self._receive(asked)
                return None
            self._learn(asked.fetch.took_s)
            self._count.stale_answers += 1
            self._drop_what_was_asked()

    def _receive(self, asked: _Asked) -> None:
        prediction = asked.fetch.result()
        self._learn(asked.fetch.took_s)
        self.asker.warn_of_resets()
        self._buffer_chunk(asked, prediction)

    def _buffer_chunk(self, asked: _Asked, prediction: Prediction) -> None:
        chunk = prediction.action_chunk
        if not len(chunk):
            raise PolicyError("the policy answered with an empty chunk: there is nothing to play", code="policy_error")
        self.buffer.append(chunk, self.bounds.open_loop_horizon)
        self._unplayed.append(asked)
        self._count.chunks += 1
        self._count.action_space = chunk.action_space
        if self.robot.on_chunk is not None:
            self.robot.on_chunk(prediction)

    def _prefetch(self) -> None:
        """Ask for what is played next while there are rows left, and never for more than `max_actions` needs."""
        if not self.bounds.prefetch:
            return
        while self._prefetch_is_due() and self._planned() < self.bounds.max_actions:
            self._ask(self.bounds.timeout_s)

    def _prefetch_is_due(self) -> bool:
        if self.bounds.lookahead > 1:
            return self.buffer.untouched + len(self._asked) < self.bounds.lookahead
        if self._asked or self._round_trip_s is None:
            return False
        period = self._period_s()
        return len(self.buffer) * period <= _PREFETCH_AHEAD * self._round_trip_s + period

    def _planned(self) -> int:
        """Rows played, held, and asked for, taking the next chunks to be as long as this one."""
        playing = self.buffer.playing
        horizon = self.bounds.open_loop_horizon or (playing.open_loop_horizon if playing else None)
        each = len(playing.steps[:horizon]) if playing else len(self.buffer)
        return self._actions + len(self.buffer) + len(self._asked) * each

    def _ask(self, patience: float) -> None:
        observed_at = self.clock.monotonic()
        observation = self.robot.observe()
        self._count.observe_s += self.clock.monotonic() - observed_at
        question = self.asker.prepare(observation)
        if question.instructed_at is not None:
            self._count.swaps += 1
            lag = self.clock.monotonic() - question.instructed_at
            self._count.max_lag_s = max(self._count.max_lag_s or 0.0, lag)
        attempt = self._attempt_s(patience)
        fetch = Fetch.start(self.clock, self.alarm, lambda wanted: self.asker.ask(question, attempt, patience, wanted))
        self._asked.append(_Asked(fetch, observed_at, self._actions))

    def _attempt_s(self, patience: float) -> float:
        """How long one attempt may take: a connection that went silent is not waited for as long as a whole act."""
        if self._actions == 0 or self._round_trip_s is None:
            return self.bounds.timeout_s
        return min(patience, max(_SLOW_LEAST_S, _SLOW_RATIO * self._round_trip_s))

    def _is_stale(self, fetch: Fetch[Prediction]) -> bool:
        if self._actions == 0 or self._round_trip_s is None:
            return False
        return fetch.took_s > max(_STALE_LEAST_S, _STALE_RATIO * self._round_trip_s)

    def _learn(self, took_s: float) -> None:
        """The first answer may have been a cold one: it counts until there is a second."""
        if self._round_trip_s is None:
            self._round_trip_s = took_s
        elif self._round_trip_is_cold:
            self._round_trip_s, self._round_trip_is_cold = took_s, False
        else:
            self._round_trip_s += _NEWEST_WEIGHT * (took_s - self._round_trip_s)

    def _late_s(self) -> float:
        """How long ago the next row was due."""
        return 0.0 if self._tick is None else self.clock.monotonic() - self._tick

    def _is_old(self, late_s: float) -> bool:
        """The loop itself stood still: a callback that took long, or a process that was stopped."""
        return late_s > max(_STALE_LEAST_S, self._period_s())

    def _drop_plan(self) -> None:
        self._count.stale_answers += bool(self.buffer) + len(self._asked)
        self.buffer.drop()
        self._unplayed.clear()
        self._drop_what_was_asked()

    def _drop_what_was_asked(self) -> None:
        for asked in self._asked:
            asked.fetch.abandon()
        self._asked.clear()

    def _too_late(self, patience: float) -> Unreachable:
        limit = "timeout_s" if self._actions or patience <= self.bounds.timeout_s else "startup_timeout_s"
        return Unreachable(f"no answer came within {patience:.3g} s ({limit})", code="timeout")

    # Playing

    def _next_row(self) -> list[float]:
        begun = self.buffer.begun
        row = self.buffer.pop(self.asker.limits())
        if self.buffer.begun > begun:
            self._note_age(self._unplayed.popleft())
        return row

    def _note_age(self, asked: _Asked) -> None:
        count = self._count
        age = self.clock.monotonic() - asked.observed_at
        count.aged += 1
        count.ages_s += age
        count.max_age_s = max(count.max_age_s, age)
        count.max_age_rows = max(count.max_age_rows, self._actions - asked.actions)

    def _act(self, row: list[float]) -> None:
        late_s, period = self._late_s(), self._period_s()
        if late_s > period:
            self._restart_schedule()
        due = self.clock.monotonic() if self._tick is None else self._tick
        self.robot.act(row)
        self._actions += 1
        self._tick = due + period
        if self._is_old(late_s):  # `validate` took its time: it let this row pass, not those that come after it
            self._drop_plan()
        if self._actions == 1:
            self.status.tell(RUNNING)

    def _restart_schedule(self) -> None:
        """Never a burst of rows to catch up with a schedule that was missed."""
        self._tick = None
        self._count.late_ticks += 1

    def _wait_for_the_next_tick(self) -> None:
        if self._tick is not None:
            self._wait(self._tick)

    def _period_s(self) -> float:
        playing = self.buffer.playing
        hz = self.bounds.control_hz or (playing.control_frequency_hz if playing else 0.0)
        return 1 / hz if hz > 0 else 0.0

    def _outcome(self, reason: str, elapsed_s: float) -> RunOutcome:
        count = self._count
        return RunOutcome(
            actions=self._actions,
            chunks=count.chunks,
            elapsed_s=elapsed_s,
            underruns=count.underruns,
            underrun_s=count.underrun_s,
            episode_resets=self.asker.episode_resets(),
            stopped_early=reason != COMPLETED,
            reason=reason,
            max_seam_jump=self.buffer.max_seam_jump,
            action_space=count.action_space,
            instruction_swaps=count.swaps,
            max_instruction_lag_s=count.max_lag_s,
            observe_s=count.observe_s,
            stale_answers=count.stale_answers,
            late_ticks=count.late_ticks,
            observation_age_s=count.ages_s / count.aged if count.aged else 0.0,
            max_observation_age_s=count.max_age_s,
            max_observation_age_rows=count.max_age_rows,
        )
