"""A report and the details beside it, read into one shape: arms, their scores, their differences. Pure.

Any key of the details may be missing (an older platform, a report read alone), so text, page, picture and gates are
made from this and not from the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from seq.contract.evals import OPEN_STATUSES
from seq.report import ArmResult, EvalReport, MetricAgg

Json = Mapping[str, Any]

SMALL = 10
RATE_NAMES = ("success", "is_", "has_")
_SAME = 1e-6  # an interval belongs to a shown value only when their means agree


@dataclass(frozen=True)
class Score:
    """A mean over `n` episodes (or of `n` groups), and the 95 % interval it lies in where there is one."""

    mean: float
    n: int | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both bounds, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def small(self) -> bool:
        """Whether it rests on fewer than ten episodes."""
        return self.n is not None and self.n < SMALL


@dataclass(frozen=True)
class Scores:
    """One metric of one arm. `by_score`: the benchmark's own `score` gave `overall`, so it is no mean of episodes."""

    overall: Score
    micro: Score | None = None
    macro: Score | None = None
    suites: Mapping[str, Score] = field(default_factory=dict)
    tasks: Mapping[str, Score] = field(default_factory=dict)
    variants: Mapping[str, Score] = field(default_factory=dict)
    by_score: bool = False

    @property
    def is_micro(self) -> bool:
        """Whether `overall` is known to be the micro mean, each episode weighing the same."""
        return self.micro is not None and not self.by_score and same(self.micro.mean, self.overall.mean)

    def all(self) -> list[Score]:
        """Every value of the metric."""
        means = [score for score in (self.overall, self.micro, self.macro) if score is not None]
        return [*means, *self.suites.values(), *self.tasks.values(), *self.variants.values()]


@dataclass(frozen=True)
class Arm:
    """One arm as far as it is known; `counts` has some of planned, ran, scored, errored, not_run, succeeded, ..."""

    name: str
    model: str
    version: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, Scores] = field(default_factory=dict)

    @property
    def short(self) -> bool:
        """Whether an episode that was planned has not been scored."""
        planned, scored = self.counts.get("planned"), self.counts.get("scored")
        return planned is not None and scored is not None and scored < planned


@dataclass(frozen=True)
class Pair:
    """Arm b minus arm a over the `n` episodes that both scored; `won` counts those in which b is higher."""

    metric: str
    arm_a: str
    arm_b: str
    n: int
    mean_diff: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    comparisons: int | None = None
    won: int | None = None
    lost: int | None = None
    method: str | None = None
    p_method: str | None = None


@dataclass(frozen=True)
class Trouble:
    """A cause of errors: how many episodes it ended, some of their indices, and one traceback."""

    cause: str
    count: int
    arm: str | None = None
    traceback: str | None = None
    episodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class View:
    """Everything that is shown of an eval's outcome; the first arm is the policy that was asked for."""

    report: EvalReport
    details: Json
    arms: tuple[Arm, ...]
    pairs: tuple[Pair, ...]
    troubles: tuple[Trouble, ...]

    @property
    def first(self) -> Arm:
        """The policy that was asked for."""
        return self.arms[0]

    @property
    def manifest(self) -> Json:
        """Exactly what ran."""
        return part(self.details, "manifest")

    @property
    def several(self) -> bool:
        """Whether there is more than one arm."""
        return len(self.arms) > 1

    @property
    def incomplete(self) -> bool:
        """Whether any arm lacks a score of an episode that was planned."""
        return bool(self.report.incomplete) or any(arm.short for arm in self.arms)

    @property
    def other_errors(self) -> list[str]:
        """Lines of the report's errors that do not tell the causes of `troubles` again."""
        causes = tuple(trouble.cause for trouble in self.troubles if trouble.cause)
        return [text for text in self.report.errors if not (causes and text.startswith(causes))]

    @property
    def metrics(self) -> list[str]:
        """Names of all metrics: the first arm's in their order, then what only others have."""
        return list(dict.fromkeys(name for arm in self.arms for name in arm.scores))

    @property
    def primary(self) -> str | None:
        """The metric that a picture shows: `success` where there is one, else the first."""
        names = self.metrics
        return "success" if "success" in names else next(iter(names), None)

    def is_rate(self, metric: str) -> bool:
        """Whether the first arm's metric is a mean of zeros and ones: by its episodes where they are listed, else by
        its name and a whole count of ones. The rule is the platform's own.
        """
        scores = self.first.scores.get(metric)
        if scores is None or scores.by_score:
            return False
        values, named = self._values(metric), metric.startswith(RATE_NAMES)
        if values:
            return values == {0.0, 1.0} or (values < {0.0, 1.0} and named)
        mean, n = scores.overall.mean, scores.overall.n
        return named and n is not None and 0 <= mean <= 1 and abs(mean * n - round(mean * n)) < _SAME

    def _values(self, metric: str) -> set[float]:
        """The values of the first arm's listed episodes."""
        listed = (row for row in rows(self.details, "episodes") if row.get("arm") in (None, self.first.name))
        found = (part(row, "metrics").get(metric) for row in listed)
        return {float(value) for value in found if value is not None}


