"""The report of an eval as text, and its episodes as CSV. Pure: what the platform sent in, lines out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seq.cli._text import count, duration, money
from seq.report import ArmParams, ArmResult, EvalReport, PairedDifference, Timing

Json = Mapping[str, Any]

CSV_COLUMNS = (
    "index",
    "task",
    "seed",
    "suite",
    "variation",
    "steps",
    "terminated",
    "truncated",
    "timed_out",
    "recorded",
    "error",
)
_SAME = 1e-6  # an interval belongs to a shown value only when their means agree


def report_lines(report: EvalReport, details: Json) -> list[str]:
    """The whole report, in the order a reader asks: what ran, how it ended, the scores, what to know about them."""
    return [
        *_ran(details.get("manifest") or {}),
        *(line for params in report.arm_params or [] for line in _params(params, len(report.arm_params or []))),
        *_status(report, details),
        *_latency(details.get("latency") or {}),
        *metric_lines(report, details),
        *(f"adapter: {step.transform} is lossy: {step.reason}" for step in report.adapter_lossy),
        *_incomplete(report, details),
        *_happened(details),
        *(f"video: {link}" for link in report.videos),
        *(_indented(f"error: {text}") for text in report.errors),
        *(_arm(arm) for arm in report.arms or []),
        *(_paired(pair) for pair in report.paired or []),
        *_timing(report.timing, details),
        *([f"stopped: {report.stop_reason}"] if report.stop_reason else []),
    ]


def metric_lines(report: EvalReport, details: Json) -> Iterator[str]:
    """Each metric overall, per suite, per task and per variant, with the interval that belongs to the value."""
    intervals = details.get("intervals") or {}
    for name, metric in report.metrics.items():
        leaves = intervals.get(name) or {}
        yield _value(f"{name}:", metric.overall, metric.n, leaves.get("overall"))
        for suite in metric.per_suite:
            yield _value(
                f"  suite {suite.suite}", suite.value, suite.n, (leaves.get("per_suite") or {}).get(suite.suite)
            )
        for task in metric.per_task:
            yield _value(f"  task {task.task}", task.value, task.n, (leaves.get("per_task") or {}).get(task.task))
        for variant, leaf in (leaves.get("per_variant") or {}).items():
            yield _value(f"  variant {variant}", leaf["mean"], leaf["n"], leaf)


def csv_text(episodes: Iterable[Json]) -> str:
    """One row an episode in index order; floats in their shortest exact form, so that equal runs are equal bytes."""
    rows = sorted(episodes, key=lambda episode: int(episode["index"]))
    metrics = sorted({name for row in rows for name in row.get("metrics") or {}})
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *(_guarded(name) for name in metrics)])
    for row in rows:
        values = row.get("metrics") or {}
        writer.writerow([*_cells(row), *(_number(values.get(name)) for name in metrics)])
    return written.getvalue()


def _cells(row: Json) -> list[str]:
    variation = ";".join(f"{axis}={value}" for axis, value in row.get("variation") or [])
    return [
        str(row["index"]),
        _guarded(str(row["task"])),
        str(row["seed"]),
        _guarded(row.get("suite") or ""),
        _guarded(variation),
        str(row.get("steps", 0)),
        *("true" if row.get(flag) else "false" for flag in ("terminated", "truncated", "timed_out", "recorded")),
        _guarded(row.get("error") or ""),
    ]


def _guarded(text: str) -> str:
    """A text that a spreadsheet would run as a formula gets a leading quote; line breaks are all one kind."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _ran(manifest: Json) -> list[str]:
    if not manifest:
        return []
    adapter = manifest.get("adapter")
    parts = [_versioned(manifest.get("benchmark"), manifest.get("benchmark_version"))]
    if isinstance(adapter, Mapping):
        digest = f" (sha256 {str(adapter['sha256'])[:12]})" if adapter.get("sha256") else ""
        parts.append(_versioned(adapter.get("name"), adapter.get("version")) + digest)
    elif adapter:
        parts.append(str(adapter))
    parts.append(_versioned(manifest.get("model"), manifest.get("model_version")))
    seeds = _seeds(manifest.get("seeds") or [])
    pretend = ["cards: pretend; it ran on the CPU, so its times and its cost are no card's"]
    return [
        f"ran: {' + '.join(parts)}  {count(manifest.get('episodes'))} episode(s){seeds}",
        *(pretend if manifest.get("pretend") else []),
    ]


def _versioned(name: Any, version: Any) -> str:
    return str(name) if version is None else f"{name} v{version}"


def _seeds(seeds: Sequence[int]) -> str:
    if not seeds:
        return ""
    ordered = sorted(seeds)
    if ordered == list(range(ordered[0], ordered[0] + len(ordered))) and len(ordered) > 1:
        return f", seeds {ordered[0]}..{ordered[-1]} ({len(ordered)})"
    shown = ", ".join(str(seed) for seed in ordered[:10])
    return f", seeds {shown}{', ...' if len(ordered) > 10 else ''} ({len(ordered)})"


