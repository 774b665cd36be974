"""An eval's rows as frozen tables, one an arm, which the report and the details beside it are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from runner.evals import columns, parts
from runner.evals.columns import Columns, Gathering
from runner.evals.costs import machine_usd, worker_usd
from runner.evals.plan import MIN_CORES, MIN_GIB
from runner.evals.selection import Selection, counter
from runner.evals.stats import Difference, Grouping, Summary, difference, is_rate, summarize
from runner.store.blobs import Blobs
from runner.store.db import Session
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as instance_rows
from runner.store.queries import workers as worker_rows
from runner.store.queries.episodes import Counts
from runner.store.tables import Arm, Eval, Instance, Worker
from seq.contract.evals import EpisodeRow
from seq.contract.internal import EpisodeOutcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_KEPT = 32
_SELECTIONS: WeakKeyDictionary[Any, dict[str, Selection]] = WeakKeyDictionary()


@dataclass(frozen=True)
class ArmTable:
    """One arm: how far it is, and its finished episodes; `selection` are the starts that every arm plays."""

    arm: Arm
    counts: Counts
    columns: Columns
    selection: Selection
    scores: dict[str, Any]

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm.name

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The start of each finished episode, (n,)."""
        return self.columns.index - self.arm.first

    @cached_property
    def grouping(self) -> Grouping:
        """Which task, suite, variation and cluster each scored episode belongs to."""
        return grouping(self.selection, self.starts[self.columns.scored])

    @cached_property
    def metrics(self) -> dict[str, Floats]:
        """Metrics of the scored episodes, NaN where one lacks it."""
        return {name: values[self.columns.scored] for name, values in self.columns.metrics.items()}

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """Every metric's means and intervals."""
        return summarize(self.metrics, self.grouping)

    @property
    def scored(self) -> int:
        """How many episodes count."""
        return int(self.columns.scored.sum())

    @property
    def errored(self) -> int:
        """How many ended in an error."""
        return int(self.columns.failed.sum())

    @property
    def planned(self) -> int:
        """How many there are to be."""
        return len(self.selection)

    @cached_property
    def missing(self) -> dict[str, int]:
        """Metrics that some scored episodes lack, and how many do."""
        lacking = {name: int(np.isnan(values).sum()) for name, values in self.metrics.items()}
        return {name: times for name, times in lacking.items() if times}

    @property
    def incomplete(self) -> bool:
        """Whether an episode that was planned has not been scored, or not by every metric."""
        return self.scored < self.planned or bool(self.missing)


@dataclass(frozen=True)
class Pair:
    """Two arms on the episodes that both scored, by one metric."""

    metric: str
    arm_a: str
    arm_b: str
    difference: Difference


@dataclass(frozen=True)
class Table:
    """An eval, its arms by number, its workers and its instances, read at `now`."""

    row: Eval
    arms: tuple[ArmTable, ...]
    workers: tuple[Worker, ...]
    instances: tuple[Instance, ...]
    now: float
    earlier_cost_usd: float | None = None

    @property
    def first(self) -> ArmTable:
        """The arm of the policy that was asked for, with the first of the swept values."""
        return self.arms[0]

    @property
    def selection(self) -> Selection:
        """The starts that every arm plays."""
        return self.first.selection

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every other arm against the first, by every metric that both have."""
        return [pair for other in self.arms[1:] for pair in paired(self.first, other)]

    @cached_property
    def counts(self) -> Counts:
        """How far all arms together are."""
        return sum((one.counts for one in self.arms), Counts())

    @property
    def incomplete(self) -> bool:
        """Whether an episode that was planned has not been scored, or not by every metric."""
        return any(one.incomplete for one in self.arms)

    @property
    def wall_s(self) -> float:
        """From its submission, or from its turn where it waited for cards, to its end or until now."""
        return (self.row.ended_at or self.now) - (self.row.begun_at or self.row.created_at)

    @property
    def cost_usd(self) -> float:
        """What its machines cost, each from when it was started until it ended."""
        return spent_usd(self.row, self.workers, self.instances, self.now)


def spent_usd(row: Eval, workers: Sequence[Worker], instances: Sequence[Instance], now: float) -> float:
    """What an eval's machines cost so far."""
    plan, spent = row.plan, 0.0
    sides = {side["version_id"]: side["machines"] for side in plan["policies"]}
    for worker in workers:
        if worker.token_hash is None:
            continue  # it was never started
        side = sides.get(worker.version_id) or {"cores": MIN_CORES, "memory_gb": MIN_GIB}
        card = worker.card if worker.cards == 1 else f"{worker.card}:{worker.cards}"
        spent += worker_usd(card, side["cores"], side["memory_gb"], (worker.ended_at or now) - worker.created_at)
    side = plan["benchmark"]
    for instance in instances:
        if instance.token_hash is not None:
            seconds = (instance.ended_at or now) - instance.created_at
            spent += machine_usd(side["card"], side["cores"], side["memory_gb"], seconds)
    return spent