def view(report: EvalReport, details: Json | None = None) -> View:
    """Read both documents; the details are those that the report came with, unless others are given."""
    told = report._beside.details if details is None else details  # noqa: SLF001  no public name: the fields are published
    return View(report, told, tuple(_arms(report, told)), tuple(_pairs(report, told)), tuple(_troubles(told)))


def part(document: Json, key: str) -> Json:
    """An object inside a document; empty where there is none."""
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


def rows(document: Json, key: str) -> list[Json]:
    """A list of objects inside a document; empty where there is none."""
    return [row for row in document.get(key) or [] if isinstance(row, Mapping)]


def same(a: float, b: float) -> bool:
    """Whether two means are one, by the published tolerance of 1e-6."""
    return abs(a - b) <= _SAME


def _arms(report: EvalReport, details: Json) -> Iterable[Arm]:
    results = report.arms or []
    told = rows(details, "arms")
    if not told and len(results) > 1:
        told = [{"arm": result.arm, "model": result.model, "params": result.params} for result in results]
    first, *others = told or [{}]
    yield _first(report, details, first)
    by_name = {result.arm: result for result in results}
    for row in others:
        yield _other(row, by_name.get(str(row.get("arm"))), list(report.metrics))


def _first(report: EvalReport, details: Json, row: Json) -> Arm:
    """The first arm: its values stand in the report itself."""
    manifest = part(details, "manifest")
    intervals = part(details, "intervals") or part(row, "intervals")
    means = part(details, "means") or part(row, "means")
    by_score = set(row.get("scored_by") or [])
    model = str(row.get("model") or manifest.get("model") or "policy")
    return Arm(
        name=str(row.get("arm") or model),
        model=model,
        version=row.get("model_version", manifest.get("model_version")),
        params=part(row, "params"),
        counts=_counts(part(row, "counts") or part(details, "counts")),
        scores={
            name: _reported(metric, part(intervals, name), part(means, name), by_score=name in by_score)
            for name, metric in report.metrics.items()
        },
    )


def _reported(metric: MetricAgg, leaves: Json, means: Json, *, by_score: bool) -> Scores:
    suites, tasks, variants = (part(leaves, group) for group in ("per_suite", "per_task", "per_variant"))
    return Scores(
        overall=_owned(metric.overall, metric.n, leaves.get("overall"), by_score=by_score),
        micro=_leaf(means.get("micro")),
        macro=_leaf(means.get("macro")),
        suites={s.suite: _owned(s.value, s.n, suites.get(s.suite), by_score=by_score) for s in metric.per_suite},
        tasks={t.task: _owned(t.value, t.n, tasks.get(t.task), by_score=by_score) for t in metric.per_task},
        variants=_group(variants, by_score=by_score),
        by_score=by_score,
    )


def _other(row: Json, result: ArmResult | None, order: list[str]) -> Arm:
    """Any further arm: its values stand in its row of the details, or at least overall in the report's."""
    leaves, means = part(row, "intervals"), part(row, "means")
    results = _results(result)
    known = {*leaves, *means, *results}
    by_score = set(row.get("scored_by") or [])
    scores = {}
    for name in [*(name for name in order if name in known), *sorted(known - set(order))]:
        found = _told(part(leaves, name), part(means, name), results.get(name), by_score=name in by_score)
        if found is not None:
            scores[name] = found
    return Arm(
        name=str(row.get("arm") or row.get("model") or "?"),
        model=str(row.get("model") or (result.model if result is not None else "?")),
        version=row.get("model_version"),
        params=part(row, "params"),
        counts=_counts(part(row, "counts")),
        scores=scores,
    )


