"""The report of an eval as text, and its episodes as CSV. Pure: what the platform sent in, lines out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seq import _report_sentences as sentences
from seq._numbers import bounds, duration, money, shown
from seq._printable import printable
from seq._report_view import Arm, Score, Scores, Trouble, View, part, rows, view
from seq.cli._text import count
from seq.report import ArmParams, ArmResult, EvalReport, Timing

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


def report_lines(report: EvalReport, details: Json) -> list[str]:
    """The whole report, in the order a reader asks: what ran, how it ended, the scores, what to know about them."""
    seen = view(report, details)
    return [
        *_ran(seen.manifest),
        *(line for params in report.arm_params or [] for line in _params(params, len(report.arm_params or []))),
        *_status(seen),
        *_latency(details),
        *_metrics(seen),
        *(f"adapter: {step.transform} is lossy: {step.reason}" for step in report.adapter_lossy),
        *(f"incomplete: {line}" for line in sentences.incomplete(seen)),
        *_notes(seen),
        *(f"video: {link}" for link in report.videos),
        *(line for trouble in seen.troubles for line in _trouble(trouble, seen)),
        *(f"error: {_indented(text)}" for text in seen.other_errors),
        *_arms(seen),
        *(f"compare: {pair.arm_b} - {pair.arm_a}  {pair.metric}: {sentences.difference(pair)}" for pair in seen.pairs),
        *sentences.previous(details),
        *_timing(report.timing, details),
        *([f"stopped: {report.stop_reason}"] if report.stop_reason else []),
    ]


def metric_lines(report: EvalReport, details: Json) -> Iterator[str]:
    """Each metric of the first arm: overall, macro, per suite, per task and per variant, with the values' intervals."""
    return _metrics(view(report, details))


def csv_text(episodes: Iterable[Json]) -> str:
    """One row an episode in index order; floats in their shortest exact form, so that equal runs are equal bytes.

    Episodes of several arms get a last column `arm`; those of one index stay in the order given.
    """
    ordered = sorted(episodes, key=lambda episode: int(episode["index"]))
    metrics = sorted({name for row in ordered for name in row.get("metrics") or {}})
    several = len({row.get("arm") for row in ordered}) > 1
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *(_guarded(name) for name in metrics), *(["arm"] if several else [])])
    for row in ordered:
        values = row.get("metrics") or {}
        arm = [_guarded(str(row.get("arm") or ""))] if several else []
        writer.writerow([*_cells(row), *(_number(values.get(name)) for name in metrics), *arm])
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


def _ran(manifest: Json) -> Iterator[str]:
    if not manifest:
        return
    parts = [sentences.versioned(manifest.get("benchmark"), manifest.get("benchmark_version"))]
    if manifest.get("adapter"):
        parts.append(sentences.adapter(manifest["adapter"]))
    parts.append(sentences.versioned(manifest.get("model"), manifest.get("model_version")))
    seeds = f", seeds {sentences.seeds(manifest['seeds'])}" if manifest.get("seeds") else ""
    yield f"ran: {' + '.join(parts)}  {count(manifest.get('episodes'))} episode(s){seeds}"
    if manifest.get("pretend"):
        yield "cards: pretend; it ran on the CPU, so its times and its cost are no card's"
    again = sentences.rerun(manifest)
    if again:
        yield f"rerun: {again}"


def _params(params: ArmParams, arms: int) -> Iterator[str]:
    settings = [
        sentences.setting(side, name, value.value, value.source)
        for side in ("policy", "adapter", "benchmark", "eval")
        for name, value in getattr(params, side).items()
    ]
    which = f" {params.arm}" if arms > 1 else ""
    if settings:
        yield f"params{which}: {' · '.join(settings)}"
    if params.steps is not None and params.queries is not None:
        yield f"steps{which}: {params.steps}, of which {params.queries} asked the policy"


def _status(seen: View) -> Iterator[str]:
    report, earlier = seen.report, seen.manifest.get("earlier_cost_usd")
    more = f" (the earlier eval cost {money(earlier)})" if earlier is not None else ""
    yield f"report: {report.status}  cost {money(report.cost_usd)}{more}"
    took = sentences.took(seen.details)
    if took:
        yield took
    if seen.first.counts and not seen.several and not seen.incomplete:
        yield f"episodes: {sentences.counts(seen.first.counts)}"


def _latency(details: Json) -> Iterator[str]:
    told = sentences.latency(details)
    if told:
        yield f"latency: {told}"


