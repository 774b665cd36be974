"""Acts of one handle: an observation held against the contract, asked, its answer read, its timing told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Callable

from sequence_ai import _latency, _wire
from sequence_ai._clock import Clock
from sequence_ai._contract import mismatches, newest_frames
from sequence_ai._episode import Episode
from sequence_ai._errors import InvalidRequest, SequencesError, Unavailable
from sequence_ai._instruction import Instruction
from sequence_ai._latency import LatencyReports
from sequence_ai._loop import Question
from sequence_ai._session import ActAnswer, Patience, Session
from sequence_ai._types import Observation, Prediction
from sequence_ai._warn import warn_caller

VALIDATE = ("warn", "strict", "off")

Wanted = Callable[[], bool]


class Acts:
    """What a handle asks its session. `check` and the warnings are for the driving thread, `ask` may run beside it."""

    def __init__(self, model: str, session: Session, reports: LatencyReports, clock: Clock, validate: str) -> None:
        self._model = model
        self._session = session
        self._reports = reports
        self._clock = clock
        self._validate = validate
        self._told_of_history = False
        self._first = True

    def ask(self, fields: Mapping[str, Any], episode: Episode, patience: Patience, wanted: Wanted) -> ActAnswer:
        """One act, its timing reported whatever came of it."""
        began = self._clock.monotonic()
        try:
            answer = self._session.act(fields, episode, patience, wanted)
        except SequencesError as error:
            warming = isinstance(error, Unavailable) and error.warming
            self._report("warming" if warming else "error", error.request_id, began, None, {})
            raise
        self._report("served", answer.request_id, began, answer.round_trip_s, answer.body)
        return answer

    def body(self, observation: Observation) -> dict[str, Any]:
        """The observation as it travels: checked, its frames left as they are encoded."""
        checked = self.check(observation)
        return _wire.observation_body(checked, self._session.encoding)

    def check(self, observation: Observation) -> Observation:
        """The observation as it is sent: held against the contract, and with no more frames than the policy reads."""
        declared = self._session.open().observation
        if declared is None:
            return observation
        if self._validate != "off":
            self._complain(observation, declared)
        history = declared.get("history") or 1
        kept = newest_frames(observation.images, history)
        dropped = len(observation.images) - len(kept)
        if dropped and not self._told_of_history:
            self._told_of_history = True
            warn_caller(f"{dropped} older frame(s) are not sent: {self._model} reads {history} a view")
        return replace(observation, images=kept) if dropped else observation

    def prediction(self, answer: ActAnswer) -> Prediction:
        """The answer to an observation. Raises PolicyError when it holds no playable chunk."""
        return _wire.read_prediction(answer.body, request_id=answer.request_id, model=self._model)

    def _complain(self, observation: Observation, declared: Mapping[str, Any]) -> None:
        found = mismatches(observation, declared)
        refused = [mismatch.text for mismatch in found if mismatch.refused]
        if refused and self._validate == "strict":
            raise InvalidRequest(
                f"{self._model} would refuse this observation: {'; '.join(refused)}", code="invalid_request"
            )
        for mismatch in found:
            warn_caller(mismatch.text)

    def _report(
        self,
        outcome: str,
        request_id: str | None,
        began: float,
        round_trip_s: float | None,
        body: Mapping[str, Any],
    ) -> None:
        perf, chunk = body.get("perf"), body.get("action_chunk")
        first, self._first = self._first, False
        self._reports.add(
            _latency.record(
                self._model,
                request_id,
                outcome=outcome,
                total_s=self._clock.monotonic() - began,
                round_trip_s=round_trip_s,
                first=first,
                perf=perf if isinstance(perf, Mapping) else {},
                frames=_rows_to_play(chunk) if isinstance(chunk, Mapping) else None,
            )
        )


class RunAsker:
    """Whom one run's loop asks: every act belongs to the run's episode and is given its sentence."""

    def __init__(
        self,
        acts: Acts,
        session: Session,
        instruction: Instruction,
        episode: str,
        options: Mapping[str, Any],
    ) -> None:
        self._acts = acts
        self._session = session
        self._instruction = instruction
        self._name = episode
        self._options = options
        self._told = 0
        self.episode = Episode(episode, lambda _: episode)

    def connected(self) -> bool:
        """Begin the episode at the worker that is known; False when the gateway must be asked first."""
        if self._session.must_ask:
            return False
        self.episode = self._session.enter(self._name)
        return True

    def connect(self, wanted: Wanted) -> None:
        """Ask the gateway for a worker, and begin the episode there."""
        self._session.open()
        if wanted():
            self.episode = self._session.enter(self._name)

    def prepare(self, observation: Observation) -> Question:
        """Give the observation its sentence and check it."""
        if not isinstance(observation, Observation):
            raise TypeError(
                f"observe() returned a {type(observation).__name__}: a run needs a sequence_ai.Observation each time "
                "(sequence_ai.observation(...) makes one)"
            )
        text, set_at = self._instruction.take()
        told = observation if text is None else replace(observation, instruction=text)
        return Question({"observation": self._acts.body(told), **self._options}, set_at)

    def ask(self, question: Question, attempt_s: float, within_s: float, wanted: Wanted) -> Prediction:
        """The answer to a question."""
        patience = Patience(attempt_s, within_s)
        return self._acts.prediction(self._acts.ask(question.fields, self.episode, patience, wanted))

    def limits(self) -> Mapping[str, Any] | None:
        """The declared action contract."""
        return self._session.answer.action if self._session.answer else None

    def episode_resets(self) -> int:
        """How often a new worker took over."""
        return self.episode.resets

    def warn_of_resets(self) -> None:
        """Warn of each once."""
        told, self._told = self._told, self.episode.resets
        warn_of_resets(self.episode, told)


def warn_of_resets(episode: Episode, told: int) -> int:
    """Warn of the resets beyond the `told` ones; how many there are."""
    resets = episode.resets
    for _ in range(resets - told):
        warn_caller(
            f"the worker changed in the middle of episode {episode.name}, or the model copy on it: what the policy "
            "remembered of it is lost"
        )
    return resets


def _rows_to_play(chunk: Mapping[str, Any]) -> int | None:
    steps, horizon = chunk.get("steps"), chunk.get("open_loop_horizon")
    if not isinstance(steps, (list, tuple)):
        return None
    return min(len(steps), horizon) if isinstance(horizon, int) else len(steps)
