"""The report (strict, what every client validates) and the details document beside it (open). Pure, over one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import fsum
from typing import Any

from runner.evals.plan import SCORE_NOTE
from runner.evals.stats import Interval, Summary
from runner.evals.table import Table, wire_row
from runner.store.tables import Worker
from seq.contract.evals import LossyTransform, MetricAgg, ReportBody, SuiteAgg, TaskAgg, Timing
from seq.contract.internal import EpisodeOutcome

MOST_EPISODES = 5000
MOST_CAUSES = 20
SHOWN = 10


def report(table: Table, base_url: str) -> ReportBody:
    """The report of an eval as it stands; links begin with `base_url`."""
    row = table.row
    adapter = row.plan["adapter"]
    return ReportBody(
        status=row.status,
        metrics={name: _aggregate(summary) for name, summary in table.summaries.items()},
        cost_usd=table.cost_usd,
        dashboard_url=f"{base_url}/v1/eval/{row.id}",
        adapter_lossy=[LossyTransform(transform=t, reason=r) for t, r in (adapter["lossy"] if adapter else [])],
        videos=[
            f"{base_url}/v1/eval/{row.id}/videos/{outcome.index}.mp4" for outcome in table.outcomes if outcome.recorded
        ],
        incomplete=table.incomplete,
        errors=_errors(table),
        timing=_timing(table),
        stop_reason=row.stop_reason,
    )


def details(table: Table) -> dict[str, Any]:
    """What the report has no room for: exactly what ran, intervals, episodes, and what happened on the way."""
    row = table.row
    whole = len(table.episodes) <= MOST_EPISODES
    return {
        "manifest": _manifest(table),
        "intervals": {name: _intervals(summary) for name, summary in table.summaries.items()},
        "means": {name: {"micro": s.overall.mean, "macro": s.macro} for name, s in table.summaries.items()},
        "episodes": [wire_row(episode).wire() for episode in table.episodes] if whole else [],
        "episodes_total": row.total,
        "episodes_path": f"/v1/eval/{row.id}/episodes",
        "progress": _progress(table),
        "latency": _latency(table.outcomes),
        "workers": [_worker(worker) for worker in table.workers],
        "counts": _counts(table),
        "happened": _happened(row.events),
        "episodes_moved": sum(event.get("count", 0) for event in row.events if event["kind"] == "moved"),
        "episodes_rerun": sum(len(event["episodes"]) for event in row.events if event["kind"] == "run_again"),
        "estimate": {"wall_clock_s": row.estimate["wall_clock_s"], "cost_usd": row.estimate["cost_usd"]},
        "actual": {"wall_clock_s": round(table.wall_s, 1), "cost_usd": table.cost_usd},
    }


def primary(table: Table) -> tuple[str, Interval] | None:
    """The metric a list shows: `success` where there is one, else the first by name."""
    if not table.summaries:
        return None
    name = "success" if "success" in table.summaries else next(iter(table.summaries))
    return name, table.summaries[name].overall


def _aggregate(summary: Summary) -> MetricAgg:
    return MetricAgg(
        overall=summary.overall.mean,
        n=summary.overall.n,
        per_task=[TaskAgg(task=task, value=group.mean, n=group.n) for task, group in summary.per_task.items()],
        per_suite=[SuiteAgg(suite=suite, value=group.mean, n=group.n) for suite, group in summary.per_suite.items()],
    )


def _errors(table: Table) -> list[str]:
    row = table.row
    lines = [_with_traceback(row.error, row.traceback)] if row.error else []
    lines += [
        _with_traceback(f"{cause} ({n} of {row.total} episodes)", trace) for cause, n, trace in _causes(table.failed)
    ]
    lines += [f"recording failed: {cause} ({n} episodes; their scores stand)" for cause, n in _unrecorded(table)]
    lines += [f"{name}: missing in {n} of {table.scored} scored episodes" for name, n in table.missing.items()]
    if row.plan["score"]:
        lines.append(SCORE_NOTE)
    return lines


def _causes(failed: Iterable[EpisodeOutcome]) -> list[tuple[str, int, str | None]]:
    """Errors by cause, most frequent first, each with one traceback."""
    failed = list(failed)
    counted = Counter(outcome.error or "" for outcome in failed)
    found = []
    for cause, times in counted.most_common(MOST_CAUSES):
        traces = (outcome.traceback for outcome in failed if outcome.error == cause and outcome.traceback)
        found.append((cause, times, next(traces, None)))
    return found


def _unrecorded(table: Table) -> list[tuple[str, int]]:
    return Counter(outcome.record_error for outcome in table.outcomes if outcome.record_error).most_common(MOST_CAUSES)


def _with_traceback(line: str, traceback: str | None) -> str:
    return f"{line}\n{traceback.rstrip()}" if traceback else line


def _timing(table: Table) -> Timing:
    told = table.row.timing
    cold = {"benchmark": max((event["setup_s"] for event in told.get("started", [])), default=None)}
    cold["policy"] = told.get("load_s")
    outcomes = table.outcomes
    phases = sorted({phase for outcome in outcomes for phase in outcome.phase_n})
    step_ms = {phase: _mean_ms(outcomes, phase) for phase in phases}
    return Timing(
        cold_start_s={side: seconds for side, seconds in cold.items() if seconds is not None},
        step_ms={phase: mean for phase, mean in step_ms.items() if mean is not None},
        steps=sum(outcome.steps for outcome in outcomes),
    )


def _mean_ms(outcomes: list[EpisodeOutcome], phase: str) -> float | None:
    times = sum(outcome.phase_n.get(phase, 0) for outcome in outcomes)
    return 1000 * fsum(outcome.phase_s.get(phase, 0.0) for outcome in outcomes) / times if times else None


def _manifest(table: Table) -> dict[str, Any]:
    row = table.row
    plan, adapter = row.plan, row.plan["adapter"]
    return {
        "eval_id": row.id,
        "model": row.model,
        "model_version": plan["model_version"],
        "benchmark": row.benchmark,
        "benchmark_version": plan["benchmark_version"],
        "adapter": {key: adapter[key] for key in ("name", "version", "sha256")} if adapter else None,
        "sha256": plan["sha256"],
        "episodes": row.total,
        "seeds": plan["seeds"],
        "params": {},
        "layout": {key: plan[key] for key in ("policy", "benchmark", "envs", "machine_cores")},
        "record": plan["record"],
        "notes": plan["notes"],
        "pretend": plan.get("pretend", False),
        "platform": plan["platform"],
        "request": row.request,
    }


def _intervals(summary: Summary) -> dict[str, Any]:
    groups = {"per_task": summary.per_task, "per_suite": summary.per_suite, "per_variant": summary.per_variant}
    # A group without an interval is left out: a reader of the published kind formats both bounds of whatever is there.
    by_group = {name: _known(found) for name, found in groups.items()}
    return {**_known({"overall": summary.overall}), **by_group}


def _known(found: dict[str, Interval]) -> dict[str, Any]:
    return {key: interval.wire() for key, interval in found.items() if interval.low is not None}


def _progress(table: Table) -> dict[str, Any]:
    states = table.states
    counts = {
        "done": states["done"],
        "total": table.row.total,
        "failed": len(table.failed),
        "running": states["leased"],
        "pending": states["pending"],
        "not_run": states["not_run"],
    }
    metrics = _known({name: summary.overall for name, summary in table.summaries.items()})
    arm = {"arm": table.row.model, "model": table.row.model, "params": {}, **counts, "metrics": metrics}
    return {**counts, "arms": [arm]}


def _counts(table: Table) -> dict[str, int]:
    """Planned, ran, scored, errored and not run; and of the scored, by `success` where the benchmark has it."""
    scored = [outcome for outcome in table.outcomes if outcome.error is None]
    judged = [outcome.metrics["success"] for outcome in scored if "success" in outcome.metrics]
    by_success = {"succeeded": sum(value > 0 for value in judged), "unsuccessful": sum(value <= 0 for value in judged)}
    return {
        "planned": table.row.total,
        "ran": len(table.outcomes),
        "scored": len(scored),
        "errored": len(table.failed),
        "not_run": table.states["not_run"],
        **(by_success if judged else {}),
    }


def _happened(events: Iterable[dict[str, Any]]) -> list[str]:
    """Each sentence once, in the order of its first time."""
    told = Counter(_sentence(event) for event in events)
    return [sentence if times == 1 else f"{sentence} ({times} times)" for sentence, times in told.items()]


def _sentence(event: dict[str, Any]) -> str:
    """What happened beside the episodes, for a reader who wonders whether it touched the scores (it does not)."""
    reason = f": {event['reason']}" if event.get("reason") else ""
    indices = event.get("episodes", [])
    shown = f"{', '.join(map(str, indices[:SHOWN]))}{', ...' if len(indices) > SHOWN else ''}"
    sentences = {
        "run_again": f"episode(s) {shown} went back to the queue{reason}",
        "moved": f"{event.get('count', 0)} episode(s) went on at another policy worker{reason}",
        "instance_lost": f"a benchmark instance was lost and replaced{reason}",
        "worker_replaced": f"a policy worker was lost and replaced{reason}",
        "gateway_restarted": "the gateway was started again while the eval ran",
    }
    return sentences[event["kind"]]


def _worker(worker: Worker) -> dict[str, Any]:
    """A policy worker of the eval, with the acts it counted itself (read while it lives and when it is ended)."""
    return {"id": worker.id, "state": worker.state, "pid": worker.pid, "acts": worker.acts}


def _latency(outcomes: list[EpisodeOutcome]) -> dict[str, Any]:
    acts = sum(outcome.acts for outcome in outcomes)
    mean = 1000 * fsum(outcome.act_s for outcome in outcomes) / acts if acts else None
    slowest = max((1000 * outcome.act_max_s for outcome in outcomes), default=None)
    return {"act_ms_mean": mean, "act_ms_max": slowest, "acts": acts} if acts else {}
