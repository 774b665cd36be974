"""The report: strict, what every client validates. Pure, over one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.evals.columns import Cause, Columns
from runner.evals.parameters import SIDES, Settings
from runner.evals.plan import arm_params
from runner.evals.stats import Summary
from runner.evals.table import ArmTable, Pair, Table
from seq.contract.evals import (
    ArmBody,
    ArmParams,
    LossyTransform,
    MetricAgg,
    PairBody,
    ReportBody,
    SuiteAgg,
    TaskAgg,
    Timing,
)

MOST_VIDEOS = 5000


def report(table: Table, base_url: str) -> ReportBody:
    """The report of an eval as it stands; links begin with `base_url`."""
    row, several = table.row, len(table.arms) > 1
    adapter = row.plan["adapter"]
    return ReportBody(
        status=row.status,
        metrics=aggregates(table.first),
        cost_usd=table.cost_usd,
        dashboard_url=f"{base_url}/v1/eval/{row.id}",
        adapter_lossy=[LossyTransform(transform=t, reason=r) for t, r in (adapter["lossy"] if adapter else [])],
        videos=[f"{base_url}/v1/eval/{row.id}/videos/{index}.mp4" for index in _recorded(table)],
        incomplete=table.incomplete,
        errors=list(_errors(table)),
        arms=[_arm(one, stopped=row.over_budget) for one in table.arms] if several else None,
        paired=list(_pairs(table.pairs)) if several else None,
        timing=_timing(table),
        stop_reason=row.stop_reason,
        arm_params=[_params(one) for one in table.arms],
    )


def aggregates(arm: ArmTable) -> dict[str, MetricAgg]:
    """Every metric of an arm, by task and suite; what the benchmark's own score says of a group stands in its place."""
    found = {name: _aggregate(summary) for name, summary in arm.summaries.items()}
    names = dict.fromkeys([*found, *sorted(arm.scores.get("overall") or {})])
    return {name: _scored(name, found.get(name), arm) for name in names}


def score_names(scores: Mapping[str, Any]) -> list[str]:
    """The metrics that the benchmark's own score replaced or added, in any group."""
    groups = [scores.get("overall") or {}, *_groups(scores, "per_task"), *_groups(scores, "per_suite")]
    return sorted({name for group in groups for name in group})


def _groups(scores: Mapping[str, Any], kind: str) -> list[Mapping[str, float]]:
    return list((scores.get(kind) or {}).values())


def _aggregate(summary: Summary) -> MetricAgg:
    return MetricAgg(
        overall=summary.overall.mean,
        n=summary.overall.n,
        per_task=[TaskAgg(task=task, value=group.mean, n=group.n) for task, group in summary.per_task.items()],
        per_suite=[SuiteAgg(suite=suite, value=group.mean, n=group.n) for suite, group in summary.per_suite.items()],
    )


def _scored(name: str, found: MetricAgg | None, arm: ArmTable) -> MetricAgg:
    """A metric with the values that `score` gave: of the whole, of tasks, of suites."""
    scores, sizes = arm.scores, arm.scores.get("sizes") or {}
    overall = scores.get("overall") or {}
    tasks = {task: group[name] for task, group in (scores.get("per_task") or {}).items() if name in group}
    suites = {suite: group[name] for suite, group in (scores.get("per_suite") or {}).items() if name in group}
    own = found or MetricAgg(overall=overall[name], n=sizes.get("overall", 0))
    return MetricAgg(
        overall=overall.get(name, own.overall),
        n=own.n,
        per_task=_merged(own.per_task, tasks, sizes.get("per_task") or {}, TaskAgg, "task"),
        per_suite=_merged(own.per_suite, suites, sizes.get("per_suite") or {}, SuiteAgg, "suite"),
    )


def _merged(given: list[Any], values: Mapping[str, float], sizes: Mapping[str, int], kind: Any, key: str) -> list[Any]:
    there = {getattr(one, key): one for one in given}
    names = dict.fromkeys([*there, *values])
    return [
        kind(
            **{key: name},
            value=values[name] if name in values else there[name].value,
            n=int(there[name].n) if name in there else sizes.get(name, 0),
        )
        for name in names
    ]


