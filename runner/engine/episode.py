"""One episode in a slot: what is left to play, and when it is over. Pure: nothing is called from here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from runner.worker.trace import readable
from seq import Step
from seq.contract.internal import Condition, EpisodeOutcome, LeasedEpisode

NO_METRIC = "@seq.check gave no metric in the step that closed the episode; return seq.Step(done, metrics={...})"


@dataclass
class Episode:
    """The state of one episode from reset to its outcome. Times are seconds of the player's clock.

    `episode_id` is what the policy knows it by; `has_score` that the benchmark scores by itself, so that `check` need
    give no metric; `restarts` how often it began anew.
    """

    leased: LeasedEpisode
    episode_id: str
    started: float
    has_score: bool = False
    restarts: int = 0
    rows: deque[Any] = field(default_factory=deque)
    steps: int = 0
    acts: int = 0
    over: bool = False
    terminated: bool = False
    truncated: bool = False
    timed_out: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    traceback: str | None = None
    record_error: str | None = None
    recorded: bool = False
    trajectory: bool = False
    cpu_s: float = 0.0
    act_s: float = 0.0
    act_max_s: float = 0.0
    infer_s: float = 0.0
    phase_s: dict[str, float] = field(default_factory=dict)
    phase_n: dict[str, int] = field(default_factory=dict)

    @property
    def condition(self) -> Condition:
        """What is played."""
        return self.leased.condition

    @property
    def asks(self) -> bool:
        """Whether the policy must be asked before the next step."""
        return not self.over and not self.rows

    def acted(self, act_s: float, infer_s: float, waited_s: float) -> None:
        """The policy answered; that there was no worker for `waited_s` is no part of the episode's time or limit."""
        self.started += waited_s
        self.acts += 1
        self.act_s += act_s
        self.act_max_s = max(self.act_max_s, act_s)
        self.infer_s += infer_s
        self.spent("act", act_s)

    def stepped(self, step: Step, now: float) -> None:
        """Count one step and close the episode on `done`, the step cap or the time limit.

        The author's rule wins: `done` is `check`'s alone, and the metrics are those of the step that closed it.
        """
        self.steps += 1
        cap = self.steps >= self.condition.max_steps
        late = self.condition.timeout_s is not None and now - self.started >= self.condition.timeout_s
        if not (step.done or cap or late):
            return
        if not step.metrics and not self.has_score:
            self.fail(NO_METRIC)
            return
        self.over = True
        self.metrics = {readable(name): float(value) for name, value in step.metrics.items()}
        self.terminated = step.terminated or (step.done and not step.truncated)
        self.truncated = step.truncated or not step.done
        self.timed_out = late and not step.done

    def fail(self, error: str, traceback: str | None = None) -> None:
        """Close the episode without a score."""
        self.over = True
        self.error = readable(error)
        self.traceback = None if traceback is None else readable(traceback)
        self.metrics = {}

    def restarted(self, episode_id: str, now: float) -> Episode:
        """The same episode from its reset on; what the processor spent on it so far stays spent."""
        return Episode(self.leased, episode_id, now, self.has_score, self.restarts + 1, cpu_s=self.cpu_s)

    def spent(self, phase: str, seconds: float) -> None:
        """Add to a phase's total."""
        self.phase_s[phase] = self.phase_s.get(phase, 0.0) + seconds
        self.phase_n[phase] = self.phase_n.get(phase, 0) + 1

    def end(self) -> dict[str, Any]:
        """How it ended, as the last line of its trajectory says."""
        told = {name: getattr(self, name) for name in ("steps", "terminated", "truncated", "timed_out", "metrics")}
        return {**told, "error": self.error} if self.error is not None else told

    def outcome(self, now: float) -> EpisodeOutcome:
        """What is sent to the gateway."""
        return EpisodeOutcome(
            index=self.condition.index,
            attempt=self.leased.attempt,
            steps=self.steps,
            acts=self.acts,
            terminated=self.terminated,
            truncated=self.truncated,
            timed_out=self.timed_out,
            metrics=self.metrics,
            error=self.error,
            traceback=self.traceback,
            recorded=self.recorded,
            record_error=self.record_error,
            trajectory=self.trajectory,
            restarts=self.restarts,
            wall_s=now - self.started,
            env_cpu_s=self.cpu_s,
            act_s=self.act_s,
            act_max_s=self.act_max_s,
            infer_s=self.infer_s,
            phase_s=self.phase_s,
            phase_n=self.phase_n,
        )