def read(session: Session, blobs: Blobs, row: Eval, now: float) -> Table:
    """The table of an eval as it stands."""
    arms = {arm.number: columns.read(session, blobs, arm) for arm in eval_rows.arms(session, row.id)}
    return _table(session, row, now, arms)


def head(session: Session, row: Eval, now: float) -> Table:
    """The same without any episode: what ran, not how it went."""
    arms = {arm.number: Gathering().columns() for arm in eval_rows.arms(session, row.id)}
    return _table(session, row, now, arms)


def _table(session: Session, row: Eval, now: float, found: Mapping[int, Columns]) -> Table:
    selection, scores = selection_of(session, row), row.scores or {}
    counts = rows.counts_of_arms(session, row)
    arms = tuple(
        ArmTable(arm, counts[arm.number], found[arm.number], selection, scores.get(str(arm.number), {}))
        for arm in eval_rows.arms(session, row.id)
    )
    workers = tuple(worker_rows.of_eval(session, row.id))
    instances = tuple(instance_rows.of_eval(session, row.id))
    return Table(row, arms, workers, instances, now, _earlier_cost(session, row, now))


def selection_of(session: Session, row: Eval) -> Selection:
    """The starts of an eval, which never change: read once for each of the newest evals of a store."""
    kept = _SELECTIONS.setdefault(session.get_bind(), {})
    if row.id not in kept:
        if len(kept) >= MOST_KEPT:
            kept.pop(next(iter(kept)), None)
        kept[row.id] = Selection.of_wire(eval_rows.selection(session, row.id))
    return kept[row.id]


def grouping(selection: Selection, starts: Ints) -> Grouping:
    """Where each of these starts belongs; episodes of one task and seed share a cluster."""
    blocks = selection.blocks
    tasks, suites = _numbered(b.task for b in blocks), _numbered(b.suite for b in blocks if b.suite)
    variations = _numbered(b.variation for b in blocks)
    variants = _numbered(f"{axis}={value}" for variation in variations for axis, value in variation)
    of_block = selection.block_of(starts)
    task = np.asarray([tasks[b.task] for b in blocks], dtype=np.int32)[of_block]
    _, seed = np.unique(selection.seeds_of(starts), return_inverse=True)
    return Grouping(
        tasks=tuple(tasks),
        task=task,
        suites=tuple(suites),
        suite=np.asarray([suites[b.suite] if b.suite else -1 for b in blocks], dtype=np.int32)[of_block],
        variants=tuple(variants),
        variation=np.asarray([variations[b.variation] for b in blocks], dtype=np.int32)[of_block],
        of_variation=tuple(tuple(variants[f"{axis}={value}"] for axis, value in given) for given in variations),
        cluster=task.astype(np.int64) * (len(starts) + 1) + seed,
    )


def paired(a: ArmTable, b: ArmTable) -> list[Pair]:
    """b minus a by every metric that both have, over the starts that both scored; of one eval or of two."""
    of_a, of_b = _matched(a, b)
    clusters = a.grouping.cluster[of_a]
    found = []
    for metric in sorted(a.metrics.keys() & b.metrics.keys()):
        mine, its = a.metrics[metric], b.metrics[metric]
        rate = is_rate(metric, np.concatenate([mine[~np.isnan(mine)], its[~np.isnan(its)]]))
        left, right = mine[of_a], its[of_b]
        both = ~(np.isnan(left) | np.isnan(right))
        if both.any():
            one = difference(left[both], right[both], clusters[both], rate=rate)
            found.append(Pair(metric, a.name, b.name, one))
    return found


def space(row: Eval, arms: Sequence[Arm]) -> int:
    """How many episodes the lists of an eval number: those of all arms, with what a rerun took over."""
    return int(row.plan["starts"]) * len(arms)


def page_rows(session: Session, blobs: Blobs, row: Eval, offset: int, limit: int) -> list[EpisodeRow]:
    """One page of an eval's episodes by index; one that has not finished has no steps."""
    arms, selection = eval_rows.arms(session, row.id), selection_of(session, row)
    last = min(offset + limit, space(row, arms)) - 1
    found = outcomes_between(session, blobs, row, offset, last)
    return [_episode_row(selection, arms, index, found.get(index)) for index in range(offset, last + 1)]


