"""An eval's rows as one frozen table, which the report and the details beside it are both computed from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from runner.evals.costs import machines_usd
from runner.evals.plan import Machines
from runner.evals.stats import Scored, Summary, summarize
from runner.store.db import Session
from runner.store.queries import episodes as episode_rows
from runner.store.queries import workers as worker_rows
from runner.store.tables import Episode, Eval, Worker
from seq.contract.evals import EpisodeRow
from seq.contract.internal import Condition, EpisodeOutcome


@dataclass(frozen=True)
class Row:
    """One episode: as planned, where it stands, and its outcome once it is done."""

    condition: Condition
    state: str
    attempt: int
    outcome: EpisodeOutcome | None

    @property
    def scored(self) -> bool:
        """Whether its metrics count."""
        return self.outcome is not None and self.outcome.error is None


@dataclass(frozen=True)
class Table:
    """An eval, all its episodes by index and its policy workers, read at `now`."""

    row: Eval
    episodes: tuple[Row, ...]
    workers: tuple[Worker, ...]
    now: float

    @cached_property
    def states(self) -> Counter[str]:
        """How many episodes are pending, leased, done, not_run."""
        return Counter(episode.state for episode in self.episodes)

    @property
    def outcomes(self) -> list[EpisodeOutcome]:
        """Outcomes of finished episodes, by index."""
        return [episode.outcome for episode in self.episodes if episode.outcome is not None]

    @property
    def failed(self) -> list[EpisodeOutcome]:
        """Outcomes of episodes that ended in an error."""
        return [outcome for outcome in self.outcomes if outcome.error is not None]

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """Every metric's means and intervals."""
        return summarize(
            Scored(
                episode.condition.index,
                episode.condition.task,
                episode.condition.suite,
                tuple(episode.condition.variation),
                episode.outcome.metrics,
            )
            for episode in self.episodes
            if episode.scored and episode.outcome is not None
        )

    @property
    def wall_s(self) -> float:
        """From its submission to its end, or until now."""
        return (self.row.ended_at or self.now) - self.row.created_at

    @property
    def cost_usd(self) -> float:
        """What its machines cost for that long."""
        sides = (self.row.plan["policy"], self.row.plan["benchmark"])
        return sum(machines_usd(Machines(**side), self.wall_s) for side in sides)

    @property
    def scored(self) -> int:
        """How many episodes count."""
        return sum(episode.scored for episode in self.episodes)

    @property
    def missing(self) -> dict[str, int]:
        """Metrics that some scored episodes lack, and how many do."""
        return {name: self.scored - s.overall.n for name, s in self.summaries.items() if s.overall.n < self.scored}

    @property
    def incomplete(self) -> bool:
        """Whether an episode that was planned has not been scored, or not by every metric."""
        return self.scored < self.row.total or bool(self.missing)


def read(session: Session, row: Eval, now: float) -> Table:
    """The table of an eval as it stands."""
    episodes = tuple(_row(episode) for episode in episode_rows.listed(session, row.id))
    return Table(row, episodes, tuple(worker_rows.of_eval(session, row.id)), now)


def wire_row(episode: Row) -> EpisodeRow:
    """An episode as the details document, the paged list and the CSV have it."""
    planned, outcome = episode.condition, episode.outcome
    told = {"index": planned.index, "task": planned.task, "seed": planned.seed, "suite": planned.suite}
    if outcome is None:
        return EpisodeRow(**told, variation=planned.variation, attempts=episode.attempt)
    return EpisodeRow(
        **told,
        variation=planned.variation,
        steps=outcome.steps,
        terminated=outcome.terminated,
        truncated=outcome.truncated,
        timed_out=outcome.timed_out,
        recorded=outcome.recorded,
        error=outcome.error,
        metrics=outcome.metrics,
        trajectory=outcome.trajectory,
        attempts=episode.attempt,
        acts=outcome.acts,
    )


def page_rows(session: Session, row: Eval, offset: int, limit: int) -> list[EpisodeRow]:
    """One page of an eval's episodes."""
    return [wire_row(_row(episode)) for episode in episode_rows.listed(session, row.id, offset=offset, limit=limit)]


def _row(episode: Episode) -> Row:
    outcome = EpisodeOutcome.model_validate(episode.outcome) if episode.outcome is not None else None
    return Row(Condition.model_validate(episode.condition), episode.state, episode.attempt, outcome)
