"""The details document beside the report: open, whatever the report has no room for. Pure, over one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from runner.evals.parameters import Settings
from runner.evals.plan import arm_params
from runner.evals.report import cause_row, score_names
from runner.evals.stats import Interval, Summary, holm
from runner.evals.table import ArmTable, Table
from runner.store.tables import Worker
from seq.contract.evals import EpisodeRow
from seq.contract.internal import OUTPUT_FOLLOWS

MOST_EPISODES = 5000
SHOWN = 10

Chosen = Callable[[dict[str, Interval]], dict[str, Any]]


def details(table: Table, episodes: list[EpisodeRow], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Exactly what ran, intervals, arms, pairs, episodes (`episodes`, or none of very many), and what happened."""
    row, first = table.row, table.first
    total = first.planned * len(table.arms)
    return {
        "manifest": manifest(table),
        "intervals": _intervals_of(first, _known),
        "means": _means(first),
        "arms": [_arm(table, one) for one in table.arms],
        "paired": _pairs(table),
        "episodes": [episode.wire() for episode in episodes],
        "episodes_total": total,
        "episodes_path": f"/v1/eval/{row.id}/episodes",
        "errors": [cause_row(one.name, cause) for one in table.arms for cause in one.columns.causes],
        "progress": _progress(table),
        "latency": _latency(table.arms),
        "load": [_load(table, one) for one in table.arms],
        "workers": [_worker(worker) for worker in table.workers],
        "counts": counts(first),
        "happened": happened(row.events),
        "episodes_moved": sum(event.get("count", 0) for event in row.events if event["kind"] == "moved"),
        "episodes_rerun": sum(len(event["episodes"]) for event in row.events if event["kind"] == "run_again"),
        "distinct_starts": {"planned": first.selection.distinct, "seen": len(np.unique(first.grouping.cluster))},
        "estimate": {
            name: row.estimate[name]
            for name in ("wall_clock_s", "low_s", "high_s", "cost_usd", "held_usd")
            if name in row.estimate
        },
        "actual": {"wall_clock_s": round(table.wall_s, 1), "cost_usd": table.cost_usd},
        "time_limit": _time_limit(table),
        **(more or {}),
    }


def manifest(table: Table) -> dict[str, Any]:
    """Everything that a rerun needs and a comparison asks for."""
    row = table.row
    plan, adapter = row.plan, row.plan["adapter"]
    optional = {
        "rerun_of": row.rerun_of,
        "rerun_unsuccessful_of": row.request.get("rerun_unsuccessful_of"),
        "metric": plan.get("metric"),
        "earlier_cost_usd": table.earlier_cost_usd,
    }
    return {
        "eval_id": row.id,
        "model": row.model,
        "model_version": plan["model_version"],
        "benchmark": row.benchmark,
        "benchmark_version": plan["benchmark_version"],
        "adapter": {key: adapter[key] for key in ("name", "version", "sha256")} if adapter else None,
        "sha256": plan["sha256"],
        "models": [{key: side[key] for key in ("model", "version", "sha256", "image")} for side in plan["policies"]],
        "episodes": table.first.planned * len(table.arms),
        "seeds": table.selection.seeds,
        "params": arm_params(Settings.of_wire(table.first.arm.settings)),
        "layout": {key: plan[key] for key in ("benchmark", "envs", "machine_cores")} | {"policies": plan["policies"]},
        "record": plan["record"],
        "notes": plan["notes"],
        "pretend": plan.get("pretend", False),
        "platform": plan["platform"],
        "facts": facts(table),
        "request": row.request,
        **{name: value for name, value in optional.items() if value is not None},
    }


def facts(table: Table) -> dict[str, Any]:
    """What the benchmark's processes and the policies' said of their Python, packages, drawing and machine."""
    told: dict[str, Any] = {}
    for event in table.row.timing.get("started", []):
        told |= {f"benchmark.{name}": value for name, value in (event.get("facts") or {}).items()}
    models = {side["version_id"]: side["model"] for side in table.row.plan["policies"]}
    for worker in table.workers:
        name = models.get(worker.version_id, "policy")
        told |= {f"{name}.{fact}": value for fact, value in (worker.facts or {}).items()}
    return told


def counts(one: ArmTable) -> dict[str, int]:
    """Planned, ran, scored, errored and not run; of the scored, by `success` where the benchmark has it.

    `at_reset` of them were a success by their first step: a start that is solved says nothing of the policy.
    """
    told = {
        "planned": one.planned,
        "ran": len(one.columns),
        "scored": one.scored,
        "errored": one.errored,
        "not_run": one.planned - len(one.columns) if one.counts.not_run else 0,
    }
    judged = one.metrics.get("success")
    if judged is None:
        return told
    steps = one.columns.counts["steps"][one.columns.scored]
    return {
        **told,
        "succeeded": int((judged > 0).sum()),
        "unsuccessful": int((judged <= 0).sum()),
        "at_reset": int(((judged > 0) & (steps <= 1)).sum()),
    }


def happened(events: Iterable[dict[str, Any]]) -> list[str]:
    """Each sentence once, in the order of its first time."""
    told = Counter(_sentence(event) for event in events)
    return [sentence if times == 1 else f"{sentence} ({times} times)" for sentence, times in told.items()]


def _arm(table: Table, one: ArmTable) -> dict[str, Any]:
    versions = {side["version_id"]: side["version"] for side in table.row.plan["policies"]}
    return {
        "arm": one.name,
        "model": one.arm.model,
        "model_version": versions.get(one.arm.version_id),
        "params": arm_params(Settings.of_wire(one.arm.settings)),
        "intervals": _intervals_of(one, _all),
        "means": _means(one),
        "counts": counts(one),
        "scored_by": score_names(one.scores),
    }


