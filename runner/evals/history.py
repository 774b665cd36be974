"""What earlier evals of a benchmark measured, as an estimate reads it."""

from __future__ import annotations

from typing import Any

from runner.evals.estimate import Check, PastEpisode, PastEval
from runner.evals.table import selection_of
from runner.store.db import Session
from runner.store.queries import episodes as episode_rows
from runner.store.queries import evals as rows
from runner.store.tables import BenchmarkVersion, Eval

EPISODES_READ = 2000
DISTURBANCES = {"run_again", "restarted", "moved", "instance_lost", "worker_replaced", "gateway_restarted"}


def past_evals(session: Session, account_id: str, benchmark_id: str, benchmark: str) -> list[PastEval]:
    """The account's newest completed evals of a benchmark."""
    return [_past(session, row) for row in rows.completed_on(session, account_id, benchmark_id, benchmark)]


def check_of(version: BenchmarkVersion) -> Check | None:
    """What the check at a benchmark's registration measured."""
    told = version.check
    if not told:
        return None
    return Check(setup_s=told.get("setup_s", 0.0), reset_s=told.get("reset_s", 0.0), step_s=told.get("step_s", 0.0))


def _past(session: Session, row: Eval) -> PastEval:
    adapter, plan, selection = row.plan["adapter"], row.plan, selection_of(session, row)
    arms = {arm.number: arm for arm in rows.arms(session, row.id)}
    read = [
        (arms[episode.arm], episode.index, episode.outcome or {})
        for episode in episode_rows.finished(session, row.id, limit=EPISODES_READ, failed=False)
    ]
    return PastEval(
        adapter=adapter["name"] if adapter else None,
        envs=plan["envs"] * plan["benchmark"]["instances"] * plan["playing"],
        cores=plan["machine_cores"],
        policy_s=row.timing.get("policy_s", 0.0),
        launch_s=row.timing.get("launch_s", 0.0),
        setup_s=row.timing.get("setup_s", 0.0),
        run_s=row.timing.get("run_s", 0.0),
        disturbed=row.total > EPISODES_READ or any(event["kind"] in DISTURBANCES for event in row.events),
        episodes=tuple(
            _episode(arm.model, selection.condition(index - arm.first, index).task, outcome)
            for arm, index, outcome in read
        ),
    )


def _episode(policy: str, task: str, outcome: dict[str, Any]) -> PastEpisode:
    return PastEpisode(
        policy=policy,
        task=task,
        recorded=outcome.get("recorded", False),
        acts=outcome["acts"],
        env_cpu_s=outcome.get("env_cpu_s", 0.0),
        infer_s=outcome.get("infer_s", 0.0),
        wall_s=outcome.get("wall_s", 0.0),
    )
