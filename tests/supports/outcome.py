"""Outcomes of evals as the platform sends them, in any size: a report's body and the details document beside it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

Json = dict[str, Any]


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927)."""
    z, p = 1.959963984540054, successes / n
    middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


def leaf(values: Sequence[float], *, intervals: bool = True) -> Json:
    """A mean over some 0/1 values, with its interval."""
    found: Json = {"mean": sum(values) / len(values), "n": len(values), "small_n": len(values) < 10}
    if intervals:
        found["low"], found["high"] = wilson(round(sum(values)), len(values))
    return found


def outcome(
    tasks: Sequence[str] = ("reach", "lift"),
    seeds: int = 10,
    rates: dict[str, float] | None = None,
    *,
    intervals: bool = True,
    status: str = "completed",
    errored: int = 0,
    not_run: int = 0,
) -> tuple[Json, Json]:
    """The body and the details of an eval of 0/1 `success`: an arm a rate, of each the last episodes missing."""
    rates = rates or {"expert": 0.9}
    rng = random.Random(0)
    played = {arm: _episodes(arm, tasks, seeds, rate, rng, errored, not_run) for arm, rate in rates.items()}
    arms = [_arm(arm, found, intervals=intervals) for arm, found in played.items()]
    first, scored = next(iter(rates)), {arm: _scored(found) for arm, found in played.items()}
    groups = arms[0]["intervals"]["success"]
    body = {
        "status": status,
        "metrics": {
            "success": {
                "overall": groups["overall"]["mean"],
                "n": groups["overall"]["n"],
                "per_task": [{"task": t, "value": g["mean"], "n": g["n"]} for t, g in groups["per_task"].items()],
                "per_suite": [],
            }
        }
        if scored[first]
        else {},
        "cost_usd": 0.0123,
        "dashboard_url": "http://127.0.0.1:1/v1/eval/e1",
        "adapter_lossy": [],
        "incomplete": bool(errored or not_run),
        "arms": [_result(arm) for arm in arms] if len(arms) > 1 else None,
    }
    details = {
        "manifest": {
            "eval_id": "e1",
            "model": first,
            "model_version": 3,
            "benchmark": "table",
            "benchmark_version": 1,
            "adapter": {"name": "joints", "version": 2, "sha256": "abcdef0123456789"},
            "episodes": len(tasks) * seeds,
            "seeds": list(range(seeds)),
        },
        "intervals": arms[0]["intervals"],
        "means": arms[0]["means"],
        "counts": arms[0]["counts"],
        "arms": arms,
        "paired": [_pair(a, b, scored, len(rates) - 1) for a, b in pairwise(rates)] if intervals else [],
        "episodes": [row for found in played.values() for row in found],
        "episodes_total": len(tasks) * seeds * len(rates),
        "progress": {"total": len(tasks) * seeds * len(rates)},
        "actual": {"wall_clock_s": 62.0, "cost_usd": 0.0123},
        "estimate": {"wall_clock_s": 60.0, "cost_usd": 0.01, "low_s": 50.0, "high_s": 80.0, "held_usd": 0.02},
    }
    return body, details


def _episodes(
    arm: str, tasks: Sequence[str], seeds: int, rate: float, rng: random.Random, errored: int, not_run: int
) -> list[Json]:
    rows: list[Json] = []
    for task in tasks:
        for seed in range(seeds):
            success = float(rng.random() < rate)
            rows.append(
                {
                    "index": len(rows),
                    "task": task,
                    "seed": seed,
                    "suite": None,
                    "variation": [["light", "dim" if seed % 2 else "bright"]],
                    "steps": 12,
                    "terminated": bool(success),
                    "truncated": not success,
                    "timed_out": False,
                    "recorded": False,
                    "error": None,
                    "metrics": {"success": success},
                    "trajectory": True,
                    "attempts": 1,
                    "acts": 3,
                    "arm": arm,
                }
            )
    nothing = {"steps": 0, "acts": 0, "terminated": False, "truncated": False, "metrics": {}}
    for row in rows[len(rows) - errored - not_run : len(rows) - not_run]:
        row.update(nothing, steps=4, error="ValueError: no grasp")
    for row in rows[len(rows) - not_run :]:
        row.update(nothing)
    return rows


def _scored(episodes: list[Json]) -> dict[tuple[Any, ...], float]:
    return {(row["task"], row["seed"]): row["metrics"]["success"] for row in episodes if row["metrics"]}


