"""What earlier evals of a benchmark measured, as an estimate reads it."""

from __future__ import annotations

from runner.evals.estimate import Check, PastEpisode, PastEval
from runner.store.db import Session
from runner.store.queries import episodes as episode_rows
from runner.store.queries import evals as rows
from runner.store.tables import BenchmarkVersion, Episode, Eval

EPISODES_READ = 2000
DISTURBANCES = {"run_again", "moved", "instance_lost", "worker_replaced", "gateway_restarted"}


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
    finished = [episode for episode in episode_rows.finished(session, row.id, EPISODES_READ) if not episode.failed]
    adapter = row.plan["adapter"]
    return PastEval(
        policy=row.model,
        adapter=adapter["name"] if adapter else None,
        envs=row.plan["envs"] * row.plan["benchmark"]["instances"],
        cores=row.plan["machine_cores"],
        policy_s=row.timing.get("policy_s", 0.0),
        launch_s=row.timing.get("launch_s", 0.0),
        setup_s=row.timing.get("setup_s", 0.0),
        run_s=row.timing.get("run_s", 0.0),
        disturbed=row.total > EPISODES_READ or any(event["kind"] in DISTURBANCES for event in row.events),
        episodes=tuple(_episode(episode) for episode in finished),
    )


def _episode(episode: Episode) -> PastEpisode:
    outcome = episode.outcome or {}
    return PastEpisode(
        task=episode.condition["task"],
        recorded=outcome["recorded"],
        acts=outcome["acts"],
        env_cpu_s=outcome["env_cpu_s"],
        infer_s=outcome["infer_s"],
        wall_s=outcome["wall_s"],
    )
