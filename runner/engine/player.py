"""Plays episodes in the slots of one world: leases them, asks the policy, steps whole chunks, hands outcomes in."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner.engine import progress as phases
from runner.engine.bridge import Bridge, Rows, TooFewRowsError
from runner.engine.episode import Episode
from runner.engine.policy import Anew, Answer, Ask, Failed, Policy
from runner.engine.progress import Progress
from runner.engine.record import Recorder, RecordError
from runner.engine.seeds import act_seed
from runner.engine.trajectory import NAME, Trajectory, without_images
from runner.engine.usercode import UserCodeError, frames, sentence
from runner.engine.worlds import World
from seq.contract.benchmarks import RenderSpec
from seq.contract.internal import EpisodeOutcome, LeasedEpisode


@dataclass(frozen=True)
class Files:
    """Where episodes leave what they saw: videos as `render` says (None: none), and trajectories."""

    folder: Path
    render: RenderSpec | None
    ffmpeg: str
    trajectories: bool = True

    def of(self, leased: LeasedEpisode, name: str) -> Path:
        """A file of one attempt at an episode."""
        return self.folder / str(leased.condition.index) / str(leased.attempt) / name


class Home(Protocol):
    """Where episodes come from and outcomes go."""

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode] | None:
        """Up to `free` episodes, of which there may be none; with `wait`, at least one, or None when none is left."""

    def ended(self, outcomes: list[EpisodeOutcome]) -> None:
        """Finished episodes."""


class EvalBrokenError(Exception):
    """What was asked of the eval cannot be; the message says what could."""


class Player:
    """Called by one thread: `run` returns when no episode is left; raises EvalBrokenError.

    An exception of the user's code closes the episode it happened in as an error (all those of the call, for a batched
    benchmark: nobody can tell which slot it was) and never the process.
    """

    def __init__(
        self,
        world: World,
        bridge: Bridge,
        policy: Policy,
        home: Home,
        files: Files,
        progress: Progress,
        root: str,
        *,
        slots: int = 1,
        has_score: bool = False,
    ) -> None:
        self._world = world
        self._bridge = bridge
        self._policy = policy
        self._home = home
        self._files = files
        self._progress = progress
        self._root = root
        self._slots = range(slots)
        self._has_score = has_score
        self._answered = False
        self._episodes: dict[int, Episode] = {}
        self._recorders: dict[int, Recorder] = {}
        self._trajectories: dict[int, Trajectory] = {}

    def run(self) -> None:
        """Play until nothing is left."""
        while self._fill():
            self._close_over()
            open_ones = [slot for slot, episode in self._episodes.items() if not episode.over]
            # Slots ask together: out of phase, every step would wait for somebody's round trip.
            if open_ones and all(self._episodes[slot].asks for slot in open_ones):
                self._ask(open_ones)
                self._close_over()
            self._advance()
            self._close_over()

    def _fill(self) -> bool:
        """Begin episodes in free slots; False when nothing plays and nothing is left."""
        free = [slot for slot in self._slots if slot not in self._episodes]
        if not free:
            return True
        if not self._episodes:
            self._progress.enter(phases.IDLE)
        leased = self._home.take(len(free), wait=not self._episodes)
        if leased:
            self._begin(dict(zip(free, leased, strict=False)))
        return leased is not None or bool(self._episodes)

    def _begin(self, starting: dict[int, LeasedEpisode]) -> None:
        for slot, leased in starting.items():
            self._progress.holds(slot, leased.condition.index)
            self._episodes[slot] = Episode(leased, uuid.uuid4().hex, time.monotonic(), has_score=self._has_score)
            if self._files.trajectories:
                self._trajectories[slot] = Trajectory(self._files.of(leased, NAME))
            if self._files.render is not None and leased.condition.record:
                path = self._files.of(leased, "video.mp4")
                self._recorders[slot] = Recorder(path, self._files.ffmpeg, self._files.render)
        self._reset(sorted(starting))

    def _reset(self, slots: list[int]) -> None:
        self._progress.about(slots)
        self._progress.enter(phases.RESET)
        with self._charged(slots):
            with self._guarded("reset", slots):
                self._world.reset(slots, [self._episodes[slot].condition for slot in slots])
            self._film(self._open(slots))

    def _ask(self, slots: list[int]) -> None:
        """One act of each slot: observe, adapt, ask, and take the rows of the answers."""
        self._progress.about(slots)
        self._progress.enter(phases.STEP)
        with self._charged(slots):
            asks = self._bodies(slots)
        self._progress.enter(phases.ACT)
        results = self._policy.ask(asks, self._write_down)
        anew = [slot for slot, result in results.items() if isinstance(result, Anew)]
        with self._charged(slots):
            for slot, result in results.items():
                self._take(slot, result)
        if anew:
            self._again(anew)

    def _bodies(self, slots: list[int]) -> dict[int, Ask]:
        asks: dict[int, Ask] = {}
        observations: dict[int, Any] = {}
        with self._guarded("observe", slots):
            observations = dict(zip(slots, self._world.observe(slots), strict=True))
        for slot in self._open(slots):
            episode = self._episodes[slot]
            with self._guarded("encode", [slot]):
                body = self._bridge.ask(observations[slot], episode.condition.task)
                ask = Ask(body, act_seed(episode.condition.seed, episode.acts), episode.episode_id)
                if slot in self._trajectories:
                    seen = without_images(body.get("observation", body.get("inputs")))
                    self._trajectories[slot].asked(episode.acts, ask.seed, episode.steps, seen)
                asks[slot] = ask
        return asks

    def _take(self, slot: int, result: Answer | Failed | Anew) -> None:
        episode = self._episodes[slot]
        if isinstance(result, Failed):
            episode.fail(result.message, result.traceback)
        elif isinstance(result, Answer):
            episode.acted(result.act_s, result.infer_s, result.waited_s)
            with self._guarded("adapter", [slot]):
                rows = self._rows(result.outputs)
                episode.rows.extend(rows)
                if slot in self._trajectories:
                    self._trajectories[slot].answered(rows)

    def _rows(self, outputs: Any) -> Rows:
        """Where already the first answer is too short for the interval, no episode of the eval can go on."""
        try:
            rows = self._bridge.rows(outputs)
        except TooFewRowsError as short:
            if self._answered:
                raise
            raise EvalBrokenError(str(short)) from short
        self._answered = True
        return rows

    def _again(self, slots: list[int]) -> None:
        """The episodes' state went with the copy that held it: they begin anew, from reset."""
        for slot in slots:
            episode = self._episodes[slot]
            self._episodes[slot] = episode.restarted(uuid.uuid4().hex, time.monotonic())
            if slot in self._trajectories:
                self._trajectories[slot] = Trajectory(self._files.of(episode.leased, NAME))
            if slot in self._recorders and self._files.render is not None:
                self._recorders.pop(slot).drop()
                path = self._files.of(episode.leased, "video.mp4")
                self._recorders[slot] = Recorder(path, self._files.ffmpeg, self._files.render)
        self._reset(slots)

    def _write_down(self) -> None:
        """What there is time for while the policy thinks."""
        for trajectory in self._trajectories.values():
            trajectory.pack()

    def _advance(self) -> None:
        """Step every slot that holds rows, all in one call, until one is over or none holds any."""
        playing = [slot for slot, episode in self._episodes.items() if episode.rows and not episode.over]
        if not playing:
            return
        self._progress.about(playing)
        with self._charged(playing):
            while playing and not any(self._episodes[slot].over for slot in playing):
                self._step(playing)
                playing = [slot for slot in playing if self._episodes[slot].rows or self._episodes[slot].over]

    def _step(self, slots: list[int]) -> None:
        self._progress.enter(phases.STEP)
        rows = [self._episodes[slot].rows.popleft() for slot in slots]
        begun = time.perf_counter()
        hook = "step"
        try:
            self._world.step(slots, rows)
            stepped = time.perf_counter()
            hook = "check"
            verdicts = self._world.check(slots)
        except UserCodeError as failed:
            self._fail(slots, str(failed), failed.traceback)
        except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
            self._fail(slots, f"the benchmark's {hook} failed: {sentence(failed)}", frames(failed, self._root))
        else:
            checked, now = time.perf_counter(), time.monotonic()
            for slot, verdict in zip(slots, verdicts, strict=True):
                episode = self._episodes[slot]
                episode.spent("step", (stepped - begun) / len(slots))
                episode.spent("check", (checked - stepped) / len(slots))
                episode.stepped(verdict, now)
            if self._recorders:
                self._film(slots)

    def _close_over(self) -> None:
        over = [slot for slot, episode in self._episodes.items() if episode.over]
        if over:
            self._progress.about(over)
            self._progress.enter(phases.CLOSE)
            self._home.ended([self._closed(slot) for slot in over])

    def _closed(self, slot: int) -> EpisodeOutcome:
        episode = self._episodes[slot]
        self._finish_recording(slot, episode)
        try:
            self._world.end(slot)
        except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
            episode.fail(f"closing the environment failed: {sentence(failed)}", frames(failed, self._root))
        self._finish_trajectory(slot, episode)
        self._policy.end_episode(slot, episode.episode_id)
        del self._episodes[slot]
        self._progress.holds(slot, None)
        return episode.outcome(time.monotonic())

    def _finish_recording(self, slot: int, episode: Episode) -> None:
        recorder = self._recorders.pop(slot, None)
        if recorder is None:
            return
        try:
            recorder.finish()
            episode.recorded = True
        except RecordError as failed:
            episode.record_error = str(failed)

    def _finish_trajectory(self, slot: int, episode: Episode) -> None:
        trajectory = self._trajectories.pop(slot, None)
        if trajectory is None:
            return
        try:
            trajectory.played(episode.steps)
            trajectory.finish(episode.end())
            episode.trajectory = True
        except OSError as failed:
            episode.record_error = episode.record_error or f"the trajectory could not be written: {failed.strerror}"

    def _film(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if slot not in self._recorders:
                continue
            with self._timed("record", [slot]):
                try:
                    self._recorders[slot].add(self._world.frame(slot, self._files.render.camera))  # type: ignore[union-attr]
                except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the user's render, or the disk: the score must not suffer
                    self._recorders.pop(slot).drop()
                    told = str(failed) if isinstance(failed, RecordError) else sentence(failed)
                    self._episodes[slot].record_error = told

    def _open(self, slots: Sequence[int]) -> list[int]:
        return [slot for slot in slots if not self._episodes[slot].over]

    @contextmanager
    def _guarded(self, phase: str, slots: Sequence[int]) -> Iterator[None]:
        with self._timed(phase, slots):
            try:
                yield
            except EvalBrokenError:
                raise
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
            spent = (time.process_time() - begun) / max(1, len(charged))
            for episode in charged:
                episode.cpu_s += spent