def _arm(arm: str, episodes: list[Json], *, intervals: bool) -> Json:
    scored = _scored(episodes)
    values = list(scored.values())
    tasks: dict[str, list[float]] = {}
    for (task, _), value in scored.items():
        tasks.setdefault(task, []).append(value)
    groups = {task: leaf(found, intervals=intervals) for task, found in tasks.items()}
    overall = leaf(values, intervals=intervals) if values else {"mean": 0.0, "n": 0}
    macro = {**overall, "mean": sum(group["mean"] for group in groups.values()) / len(groups)} if groups else overall
    errored = sum(row["error"] is not None for row in episodes)
    ran = len(values) + errored
    return {
        "arm": arm,
        "model": arm,
        "model_version": 3,
        "params": {},
        "intervals": {"success": {"overall": overall, "per_suite": {}, "per_task": groups, "per_variant": {}}},
        "means": {"success": {"micro": overall, "macro": macro}},
        "counts": {
            "planned": len(episodes),
            "ran": ran,
            "scored": len(values),
            "errored": errored,
            "not_run": len(episodes) - ran,
            "succeeded": round(sum(values)),
            "unsuccessful": len(values) - round(sum(values)),
        },
        "scored_by": [],
    }


def _result(arm: Json) -> Json:
    """An arm as the strict body has it."""
    overall, counts = arm["intervals"]["success"]["overall"], arm["counts"]
    interval = {"success": [overall["low"], overall["high"]]} if "low" in overall else {}
    return {
        "arm": arm["arm"],
        "model": arm["model"],
        "params": {},
        "metrics": {"success": overall["mean"]},
        "intervals": interval,
        "episodes": counts["ran"],
        "failed": counts["errored"],
        "not_run": counts["not_run"],
        "budget_stopped": False,
    }


def _pair(a: str, b: str, scored: dict[str, dict[tuple[Any, ...], float]], comparisons: int) -> Json:
    both = [(scored[a][key], scored[b][key]) for key in scored[a].keys() & scored[b].keys()]
    won, lost = sum(y > x for x, y in both), sum(y < x for x, y in both)
    middle = (won - lost) / len(both)
    half = 1.96 * sqrt((won + lost) / len(both) - middle**2) / sqrt(len(both))
    return {
        "metric": "success",
        "arm_a": a,
        "arm_b": b,
        "n": len(both),
        "mean_diff": middle,
        "low": middle - half,
        "high": middle + half,
        "p": 0.031,
        "p_adjusted": min(1.0, 0.031 * comparisons),
        "comparisons": comparisons,
        "won": won,
        "lost": lost,
        "method": "Agresti-Min",
        "p_method": "exact McNemar",
    }


def everything() -> tuple[Json, Json]:
    """Two arms of which one is short, with every key that the details document may have."""
    body, details = outcome(("reach", "lift"), 10, {"expert": 0.9, "random": 0.1}, errored=2, not_run=1)
    body |= {
        "adapter_lossy": [{"transform": "resize(cam)", "reason": "640x480 to 224x224"}],
        "videos": ["http://127.0.0.1:1/v1/eval/e1/videos/0.mp4"],
        "errors": ["ValueError: no grasp (2 of 20 episodes)\nTraceback", "recording failed: full disk (1 episodes)"],
        "timing": {"cold_start_s": {"policy": 3.0}, "step_ms": {"reset": 12.0}, "steps": 100},
        "stop_reason": "budget",
        "arm_params": [
            {
                "arm": "expert",
                "policy": {"num_steps": {"value": 10, "source": "policy"}},
                "adapter": {"size": {"value": 96, "source": "cli"}},
                "queries": 25,
                "steps": 100,
            },
            {"arm": "random", "policy": {"scale": {"value": 1.5, "source": "deployment"}}},
        ],
    }
    details["manifest"] |= {
        "sha256": {"policy": "aa11"},
        "layout": {"envs": 4},
        "record": "none",
        "platform": "0.5.0",
        "facts": {"python": "3.11.7", "mujoco": "3.15.0"},
        "rerun_of": "e0",
        "earlier_cost_usd": 0.02,
        "pretend": True,
    }
    details["counts"]["at_reset"] = details["arms"][0]["counts"]["at_reset"] = 3
    variants = {"light=dim": leaf([1.0, 0.0, 1.0]), "light=bright": leaf([1.0] * 12)}
    details["intervals"]["success"]["per_variant"] = variants
    details |= {
        "differs": ["the benchmark was v1, now v2"],
        "errors": [
            {
                "cause": "ValueError: no grasp",
                "count": 2,
                "arm": "random",
                "traceback": "Traceback (most recent call last):\n  File 'p.py', line 3\nValueError: no grasp\n",
                "episodes": [17, 18],
            }
        ],
        "latency": {"act_ms_mean": 12.34, "act_ms_max": 80.0, "acts": 25},
        "load": [{"arm": "expert", "benchmark_busy": 0.6, "policy_wait": 0.4, "episodes_rerun": 2}],
        "happened": ["a policy worker was lost and replaced"],
        "distinct_starts": {"planned": 20, "seen": 18},
        "time_limit": {"note": "no time limit was set"},
        "previous": {
            "eval_id": "e7",
            "metric": "success",
            "value": 0.95,
            "difference": {"mean_diff": -0.1, "low": -0.19, "high": -0.01, "p": 0.02},
            "regressed": True,
            "sentence": "success fell by 0.100 since eval e7",
        },
    }
    return body, details