def _metrics(seen: View) -> Iterator[str]:
    if seen.several:
        yield f"scores of arm {seen.first.name}:"
    for name, scores in seen.first.scores.items():
        yield _value(f"{name}:", scores.overall, _kind(scores))
        if scores.micro is not None and not scores.is_micro:
            yield _value("  micro mean", scores.micro, "by episode")
        if scores.macro is not None:
            yield _value("  macro mean", scores.macro, "by task")
        as_failures = sentences.errors_as_failures(seen.first, name, scores)
        if as_failures is not None:
            yield _value("  errors as failures", Score(*as_failures))
        for kind, group in (("suite", scores.suites), ("task", scores.tasks), ("variant", scores.variants)):
            for key, score in group.items():
                yield _value(f"  {kind} {key}", score)


def _kind(scores: Scores) -> str:
    if scores.by_score:
        return "by the benchmark's score()"
    return "micro mean, by episode" if scores.is_micro else ""


def _value(label: str, score: Score, kind: str = "") -> str:
    line = f"{label:<24} {shown(score.mean)}"
    if score.n is not None:
        line += f"  n={score.n}"
    if score.interval is not None:
        line += f"  95% CI {bounds(*score.interval)}"
    return f"{line}{' *' if score.small else ''}{f'  {kind}' if kind else ''}"


def _notes(seen: View) -> Iterator[str]:
    """What the reader should know of the scores: doubts, other conditions, and what was lost, moved or run again."""
    yield from (f"warning: {line}" for line in sentences.warnings(seen))
    starts = sentences.starts(seen.details)
    if starts:
        yield f"starts: {starts}"
    yield from (f"differs: {line}" for line in seen.details.get("differs") or [])
    yield from (f"happened: {line}" for line in seen.details.get("happened") or [])
    note = part(seen.details, "time_limit").get("note")
    if note:
        yield f"note: {note}"


def _trouble(trouble: Trouble, seen: View) -> Iterator[str]:
    where = [f"arm {trouble.arm}"] if trouble.arm and seen.several else []
    if trouble.episodes:
        where.append(f"episodes {sentences.many(trouble.episodes, trouble.count)}")
    told = f" ({'; '.join(where)})" if where else ""
    trace = f"\n{trouble.traceback}" if trouble.traceback else ""
    yield f"error: {trouble.count} x {_indented(f'{trouble.cause}{told}{trace}')}"


def _indented(text: str) -> str:
    return printable(text).rstrip().replace("\n", "\n  ")


def _arms(seen: View) -> Iterator[str]:
    """A line an arm: all its metrics, and how its episodes ended."""
    results = {result.arm: result for result in seen.report.arms or []}
    if not seen.several:
        yield from (_result(result) for result in results.values())
        return
    for arm in seen.arms:
        result = results.get(arm.name)
        told = sentences.counts(arm.counts) or (_ended(result) if result is not None else "")
        stopped = "  stopped by its budget" if result is not None and result.budget_stopped else ""
        yield f"arm {arm.name} ({sentences.versioned(arm.model, arm.version)}): {_values(arm)}  {told}{stopped}"


def _result(result: ArmResult) -> str:
    values = "  ".join(_brief(name, value, result.intervals.get(name)) for name, value in result.metrics.items())
    stopped = "  stopped by its budget" if result.budget_stopped else ""
    return f"arm {result.arm} ({result.model}): {values}  {_ended(result)}{stopped}"


def _ended(result: ArmResult) -> str:
    return f"{result.episodes} ran, {result.failed} failed, {result.not_run} not run"


def _values(arm: Arm) -> str:
    return "  ".join(
        _brief(name, scores.overall.mean, scores.overall.interval)
        + (f", {_brief('macro', scores.macro.mean, scores.macro.interval)}" if scores.macro is not None else "")
        for name, scores in arm.scores.items()
    )


def _brief(name: str, value: float, interval: tuple[float, float] | None) -> str:
    return f"{name} {shown(value)}{f' {bounds(*interval)}' if interval is not None else ''}"


def _timing(timing: Timing | None, details: Json) -> Iterator[str]:
    if timing is not None and timing.step_ms:
        yield "timing: " + " · ".join(f"{phase} {mean:.2f} ms" for phase, mean in timing.step_ms.items())
    if timing is not None and timing.cold_start_s:
        yield "start: " + " · ".join(f"{side} {duration(taken)}" for side, taken in timing.cold_start_s.items())
    for load in rows(details, "load"):
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
