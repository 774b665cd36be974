"""Drives one environment process: leases episodes into its slots, asks the policy, hands in what is finished."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner.engine.asking import Answer, Asker, AskingStoppedError, PolicyFailedError
from runner.engine.environment import Environment, EnvironmentDiedError, EnvironmentHungError, Reply
from seq.contract.internal import EpisodeOutcome, InstanceSpec, LeasedEpisode


class Leases(Protocol):
    """Where episodes come from and go back to."""

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode]:
        """Up to `free` episodes; with `wait`, blocks until there is one, or the empty list when the eval is over."""

    def give_back(self, episodes: list[LeasedEpisode], reason: str) -> None:
        """Episodes that must run again."""


@dataclass
class _Playing:
    leased: LeasedEpisode
    acts: int = 0
    act_s: float = 0.0
    act_max_s: float = 0.0
    infer_s: float = 0.0


class Driver:
    """Called by one thread: `run` returns when the eval has no episode left for this process, or was stopped."""

    def __init__(
        self,
        spec: InstanceSpec,
        leases: Leases,
        finished: Callable[[EpisodeOutcome], None],
        open_environment: Callable[[], Environment],
        open_asker: Callable[[], Asker],
        stop: threading.Event,
        slots: int,
    ) -> None:
        self._spec = spec
        self._leases = leases
        self._finished = finished
        self._open_environment = open_environment
        self._open_asker = open_asker
        self._stop = stop
        self._slots = slots
        self._playing: dict[int, _Playing] = {}
        self._askers: dict[int, Asker] = {}
        self._environment: Environment | None = None
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="asking")

    def run(self) -> None:
        """Play until nothing is left. Raises EnvironmentBrokenError when the benchmark cannot be set up."""
        asks: dict[int, dict[str, Any]] = {}
        try:
            while not self._stop.is_set():
                started = self._begin()
                if started is None:
                    return
                # A process that was lost took the asks of its slots with it.
                asks = {slot: body for slot, body in {**asks, **started}.items() if slot in self._playing}
                answers = self._answers(asks)
                asks = self._settled(self._call("play", answers, self._spec.step_limit_s)) if self._playing else {}
        except AskingStoppedError:
            return
        finally:
            self.kill()
            for asker in self._askers.values():
                asker.close()
            self._pool.shutdown(wait=False)

    def kill(self) -> None:
        """End the environment process; from any thread."""
        environment = self._environment
        if environment is not None:
            environment.kill()

    def _begin(self) -> dict[int, dict[str, Any]] | None:
        """Fill free slots; the asks of their first observations, or None when nothing plays and nothing is left."""
        free = [slot for slot in range(self._slots) if slot not in self._playing]
        leased = self._leases.take(len(free), wait=not self._playing)
        if not leased and not self._playing:
            return None
        starting = dict(zip(free, leased, strict=False))
        for slot, episode in starting.items():
            self._playing[slot] = _Playing(episode)
            self._asker(slot).begin(episode.condition.seed)
        if not starting:
            return {}
        bodies = {slot: episode.wire() for slot, episode in starting.items()}
        return self._settled(self._call("reset", bodies, self._spec.reset_limit_s))

    def _answers(self, asks: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
        """Ask the policy for every slot at once; a slot whose policy failed is closed as an error."""
        pending = {slot: self._pool.submit(self._askers[slot].ask, body) for slot, body in sorted(asks.items())}
        answers: dict[int, dict[str, Any]] = {}
        failed: dict[int, list[str | None]] = {}
        waited_s = 0.0
        for slot, asked in pending.items():
            try:
                answer = asked.result()
                answers[slot], waited_s = self._counted(slot, answer), max(waited_s, answer.waited_s)
            except PolicyFailedError as error:
                failed[slot] = [str(error), error.traceback]
        if failed:
            self._settled(self._call("fail", failed, self._spec.step_limit_s))
        # All of them stood still for as long as the slowest waited for a worker.
        return {slot: {**answer, "waited_s": waited_s} for slot, answer in answers.items() if slot in self._playing}

    def _counted(self, slot: int, answer: Answer) -> dict[str, Any]:
        playing = self._playing[slot]
        playing.acts += 1
        playing.act_s += answer.act_s
        playing.act_max_s = max(playing.act_max_s, answer.act_s)
        playing.infer_s += answer.infer_s
        return answer.body

    def _settled(self, reply: Reply) -> dict[int, dict[str, Any]]:
        for slot, outcome in reply.ended.items():
            playing = self._playing.pop(slot)
            measured = {name: getattr(playing, name) for name in ("acts", "act_s", "act_max_s", "infer_s")}
            phases = {
                "phase_s": {**outcome.phase_s, "act": playing.act_s},
                "phase_n": {**outcome.phase_n, "act": playing.acts},
            }
            self._finished(outcome.model_copy(update={**measured, **phases}))
        return reply.asks

    def _call(self, what: str, slots: dict[int, Any], limit_s: float) -> Reply:
        try:
            if self._environment is None:
                self._environment = self._open_environment()
            return self._environment.call(what, slots, limit_s)
        except EnvironmentDiedError as died:
            self._environment = None
            return self._run_again(str(died))
        except EnvironmentHungError as hung:
            self._environment = None
            return self._hung(slots, str(hung), hung.stack)

    def _run_again(self, reason: str) -> Reply:
        lost = [playing.leased for playing in self._playing.values()]
        self._playing.clear()
        self._drop_recordings(lost)
        if not self._stop.is_set():
            self._leases.give_back(lost, reason)
        return Reply({}, {})

    def _hung(self, slots: dict[int, Any], error: str, stack: str) -> Reply:
        """Of a batched process only the slots of the call can be to blame; the others run again."""
        guilty = {slot: playing for slot, playing in self._playing.items() if slot in slots or len(self._playing) == 1}
        rest = [playing.leased for slot, playing in self._playing.items() if slot not in guilty]
        ended = {slot: _errored(playing.leased, error, stack) for slot, playing in guilty.items()}
        self._drop_recordings([playing.leased for playing in self._playing.values()])
        for slot in list(self._playing):
            if slot not in guilty:
                del self._playing[slot]
        if rest:
            self._leases.give_back(rest, error)
        return Reply({}, ended)

    def _drop_recordings(self, episodes: list[LeasedEpisode]) -> None:
        """What a process that was lost had written of them: no half video stays."""
        for episode in episodes:
            folder = Path(self._spec.blob_dir) / str(episode.condition.index) / str(episode.attempt)
            shutil.rmtree(folder, ignore_errors=True)

    def _asker(self, slot: int) -> Asker:
        if slot not in self._askers:
            self._askers[slot] = self._open_asker()
        return self._askers[slot]


def _errored(leased: LeasedEpisode, error: str, traceback: str) -> EpisodeOutcome:
    return EpisodeOutcome(
        index=leased.condition.index, attempt=leased.attempt, steps=0, acts=0, error=error, traceback=traceback
    )