def _params(params: ArmParams, arms: int) -> Iterator[str]:
    own = {"policy": "policy", "adapter": "adapter", "benchmark": "benchmark", "eval": "platform"}
    shown = [
        f"{side}.{name}={value.value} ({_source(value.source, own[side])})"
        for side in own
        for name, value in getattr(params, side).items()
    ]
    which = f" {params.arm}" if arms > 1 else ""
    if shown:
        yield f"params{which}: {' · '.join(shown)}"
    if params.steps is not None and params.queries is not None:
        yield f"steps{which}: {params.steps}, of which {params.queries} asked the policy"


def _source(source: str, own: str) -> str:
    return "set" if source == "cli" else f"{source}'s default" if source == own else f"from the {source}"


def _status(report: EvalReport, details: Json) -> list[str]:
    earlier = (details.get("manifest") or {}).get("earlier_cost_usd")
    more = f" (the earlier eval cost {money(earlier)})" if earlier is not None else ""
    lines = [f"report: {report.status}  cost {money(report.cost_usd)}{more}"]
    actual, estimate = details.get("actual") or {}, details.get("estimate") or {}
    if actual.get("wall_clock_s") is not None and estimate.get("wall_clock_s") is not None:
        lines.append(f"took {duration(actual['wall_clock_s'])}, estimated {duration(estimate['wall_clock_s'])}")
    return lines


def _latency(latency: Json) -> list[str]:
    if latency.get("act_ms_mean") is None:
        return []
    mean, slowest = latency["act_ms_mean"], latency["act_ms_max"]
    return [f"latency: act mean {mean:.1f} ms, slowest {slowest:.1f} ms over {count(latency.get('acts'))} act(s)"]


def _value(label: str, value: float, n: int, leaf: Json | None) -> str:
    line = f"{label:<24} {value:.3f}  n={n}"
    if leaf and leaf.get("low") is not None and abs(leaf["mean"] - value) <= _SAME:
        line += f"  95% CI [{leaf['low']:.3f}, {leaf['high']:.3f}]"
    return f"{line} *" if n < 10 else line


def _incomplete(report: EvalReport, details: Json) -> list[str]:
    progress = details.get("progress") or {}
    lines = []
    if report.incomplete:
        scored = max((metric.n for metric in report.metrics.values()), default=0)
        lines.append(
            f"incomplete: {scored} of {count(progress.get('total'))} episode(s) scored "
            f"({count(progress.get('failed'))} failed, {count(progress.get('not_run'))} not run)"
        )
    return lines


def _happened(details: Json) -> Iterator[str]:
    """What was lost, moved or run again: the scores are the same, and the reader should know."""
    yield from (f"happened: {event}" for event in details.get("happened") or [])


def _indented(text: str) -> str:
    return text.rstrip().replace("\n", "\n  ")


def _arm(arm: ArmResult) -> str:
    metrics = "  ".join(
        f"{name} {value:.3f}"
        + (f" [{arm.intervals[name][0]:.3f}, {arm.intervals[name][1]:.3f}]" if name in arm.intervals else "")
        for name, value in arm.metrics.items()
    )
    stopped = "  stopped by its budget" if arm.budget_stopped else ""
    ran = f"{arm.episodes} ran, {arm.failed} failed, {arm.not_run} not run"
    return f"arm {arm.arm} ({arm.model}): {metrics}  {ran}{stopped}"


def _paired(pair: PairedDifference) -> str:
    low, high = pair.interval
    return (
        f"compare: {pair.arm_b} - {pair.arm_a}  {pair.metric}: {pair.mean_diff:+.3f}  "
        f"95% CI [{low:+.3f}, {high:+.3f}] over {pair.n} paired episode(s)"
    )


def _timing(timing: Timing | None, details: Json) -> Iterator[str]:
    if timing is not None and timing.step_ms:
        yield "timing: " + " · ".join(f"{phase} {mean:.2f} ms" for phase, mean in timing.step_ms.items())
    if timing is not None and timing.cold_start_s:
        yield "start: " + " · ".join(f"{side} {duration(taken)}" for side, taken in timing.cold_start_s.items())
    for load in details.get("load") or []:
        yield from _load(load)


def _load(load: Json) -> Iterator[str]:
    for policy in load.get("policies") or []:
        busy = policy.get("busy")
        share = f", busy {busy:.0%}" if busy is not None else ""
        yield f"policy {policy.get('instance')}: {count(policy.get('requests'))} request(s){share}"
    if load.get("benchmark_busy") is not None:
        yield f"benchmark: busy {load['benchmark_busy']:.0%}, waited for the policy {load.get('policy_wait') or 0:.0%}"
    moved, again = load.get("episodes_moved"), load.get("episodes_rerun")
    if moved or again:
        yield f"happened: {moved or 0} episode(s) moved to another instance, {again or 0} run again"