def _results(result: ArmResult | None) -> dict[str, Score]:
    """What the report itself says of an arm that is not the first."""
    if result is None:
        return {}
    return {name: Score(value, None, *result.intervals.get(name, ())) for name, value in result.metrics.items()}


def _told(leaves: Json, means: Json, result: Score | None, *, by_score: bool) -> Scores | None:
    micro = _leaf(means.get("micro"))
    leaf = _leaf(leaves.get("overall")) or micro
    overall = _joined(result, leaf) if result is not None else leaf
    if overall is None:
        return None
    if by_score:
        overall = Score(overall.mean, overall.n)
    return Scores(
        overall=overall,
        micro=micro,
        macro=_leaf(means.get("macro")),
        suites=_group(part(leaves, "per_suite"), by_score=by_score),
        tasks=_group(part(leaves, "per_task"), by_score=by_score),
        variants=_group(part(leaves, "per_variant"), by_score=by_score),
        by_score=by_score,
    )


def _group(leaves: Json, *, by_score: bool) -> dict[str, Score]:
    read = {str(name): _leaf(leaf) for name, leaf in leaves.items()}
    return {
        name: Score(score.mean, score.n) if by_score else score for name, score in read.items() if score is not None
    }


def _joined(result: Score, leaf: Score | None) -> Score:
    """The report's value, with what the leaf knows beyond it where both are one value."""
    return leaf if leaf is not None and same(result.mean, leaf.mean) else result


def _owned(value: float, n: int | None, leaf: Any, *, by_score: bool) -> Score:
    """A value with the interval of its leaf, where that leaf is of this value."""
    read = None if by_score else _leaf(leaf)
    if read is None or not same(read.mean, value):
        return Score(value, n)
    return Score(value, n if n is not None else read.n, read.low, read.high)


def _leaf(leaf: Any) -> Score | None:
    """A leaf of the details; a mean whose interval is not known may come as a bare number."""
    if isinstance(leaf, (int, float)):
        return Score(float(leaf))
    if not isinstance(leaf, Mapping) or leaf.get("mean") is None:
        return None
    low, high = _number(leaf.get("low")), _number(leaf.get("high"))
    known = low is not None and high is not None
    n = leaf.get("n")
    return Score(
        float(leaf["mean"]), int(n) if n is not None else None, low if known else None, high if known else None
    )


def _number(value: Any) -> float | None:
    return None if value is None or not isfinite(value) else float(value)


def _counts(counts: Json) -> dict[str, int]:
    return {str(name): int(count) for name, count in counts.items() if isinstance(count, (int, float))}


def _pairs(report: EvalReport, details: Json) -> Iterable[Pair]:
    """Without p while episodes are still played: who looks again and again would find one that is small by luck."""
    told = rows(details, "paired")
    early = {"p": None, "p_adjusted": None} if report.status in OPEN_STATUSES else {}
    for row in told:
        if row.get("mean_diff") is not None:
            yield _pair({**row, **early})
    if not told:
        for pair in report.paired or []:
            yield Pair(pair.metric, pair.arm_a, pair.arm_b, pair.n, pair.mean_diff, *pair.interval)


def _pair(row: Json) -> Pair:
    low, high = _number(row.get("low")), _number(row.get("high"))
    known = low is not None and high is not None
    return Pair(
        metric=str(row.get("metric")),
        arm_a=str(row.get("arm_a")),
        arm_b=str(row.get("arm_b")),
        n=int(row.get("n") or 0),
        mean_diff=float(row["mean_diff"]),
        low=low if known else None,
        high=high if known else None,
        p=_number(row.get("p")),
        p_adjusted=_number(row.get("p_adjusted")),
        comparisons=row.get("comparisons"),
        won=row.get("won"),
        lost=row.get("lost"),
        method=row.get("method"),
        p_method=row.get("p_method"),
    )


def _troubles(details: Json) -> Iterable[Trouble]:
    for row in rows(details, "errors"):
        yield Trouble(
            cause=str(row.get("cause") or ""),
            count=int(row.get("count") or 0),
            arm=row.get("arm"),
            traceback=row.get("traceback"),
            episodes=tuple(int(index) for index in row.get("episodes") or []),
        )