def outcomes_between(
    session: Session, blobs: Blobs, row: Eval, first: int, last: int
) -> dict[int, tuple[str, dict[str, Any]]]:
    """Finished episodes with an index from `first` to `last`: the eval that played each, and its outcome's body."""
    found: dict[int, tuple[str, dict[str, Any]]] = {}
    if row.rerun_of:
        earlier = eval_rows.get(session, row.rerun_of)
        arms = eval_rows.arms(session, row.id)
        if earlier is not None:
            taken_over = outcomes_between(session, blobs, earlier, first, last)
            again = {arm.number: counter(arm.todo) for arm in arms}
            starts = int(row.plan["starts"])
            found = {
                index: outcome
                for index, outcome in taken_over.items()
                if not _holds(again[index // starts], index % starts)
            }
    for part in rows.parts(session, row.id):
        if part.first <= last and part.last >= first:
            filed = parts.outcomes(blobs, part, first, last)
            found |= {index: (row.id, body) for index, body in filed.items()}
    for episode in rows.between(session, row.id, first, last):
        if episode.state == "done" and episode.outcome is not None:
            found[episode.index] = (row.id, episode.outcome)
    return found


def _episode_row(
    selection: Selection, arms: Sequence[Arm], index: int, found: tuple[str, dict[str, Any]] | None
) -> EpisodeRow:
    arm = arms[index // len(selection)]
    planned = selection.condition(index - arm.first, index)
    told = {
        "index": index,
        "arm": arm.name,
        "task": planned.task,
        "seed": planned.seed,
        "suite": planned.suite,
        "variation": planned.variation,
    }
    if found is None:
        return EpisodeRow(**told, attempts=0)
    outcome = EpisodeOutcome.model_validate(found[1])
    return EpisodeRow(
        **told,
        steps=outcome.steps,
        terminated=outcome.terminated,
        truncated=outcome.truncated,
        timed_out=outcome.timed_out,
        recorded=outcome.recorded,
        error=outcome.error,
        metrics=outcome.metrics,
        trajectory=outcome.trajectory,
        attempts=outcome.attempt,
        acts=outcome.acts,
        wall_s=round(outcome.wall_s, 3),
    )


def _matched(a: ArmTable, b: ArmTable) -> tuple[Ints, Ints]:
    """Places in the scored episodes of both that are one start: task, seed and variation, the n-th time it is there."""
    mine, its = a.starts[a.columns.scored], b.starts[b.columns.scored]
    if a.selection.blocks != b.selection.blocks:
        there = _numbered((block.task, block.variation) for one in (a, b) for block in one.selection.blocks)
        seeds = np.concatenate([a.selection.seeds_of(mine), b.selection.seeds_of(its)])
        _, seed = np.unique(seeds, return_inverse=True)
        what = np.concatenate([_kinds(a.selection, mine, there), _kinds(b.selection, its, there)])
        start = what * (len(seeds) + 1) + seed
        n_th = np.concatenate([_times_before(start[: len(mine)]), _times_before(start[len(mine) :])])
        _, code = np.unique(start, return_inverse=True)
        key = code * (n_th.max(initial=0) + 1) + n_th
        mine, its = key[: len(mine)], key[len(mine) :]
    _, of_a, of_b = np.intersect1d(mine, its, assume_unique=True, return_indices=True)
    return of_a, of_b


def _kinds(selection: Selection, starts: Ints, numbers: dict[Any, int]) -> Ints:
    """The number of each start's task and variation, (n,)."""
    kinds = [numbers[block.task, block.variation] for block in selection.blocks]
    return np.asarray(kinds, dtype=np.int64)[selection.block_of(starts)]


def _times_before(given: Ints) -> Ints:
    """How often each number was there before, (n,)."""
    order = np.argsort(given, kind="stable")
    ordered = given[order]
    first = np.searchsorted(ordered, ordered)
    times = np.empty(len(given), dtype=np.int64)
    times[order] = np.arange(len(given)) - first
    return times


def _holds(below: Callable[[int], int], number: int) -> bool:
    """Whether ascending ranges hold a number; `below` counts what they hold below one."""
    return below(number + 1) > below(number)


def _numbered(given: Iterable[Any]) -> dict[Any, int]:
    """Each different thing with its number, in the order of its first time."""
    return {thing: number for number, thing in enumerate(dict.fromkeys(given))}


def _earlier_cost(session: Session, row: Eval, now: float) -> float | None:
    """What the evals cost that a rerun completes."""
    earlier = eval_rows.get(session, row.rerun_of) if row.rerun_of else None
    if earlier is None:
        return None
    workers, instances = worker_rows.of_eval(session, earlier.id), instance_rows.of_eval(session, earlier.id)
    return spent_usd(earlier, workers, instances, now) + (_earlier_cost(session, earlier, now) or 0.0)