def _means(one: ArmTable) -> dict[str, Any]:
    """The mean over episodes (`micro`) and over tasks (`macro`), each with the interval that belongs to it."""
    return {name: {"micro": s.overall.wire(), "macro": s.macro.wire()} for name, s in one.summaries.items()}


def _intervals_of(one: ArmTable, chosen: Chosen) -> dict[str, Any]:
    """Without those of groups where the benchmark's own score replaced the mean: what it says has no interval."""
    return {name: _intervals(name, summary, one.scores, chosen) for name, summary in one.summaries.items()}


def _intervals(name: str, summary: Summary, scores: dict[str, Any], chosen: Chosen) -> dict[str, Any]:
    overall = {} if name in (scores.get("overall") or {}) else {"overall": summary.overall}
    groups = {"per_task": summary.per_task, "per_suite": summary.per_suite, "per_variant": summary.per_variant}
    by_group = {
        kind: chosen({key: found for key, found in given.items() if name not in (scores.get(kind) or {}).get(key, {})})
        for kind, given in groups.items()
    }
    return {**chosen(overall), **by_group}


def _all(found: dict[str, Interval]) -> dict[str, Any]:
    return {key: interval.wire() for key, interval in found.items()}


def _known(found: dict[str, Interval]) -> dict[str, Any]:
    """Those with bounds: a reader of the published kind formats both of whatever is in the first arm's."""
    return {key: interval.wire() for key, interval in found.items() if interval.low is not None}


def _pairs(table: Table) -> list[dict[str, Any]]:
    """Adjusted within a metric: that is the family in which one looks for any arm that beats the first."""
    found = []
    for metric in dict.fromkeys(pair.metric for pair in table.pairs):
        family = [pair for pair in table.pairs if pair.metric == metric]
        adjusted = holm([pair.difference.p for pair in family])
        for pair, p_adjusted in zip(family, adjusted, strict=True):
            told = pair.difference.wire()
            arms = {"metric": metric, "arm_a": pair.arm_a, "arm_b": pair.arm_b}
            found.append({**arms, **told, "p_adjusted": p_adjusted, "comparisons": len(family)})
    return found


def _progress(table: Table) -> dict[str, Any]:
    arms: list[dict[str, Any]] = [
        {
            "arm": one.name,
            "model": one.arm.model,
            "params": arm_params(Settings.of_wire(one.arm.settings)),
            **_states(one),
            "metrics": _known({name: summary.overall for name, summary in one.summaries.items()}),
        }
        for one in table.arms
    ]
    totals = {
        name: sum(arm[name] for arm in arms) for name in ("done", "total", "failed", "running", "pending", "not_run")
    }
    return {**totals, "arms": arms}


def _states(one: ArmTable) -> dict[str, int]:
    """A rerun counts what the eval before it had scored as done."""
    return {
        "done": len(one.columns),
        "total": one.planned,
        "failed": one.errored,
        "running": one.counts.leased,
        "pending": one.counts.pending,
        "not_run": one.planned - len(one.columns) if one.counts.not_run else 0,
    }


def _load(table: Table, one: ArmTable) -> dict[str, Any]:
    """Where an arm's environments spent their time, and what each policy worker was asked."""
    playing = sum(seconds for phase, seconds in one.columns.phase_s.items() if phase != "act")
    waiting = one.columns.totals["act_s"]
    both = playing + waiting
    mine = [worker for worker in table.workers if worker.version_id == one.arm.version_id]
    return {
        "arm": one.name,
        **({"benchmark_busy": playing / both, "policy_wait": waiting / both} if both > 0 else {}),
        "policies": [{"instance": worker.id, "requests": worker.acts} for worker in mine],
        "policy_load_s": [
            round(worker.ready_at - worker.created_at, 2) for worker in mine if worker.ready_at is not None
        ],
    }


def _latency(arms: Iterable[ArmTable]) -> dict[str, Any]:
    found = [one.columns for one in arms]
    acts = sum(int(one.counts["acts"].sum()) for one in found)
    if not acts:
        return {}
    mean = 1000 * sum(one.totals["act_s"] for one in found) / acts
    return {"act_ms_mean": mean, "act_ms_max": 1000 * max(one.totals["act_max_s"] for one in found), "acts": acts}


def _time_limit(table: Table) -> dict[str, Any]:
    late = sum(int(one.columns.flags["timed_out"].sum()) for one in table.arms)
    if not late:
        return {}
    return {"note": f"{late} episode(s) reached their time limit, which a slower machine reaches sooner"}


def _worker(worker: Worker) -> dict[str, Any]:
    """A policy worker of the eval, with the acts it counted itself (read while it lives and when it is ended)."""
    return {"id": worker.id, "state": worker.state, "pid": worker.pid, "acts": worker.acts}


def _sentence(event: dict[str, Any]) -> str:
    """What happened beside the episodes, for a reader who wonders whether it touched the scores (it does not)."""
    why = (event.get("reason") or "").partition(OUTPUT_FOLLOWS)[0]
    reason = f": {why}" if why else ""
    indices = event.get("episodes", [])
    shown = f"{', '.join(map(str, indices[:SHOWN]))}{', ...' if len(indices) > SHOWN else ''}"
    sentences = {
        "run_again": f"episode(s) {shown} went back to the queue{reason}",
        "restarted": f"episode(s) {shown} began anew from reset{reason}",
        "moved": f"{event.get('count', 0)} episode(s) went on at another policy worker{reason}",
        "instance_lost": f"a benchmark instance was lost and replaced{reason}",
        "worker_replaced": f"a policy worker was lost and replaced{reason}",
        "gateway_restarted": "the gateway was started again while the eval ran",
    }
    return sentences[event["kind"]]
