"""Plays episodes in the slots of one world, whole chunks at a time, until a slot must ask the policy or is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.engine.bridge import Bridge
from runner.engine.episode import Episode
from runner.engine.record import Recorder, RecordError
from runner.engine.usercode import UserCodeError, frames, sentence
from runner.engine.worlds import World
from seq.contract.benchmarks import RenderSpec
from seq.contract.internal import EpisodeOutcome, LeasedEpisode


@dataclass(frozen=True)
class Recording:
    """How and where episodes are recorded."""

    spec: RenderSpec
    folder: Path
    ffmpeg: str


@dataclass
class Turn:
    """What a call of the player brought: bodies to ask the policy with, and outcomes, each by slot."""

    asks: dict[int, dict[str, Any]] = field(default_factory=dict)
    ended: dict[int, EpisodeOutcome] = field(default_factory=dict)


class Player:
    """Called by one thread: `reset` puts episodes into free slots, `play` hands answers in; both return a Turn.

    An exception of the user's code closes the episode it happened in as an error (all those of the call, for a batched
    benchmark: nobody can tell which slot it was) and never the process.
    """

    def __init__(self, world: World, bridge: Bridge, recording: Recording | None, root: str) -> None:
        self._world = world
        self._bridge = bridge
        self._recording = recording
        self._root = root
        self._episodes: dict[int, Episode] = {}
        self._recorders: dict[int, Recorder] = {}

    def reset(self, episodes: dict[int, LeasedEpisode]) -> Turn:
        """Begin `episodes` by slot and read their first observations."""
        slots = sorted(episodes)
        for slot in slots:
            leased = episodes[slot]
            self._episodes[slot] = Episode(leased.condition, leased.attempt, time.monotonic())
            if self._recording is not None and leased.condition.record:
                self._recorders[slot] = self._recorder(self._recording, leased)
        with self._charged(slots):
            with self._guarded("reset", slots):
                self._world.reset(slots, [episodes[slot].condition for slot in slots])
            self._film(self._open(slots))
        return self._turn(slots)

    def play(self, answers: dict[int, dict[str, Any]]) -> Turn:
        """Take the policy's answers, then step every slot that holds rows until one must ask or is over."""
        for slot, answer in sorted(answers.items()):
            self._episodes[slot].waited(answer.get("waited_s", 0.0))
            with self._guarded("adapter", [slot]):
                self._episodes[slot].rows.extend(self._bridge.rows(answer))
        playing = self._open(sorted(self._episodes))
        with self._charged(playing):
            while playing and not any(self._episodes[slot].asks or self._episodes[slot].over for slot in playing):
                self._advance(playing)
        return self._turn(sorted(self._episodes))

    def fail(self, slot: int, error: str, traceback: str | None) -> EpisodeOutcome:
        """Close a slot's episode as an error that happened outside (the policy's), and give its outcome."""
        self._episodes[slot].fail(error, traceback)
        return self._turn([slot]).ended[slot]

    def _advance(self, slots: list[int]) -> None:
        rows = [self._episodes[slot].rows.popleft() for slot in slots]
        with self._guarded("step", slots):
            self._world.step(slots, rows)
        stepped = self._open(slots)
        with self._guarded("check", stepped):
            if stepped:
                now = time.monotonic()
                for slot, step in zip(stepped, self._world.check(stepped), strict=True):
                    self._episodes[slot].stepped(step, now)
        self._film(stepped)

    def _turn(self, slots: Sequence[int]) -> Turn:
        turn = Turn()
        asking = [slot for slot in slots if self._episodes[slot].asks]
        with self._charged(asking):
            turn.asks = self._ask(asking)
        for slot in slots:
            if self._episodes[slot].over:
                turn.asks.pop(slot, None)
                turn.ended[slot] = self._close(slot)
        return turn

    def _ask(self, slots: Sequence[int]) -> dict[int, dict[str, Any]]:
        asks: dict[int, dict[str, Any]] = {}
        observations: dict[int, Any] = {}
        if slots:
            with self._guarded("observe", slots):
                observations = dict(zip(slots, self._world.observe(slots), strict=True))
        for slot in self._open(slots):
            with self._guarded("encode", [slot]):
                asks[slot] = self._bridge.ask(observations[slot], self._episodes[slot].condition.task)
        return asks

    def _close(self, slot: int) -> EpisodeOutcome:
        episode = self._episodes.pop(slot)
        recorder = self._recorders.pop(slot, None)
        if recorder is not None:
            try:
                recorder.finish()
                episode.recorded = True
            except RecordError as failed:
                episode.record_error = str(failed)
        try:
            self._world.end(slot)
        except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
            episode.fail(f"closing the environment failed: {sentence(failed)}", frames(failed, self._root))
        return episode.outcome(time.monotonic())

    def _film(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if slot not in self._recorders:
                continue
            with self._timed("record", [slot]):
                try:
                    self._recorders[slot].add(self._world.frame(slot, self._recording.spec.camera))  # type: ignore[union-attr]
                except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the user's render, or the disk: the score must not suffer
                    self._recorders.pop(slot).drop()
                    self._episodes[slot].record_error = (
                        str(failed) if isinstance(failed, RecordError) else sentence(failed)
                    )

    def _recorder(self, recording: Recording, leased: LeasedEpisode) -> Recorder:
        folder = recording.folder / str(leased.condition.index) / str(leased.attempt)
        return Recorder(folder / "video.mp4", recording.ffmpeg, recording.spec)

    def _open(self, slots: Sequence[int]) -> list[int]:
        return [slot for slot in slots if not self._episodes[slot].over]

    @contextmanager
    def _guarded(self, phase: str, slots: Sequence[int]) -> Iterator[None]:
        with self._timed(phase, slots):
            try:
                yield
            except UserCodeError as failed:
                self._fail(slots, str(failed), failed.traceback)
            except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
                self._fail(slots, f"the benchmark's {phase} failed: {sentence(failed)}", frames(failed, self._root))

    def _fail(self, slots: Sequence[int], error: str, traceback: str | None) -> None:
        for slot in slots:
            self._episodes[slot].fail(error, traceback)

    @contextmanager
    def _timed(self, phase: str, slots: Sequence[int]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            share = (time.perf_counter() - begun) / max(1, len(slots))
            for slot in slots:
                self._episodes[slot].spent(phase, share)

    @contextmanager
    def _charged(self, slots: Sequence[int]) -> Iterator[None]:
        # Processor time, not wall: cores are shared, and the estimate must hold for another layout.
        charged = [self._episodes[slot] for slot in slots]
        begun = time.process_time()
        try:
            yield
        finally:
            for episode in charged:
                episode.cpu_s += (time.process_time() - begun) / max(1, len(charged))
