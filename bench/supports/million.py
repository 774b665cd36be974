"""A completed eval of any number of made-up episodes in a store of its own, and the gateway over it.

How episodes are kept is known to `_keep` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from sqlalchemy import insert

from runner.context import Context
from runner.evals import parts
from runner.store.queries import benchmarks, deployments, evals
from runner.store.tables import Episode
from runner.testing import account_of, first_key, make_client, make_context
from seq.contract.internal import EpisodeOutcome

TASKS, SUITES, SURFACES = tuple(f"task {number}" for number in range(10)), ("near", "far"), ("standard", "slippery")
ERRORS, BLOCK, STEPS = 0.001, parts.SIZE, 250
PHASES = ("act", "adapter", "check", "encode", "observe", "reset", "step")
ACTION = {"robot": "arm", "action_space": "joint_absolute", "action_dim": 8, "control_frequency_hz": 20}
POLICY = {"name": "arm", "image": {"base": "debian:12-slim"}, "resources": {"gpu": ["cpu"]}}
BENCHMARK = {"name": "many", "image": {"base": "debian:12-slim"}, "gpu": "cpu", "cpu": 2, "max_steps": STEPS}


def build(folder: Path, episodes: int) -> Context:
    """A platform's state below `folder` in which one eval of so many episodes has ended; its id stands in a file.

    Ten tasks in two suites, on two surfaces; a 0/1 metric and two others; one episode in a thousand failed.
    """
    ctx = make_context(folder)
    account_id = account_of(ctx, first_key())
    _add_sides(ctx, account_id, episodes)
    started = client(ctx).post("/v1/eval", json={"model": "arm", "benchmark": "many"})
    if started.is_error:
        raise RuntimeError(f"the eval was refused: {started.text}")
    eval_id = started.json()["eval_id"]
    _keep(ctx, eval_id, _played(episodes))
    with ctx.store.write() as session:
        row = evals.get(session, eval_id)
        assert row is not None
        evals.end(row, "completed", now=ctx.clock.now() + 3600)
    (folder / "eval_id").write_text(eval_id, encoding="utf-8")
    return ctx


def opened(folder: Path) -> Context:
    """What was built there; its gateway may be asked as often as one likes."""
    return make_context(folder, rate_per_s=1e9)


def client(ctx: Context) -> httpx.Client:
    """Of the gateway over it, in this process."""
    return make_client(ctx, first_key(), routers=("evals",))


def path_of(ctx: Context) -> str:
    """The eval's path on the gateway."""
    return f"/v1/eval/{(ctx.settings.home / 'eval_id').read_text(encoding='utf-8')}"


def cursor(index: int) -> str:
    """What asks for the page that begins with the episode of that index."""
    return f"o{index}"


def _keep(ctx: Context, eval_id: str, played: Iterator[list[EpisodeOutcome]]) -> None:
    """Finish episodes, a block at a time, and have each whole block filed as the platform files them."""
    for block in played:
        with ctx.store.write() as session:
            arm = evals.arm(session, eval_id, 0)
            assert arm is not None
            arm.next += len(block)
            session.execute(insert(Episode), [_row(eval_id, outcome) for outcome in block])
        parts.file_finished(ctx)


def _row(eval_id: str, outcome: EpisodeOutcome) -> dict[str, Any]:
    return {
        "eval_id": eval_id,
        "index": outcome.index,
        "arm": 0,
        "state": "done",
        "attempt": outcome.attempt,
        "outcome": outcome.wire(),
        "failed": outcome.error is not None,
        "ended_at": 0.0,
    }


def _add_sides(ctx: Context, account_id: str, episodes: int) -> None:
    """A deployment that serves and a benchmark that is ready, as their registration leaves them."""
    now = ctx.clock.now()
    policy = {**POLICY, "policy": {"handler_ref": "policy:Arm", "action": ACTION}}
    variants = [{"axis": "surface", "values": list(SURFACES)}]
    suites = {task: SUITES[number % len(SUITES)] for number, task in enumerate(TASKS)}
    conditions = {"tasks": list(TASKS), "seeds": list(range(_seeds(episodes))), "variants": variants}
    benchmark = {
        **BENCHMARK,
        "handler_ref": "many:Many",
        "conditions": conditions,
        "action_contract": ACTION,
        "suite_of": suites,
    }
    with ctx.store.write() as session:
        named: dict[str, Any] = {"account_id": account_id, "now": now}
        ids = {"deployment_id": ctx.new_id(), "name": "arm", "handler_ref": "policy:Arm"}
        serving = deployments.add(session, **ids, **named)
        version = {"version_id": ctx.new_id(), "request": policy, "bundle": None, "now": now}
        added = deployments.add_version(session, serving, **version)
        added.state, serving.serving = "ready", added.number
        ids = {"benchmark_id": ctx.new_id(), "name": "many", "handler_ref": "many:Many"}
        ready = benchmarks.add(session, **ids, **named)
        version = {"version_id": ctx.new_id(), "request": benchmark, "bundle": None, "now": now}
        registered = benchmarks.add_version(session, ready, **version)
        registered.state, ready.latest = "ready", registered.number


def _seeds(episodes: int) -> int:
    seeds, rest = divmod(episodes, len(TASKS) * len(SURFACES))
    if rest:
        raise ValueError(f"{episodes} episodes do not go into {len(TASKS)} tasks on {len(SURFACES)} surfaces")
    return seeds


def _played(episodes: int) -> Iterator[list[EpisodeOutcome]]:
    """Finished episodes by index, in blocks."""
    chance = np.random.default_rng(0)
    for first in range(0, episodes, BLOCK):
        indices = range(first, min(first + BLOCK, episodes))
        drawn = chance.random((len(indices), 4)).tolist()
        yield [_episode(index, episodes, chances) for index, chances in zip(indices, drawn, strict=True)]


def _episode(index: int, episodes: int, chances: list[float]) -> EpisodeOutcome:
    """Tasks are outermost, then surfaces, seeds innermost; `chances` are four numbers from 0 to 1."""
    succeeds, fails, far, travel = chances
    task = index // (_seeds(episodes) * len(SURFACES))
    steps = 50 + int(200 * travel)
    told: dict[str, Any] = {
        "index": index,
        "attempt": 1,
        "steps": steps,
        "acts": -(-steps // 16),
        "wall_s": steps / 100,
    }
    if fails < ERRORS:
        return EpisodeOutcome(**told, error="ValueError: made up", traceback="Traceback: made up")
    metrics = {
        "success": float(succeeds < (task + 1) / 12),
        "goal_distance_m": far**3,
        "joint_travel_rad": 40 * travel,
    }
    phases = {"phase_s": dict.fromkeys(PHASES, steps / 1000), "phase_n": dict.fromkeys(PHASES, steps)}
    return EpisodeOutcome(**told, terminated=True, metrics=metrics, env_cpu_s=steps / 200, **phases)
