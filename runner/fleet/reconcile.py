"""One step towards what the rows want: builds go on, workers start, ended ones are noticed, strays are killed."""

from __future__ import annotations

from dataclasses import dataclass

from runner.cluster.base import Placed
from runner.context import Context
from runner.fleet import workers as life
from runner.fleet.benchmark_builds import BenchmarkBuilds, process_name
from runner.fleet.builds import PolicyBuilds
from runner.fleet.door import Door, PinnedDoor
from runner.fleet.tasks import Spawn, Tasks, in_thread
from runner.store.db import Session
from runner.store.queries import benchmarks, deployments, workers
from runner.store.tables import Worker
from seq.contract.deployments import DeploymentRequest

NAMES = ("worker-", "check-")
PING_EVERY_S = 5.0


@dataclass(frozen=True)
class Plan:
    """Serving workers to end, by id, and versions that want one more."""

    stop: list[str]
    want: list[str]


class FleetController:
    """Owns every process named `worker-*` and `check-*`.

    `tick` is idempotent and returns soon: slow work goes to tasks. Rows are read before what lives, so a process
    started in between is never taken for a stray.
    """

    def __init__(self, ctx: Context, *, door: Door | None = None, spawn: Spawn = in_thread) -> None:
        self._ctx = ctx
        self._door = door or PinnedDoor()
        self._tasks = Tasks(ctx.wake.set, spawn)
        self._policies = PolicyBuilds(ctx, self._tasks, self._door)
        self._benchmarks = BenchmarkBuilds(ctx, self._tasks)
        self._pinged: dict[str, float] = {}

    def tick(self) -> None:
        """One pass over everything."""
        with self._ctx.store.read() as session:
            open_workers = workers.every_open(session)
            policy_builds = deployments.building(session)
            benchmark_builds = benchmarks.building(session)
        self._pinged = {row.id: self._pinged[row.id] for row in open_workers if row.id in self._pinged}
        # Asked before what lives: a launch that ends in between would else be taken for a process that is gone.
        ids = [*(row.id for row in open_workers), *(row.id for row in benchmark_builds)]
        busy = {row_id for row_id in ids if self._tasks.busy(row_id)}
        living = self._ctx.cluster.living()
        for row in open_workers:
            if row.id not in busy:
                self._worker(row, living)
        for version in policy_builds:
            self._policies.advance(version)
        for checked in benchmark_builds:
            if checked.id not in busy:
                self._benchmarks.advance(checked, living=process_name(checked.id) in living)
        self._serve()
        claimed = {row.id for row in open_workers} | {process_name(row.id) for row in benchmark_builds}
        self._kill_strays(living, claimed)

    def _worker(self, row: Worker, living: dict[str, Placed]) -> None:
        if row.state == "wanted":
            fault = "the platform failed to start the worker"
            self._tasks.start(
                row.id,
                lambda: life.launch(self._ctx, row.id),
                lambda error: life.close(self._ctx, row.id, reason="failed", error=f"{fault}: {error}"),
            )
        elif row.id not in living:
            self._gone(row)
        elif row.state == "stopping":
            self._tasks.start(row.id, lambda: life.retire(self._ctx, row.id, self._door))
        elif row.state == "starting":
            self._check_startup(row)
        else:
            self._ping(row)

    def _gone(self, row: Worker) -> None:
        if row.state == "stopping":
            life.stopped(self._ctx, row.id)
        else:
            life.close(self._ctx, row.id, reason="lost", error="the worker process is gone and its host told nothing")
        self._ctx.wake.set()

    def _check_startup(self, row: Worker) -> None:
        with self._ctx.store.read() as session:
            version = deployments.version(session, row.version_id)
        if version is None:
            return
        limit = DeploymentRequest.model_validate(version.request).timeouts.startup
        if self._ctx.clock.now() - row.created_at > limit:
            error = (
                f"load and warmup did not finish within {limit} s (timeouts.startup), so the worker was ended; "
                "raise it with timeouts=seq.Timeouts(startup=...) if the policy needs longer"
            )
            life.close(self._ctx, row.id, reason="timeout", error=error)
            self._kill(row.id)

    def _ping(self, row: Worker) -> None:
        now = self._ctx.clock.now()
        if now - self._pinged.get(row.id, 0.0) >= PING_EVERY_S:
            self._pinged[row.id] = now
            self._tasks.start(f"ping {row.id}", lambda: life.count_acts(self._ctx, row.id, self._door))

    def _serve(self) -> None:
        """End serving workers that nobody needs; hold the floors that deployments declare."""
        with self._ctx.store.read() as session:
            plan = self._planned(session)
        if not plan.stop and not plan.want:
            return
        now = self._ctx.clock.now()
        with self._ctx.store.write() as session:
            workers.stop([row for row in (workers.get(session, worker_id) for worker_id in plan.stop) if row], now)
            for version_id in plan.want:
                life.want_serving(self._ctx, session, version_id)
        self._ctx.wake.set()

    def _planned(self, session: Session) -> Plan:
        now = self._ctx.clock.now()
        stop: list[str] = []
        want: list[str] = []
        for deployment, version in deployments.all_serving(session):
            scaling = DeploymentRequest.model_validate(version.request).autoscaler
            rows = [row for row in deployments.open_workers(session, deployment.id) if row.purpose == "serve"]
            current = [row for row in rows if row.version_id == version.id]
            floor = 0 if deployment.stopped else scaling.min_containers
            spare = len(workers.usable(current)) - floor
            idle = [row.id for row in workers.ready(current) if _unused_for(row, now) > scaling.scaledown_window]
            stop += idle[: max(0, spare)]
            # A robot moves to the serving version when it renews, at the latest one lease after its last connect.
            earlier = [row for row in workers.ready(rows) if row.version_id != version.id]
            stop += [row.id for row in earlier if _unused_for(row, now) > self._ctx.settings.lease_s]
            if spare < 0 and not life.just_failed(session, version.id, now):
                want.append(version.id)
        return Plan(stop, want)

    def _kill_strays(self, living: dict[str, Placed], claimed: set[str]) -> None:
        for name in living:
            if name.startswith(NAMES) and name not in claimed and not self._tasks.busy(name):
                self._kill(name)

    def _kill(self, name: str) -> None:
        self._tasks.start(f"kill {name}", lambda: self._ctx.cluster.kill(name))


def _unused_for(row: Worker, now: float) -> float:
    return now - (row.last_used_at or row.ready_at or row.created_at)