def _recorded(table: Table) -> list[int]:
    found = [int(index) for one in table.arms for index in one.columns.index[one.columns.flags["recorded"]]]
    return found[:MOST_VIDEOS]


def _errors(table: Table) -> Iterator[str]:
    row = table.row
    if row.error:
        yield with_traceback(row.error, row.traceback)
    several = len(table.arms) > 1
    for one in table.arms:
        of_arm = f" of {one.name}" if several else ""
        for cause in one.columns.causes:
            yield with_traceback(f"{cause.text} ({cause.count} of {one.planned} episodes{of_arm})", cause.traceback)
        for cause in one.columns.unrecorded:
            yield f"recording failed: {cause.text} ({cause.count} episodes{of_arm}; their scores stand)"
        for name, times in one.missing.items():
            yield f"{name}: missing in {times} of {one.scored} scored episodes{of_arm}"
        for name in score_names(one.scores):
            if name not in one.metrics and name not in (one.scores.get("overall") or {}):
                yield f"score: {name} was returned of some groups and not of all episodes, so it is not listed{of_arm}"
        for line in one.scores.get("errors") or []:
            yield f"{line}{of_arm}"


def with_traceback(line: str, traceback: str | None) -> str:
    """A sentence, and the author's own frames below it where there are some."""
    return f"{line}\n{traceback.rstrip()}" if traceback else line


def _arm(one: ArmTable, *, stopped: bool) -> ArmBody:
    return ArmBody(
        arm=one.name,
        model=one.arm.model,
        params=arm_params(Settings.of_wire(one.arm.settings)),
        metrics={name: metric.overall for name, metric in aggregates(one).items()},
        intervals={
            name: (summary.overall.low, summary.overall.high)
            for name, summary in one.summaries.items()
            if summary.overall.low is not None
            and summary.overall.high is not None
            and name not in (one.scores.get("overall") or {})
        },
        episodes=len(one.columns),
        failed=one.errored,
        not_run=one.planned - len(one.columns) if one.counts.not_run else 0,
        budget_stopped=stopped and one.counts.not_run > 0,
    )


def _pairs(given: Iterable[Pair]) -> Iterator[PairBody]:
    """Those with an interval, which the published shape cannot leave out."""
    for pair in given:
        found = pair.difference
        if found.low is not None and found.high is not None:
            yield PairBody(
                metric=pair.metric,
                arm_a=pair.arm_a,
                arm_b=pair.arm_b,
                n=found.n,
                mean_diff=found.mean_diff,
                interval=(found.low, found.high),
            )


def _params(one: ArmTable) -> ArmParams:
    settings: dict[str, Any] = {side: one.arm.settings.get(side) or {} for side in SIDES}
    steps, acts = (int(one.columns.counts[name].sum()) for name in ("steps", "acts"))
    return ArmParams(arm=one.name, **settings, queries=acts, steps=steps)


def _timing(table: Table) -> Timing:
    told = table.row.timing
    cold = {"benchmark": max((event["setup_s"] for event in told.get("started", [])), default=None)}
    cold["policy"] = told.get("load_s")
    found = [one.columns for one in table.arms]
    phases = sorted({phase for one in found for phase in one.phase_n})
    step_ms = {phase: mean_ms(found, phase) for phase in phases}
    return Timing(
        cold_start_s={side: seconds for side, seconds in cold.items() if seconds is not None},
        step_ms={phase: mean for phase, mean in step_ms.items() if mean is not None},
        batch_size_mean=told.get("batch_size_mean"),
        steps=sum(int(one.counts["steps"].sum()) for one in found),
    )


def mean_ms(found: list[Columns], phase: str) -> float | None:
    """Mean time of a phase's occurrences, in ms."""
    times = sum(one.phase_n.get(phase, 0) for one in found)
    return 1000 * sum(one.phase_s.get(phase, 0.0) for one in found) / times if times else None


def cause_row(arm: str, cause: Cause) -> dict[str, Any]:
    """An error as the details list it."""
    told = {"cause": cause.text, "count": cause.count, "arm": arm, "episodes": cause.episodes}
    return {**told, "traceback": cause.traceback} if cause.traceback else told
