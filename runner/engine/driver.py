"""Drives one environment process: keeps it in episodes and lines, watches it, hands in what is finished."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from runner.engine import progress as phases
from runner.engine.environment import Environment, EnvironmentBrokenError, EnvironmentDiedError
from runner.engine.lines import Lines, NoWorkerError
from runner.engine.progress import Standing
from runner.engine.relay import AskingStoppedError
from seq.contract.internal import EpisodeOutcome, InstanceSpec, LeasedEpisode

LOOK_EVERY_S = 0.5
GRACE_S = 30.0
"""An episode with a time limit is over with it; one step that takes so much longer never returns."""
SETUP_DEATHS = 3
"""So many processes in a row that end while they are set up are no accident."""


class Leases(Protocol):
    """Where episodes come from and go back to."""

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode]:
        """Up to `free` episodes; with `wait`, blocks until there is one, or the empty list when the eval is over."""

    @property
    def ample(self) -> bool:
        """Whether there are more than all environments can begin: one may then have its next one beforehand."""

    def give_back(self, episodes: list[LeasedEpisode], reason: str) -> None:
        """Episodes that must run again."""


class Tell(Protocol):
    """What an instance hears of its environments."""

    def ready(self, setup_s: float, facts: dict[str, str]) -> None:
        """One is set up."""

    def facts(self, facts: dict[str, str]) -> None:
        """One knows more of what it runs on."""

    def moved(self, count: int, reason: str) -> None:
        """So many slots lost the copy that answered them and go on at another."""


class Driver:
    """Called by one thread: `run` returns when the eval has no episode left for this process, or was stopped.

    `first` is the number of the process's first slot among all environments of the eval.
    """

    def __init__(
        self,
        spec: InstanceSpec,
        leases: Leases,
        finished: Callable[[EpisodeOutcome], None],
        open_environment: Callable[[], Environment],
        lines: Lines,
        tell: Tell,
        stop: threading.Event,
        *,
        slots: int,
        first: int,
    ) -> None:
        self._spec = spec
        self._leases = leases
        self._finished = finished
        self._open_environment = open_environment
        self._lines = lines
        self._tell = tell
        self._stop = stop
        self._slots = slots
        self._first = first
        self._held: dict[int, LeasedEpisode] = {}
        self._environment: Environment | None = None
        self._ready = False
        self._suspect: Standing | None = None
        self._deaths = 0

    def run(self) -> None:
        """Play until nothing is left. Raises EnvironmentBrokenError when the benchmark cannot be set up."""
        try:
            while not self._stop.is_set():
                try:
                    if not self._play():
                        return
                except EnvironmentDiedError as died:
                    self._lost(str(died))
        except AskingStoppedError:
            return
        finally:
            self.kill()

    def kill(self) -> None:
        """End the environment process; from any thread."""
        environment = self._environment
        if environment is not None:
            environment.kill()

    def _play(self) -> bool:
        """One turn: episodes in, what it says out; False when nothing is left to play."""
        if self._environment is None:
            self._ready = False
            self._environment = self._open_environment()
        environment = self._environment
        ahead = 1 if self._leases.ample else 0
        room = self._slots + ahead - len(self._held)
        if room > 0:
            episodes = self._leases.take(room, wait=not self._held)
            if not episodes and not self._held:
                return False
            self._held |= {episode.condition.index: episode for episode in episodes}
            if episodes:
                environment.play(episodes)
        message = environment.hear(LOOK_EVERY_S)
        if message is None:
            self._watch(environment)
        else:
            self._suspect = None
            self._hear(environment, message)
        return True

    def _hear(self, environment: Environment, message: dict[str, Any]) -> None:
        if "error" in message:
            raise EnvironmentBrokenError(message["error"], message["traceback"])
        if "ready" in message:
            self._ready = True
            self._tell.ready(float(message["ready"]), message["facts"])
        if "facts" in message and "ended" in message:
            self._tell.facts(message["facts"])
        for body in message.get("ended", ()):
            outcome = EpisodeOutcome.model_validate(body)
            self._held.pop(outcome.index, None)
            self._finished(outcome)
        if "open" in message:
            self._open_lines(environment, message["open"], message["reason"])

    def _open_lines(self, environment: Environment, slots: list[int], reason: str | None) -> None:
        lines: list[socket.socket] = []
        try:
            lines.extend(self._lines.open(self._first + slot) for slot in slots)
        except NoWorkerError as none:
            for line in lines:
                line.close()
            environment.refuse(str(none))
            return
        if reason is not None:
            self._tell.moved(len(slots), reason)
        environment.hand(lines)

    def _watch(self, environment: Environment) -> None:
        """End a process whose setup, reset or step never returns: its episode is told, the others run again."""
        now = time.monotonic()
        if not self._ready:
            if now - environment.begun > self._spec.setup_limit_s:
                what = f"the benchmark's setup did not return within {self._spec.setup_limit_s:g} s and was ended"
                raise EnvironmentBrokenError(what, environment.stack())
            return
        seen = environment.standing()
        limit = self._limit_s(seen)
        if limit is None or now - seen.since <= limit or self._suspect != seen:
            self._suspect = seen
            return
        stack = environment.stack()
        if environment.standing() != seen:
            return
        if seen.phase == phases.ACT:
            self._hung(seen, f"the policy did not answer within {limit:g} s", stack)
        else:
            what = f"the benchmark's {phases.NAMES[seen.phase]}"
            self._hung(seen, f"{what} did not return within {limit:g} s and was ended", stack)

    def _limit_s(self, seen: Standing) -> float | None:
        """How long this phase may take; None where it is nobody's to bound."""
        if seen.phase in (phases.RESET, phases.IDLE):
            return self._spec.reset_limit_s if seen.phase == phases.RESET else None
        if seen.phase == phases.ACT:
            return self._spec.act_limit_s
        concerned = [index for slot, index in seen.episodes.items() if slot in seen.concerned]
        held = [self._held[index].condition for index in concerned if index in self._held]
        limits = [condition.timeout_s + GRACE_S for condition in held if condition.timeout_s is not None]
        return min([self._spec.step_limit_s, *limits])

    def _hung(self, seen: Standing, error: str, stack: str) -> None:
        """Of a batched process only the slots of the call can be to blame."""
        self.kill()
        self._environment = None
        guilty = {index for slot, index in seen.episodes.items() if slot in seen.concerned}
        for index in sorted(guilty & self._held.keys()):
            leased = self._held.pop(index)
            self._drop_files(leased)
            self._finished(
                EpisodeOutcome(index=index, attempt=leased.attempt, steps=0, acts=0, error=error, traceback=stack)
            )
        self._give_back(error)

    def _lost(self, reason: str) -> None:
        self.kill()
        self._environment = None
        self._deaths = 0 if self._ready else self._deaths + 1
        if self._deaths >= SETUP_DEATHS and not self._stop.is_set():
            raise EnvironmentBrokenError(f"the benchmark cannot be set up: {reason}", None)
        self._give_back(reason)

    def _give_back(self, reason: str) -> None:
        lost = list(self._held.values())
        self._held.clear()
        for leased in lost:
            self._drop_files(leased)
        if lost and not self._stop.is_set():
            self._leases.give_back(lost, reason)

    def _drop_files(self, leased: LeasedEpisode) -> None:
        """What a process that was lost had written of an attempt: no half video stays."""
        folder = Path(self._spec.blob_dir) / str(leased.condition.index) / str(leased.attempt)
        shutil.rmtree(folder, ignore_errors=True)
