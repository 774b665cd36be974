"""One step towards what the rows want: builds go on, workers start, ended ones are noticed, strays are killed."""

from __future__ import annotations

from dataclasses import dataclass

from runner.cluster.base import Placed
from runner.context import Context
from runner.fleet import cards, robots, slots
from runner.fleet import workers as life
from runner.fleet.benchmark_builds import BenchmarkBuilds, process_name
from runner.fleet.builds import PolicyBuilds
from runner.fleet.door import Door, PinnedDoor
from runner.fleet.tasks import Spawn, Tasks, in_thread
from runner.store.db import Session
from runner.store.queries import benchmarks, deployments, workers
from runner.store.queries import robots as robot_rows
from runner.store.tables import Worker
from seq.contract.deployments import DeploymentRequest

NAMES = ("worker-", "check-")
PING_EVERY_S = 5.0
RETURN_S = 20.0
"""Within which time robots have asked again after the gateway came back."""
STUCK_AFTER = 3
"""Pings in a row without an answer, each waited for as long as the door allows."""


@dataclass(frozen=True)
class Plan:
    """A deployment's fleet as it will be, workers to end, how many robots it lost; whether there is anything to do."""

    fleet: slots.Fleet
    stop: list[str]
    freed: int
    changes: bool


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
        self._silent: dict[str, int] = {}
        with ctx.store.write() as session:  # what ended while no gateway was there to be asked is no robot's fault
            robot_rows.keep_all(session, ctx.clock.now() + RETURN_S)

    def tick(self) -> None:
        """One pass over everything."""
        with self._ctx.store.read() as session:
            open_workers = workers.every_open(session)
            policy_builds = deployments.building(session)
            benchmark_builds = benchmarks.building(session)
        self._pinged = {row.id: self._pinged[row.id] for row in open_workers if row.id in self._pinged}
        self._silent = {row.id: self._silent[row.id] for row in open_workers if row.id in self._silent}
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
            self._kill(row.id, at_once=True)

    def _ping(self, row: Worker) -> None:
        """Ask how it does now and then, and again at once where it did not answer; one that never does is ended."""
        now, silent = self._ctx.clock.now(), self._silent.get(row.id, 0)
        if silent >= STUCK_AFTER:
            error = f"the worker did not answer {silent} times in a row, so it was ended"
            life.close(self._ctx, row.id, reason="stuck", error=error)
            self._kill(row.id, at_once=True)
        elif silent or now - self._pinged.get(row.id, 0.0) >= PING_EVERY_S:
            self._pinged[row.id] = now
            self._tasks.start(f"ping {row.id}", lambda: self._count(row.id))

    def _count(self, worker_id: str) -> None:
        answered = life.count_acts(self._ctx, worker_id, self._door)
        self._silent[worker_id] = 0 if answered else self._silent.get(worker_id, 0) + 1

    def _serve(self) -> None:
        """Give up leases and places that ended, end workers that nobody needs, start those that are wanted."""
        there = robots.stock(self._ctx)
        with self._ctx.store.read() as session:
            found = [(deployment.id, version.id) for deployment, version in deployments.all_serving(session)]
        for deployment_id, version_id in found:
            if self._needs_change(deployment_id, version_id, there):
                self._change(deployment_id, version_id, there)

    def _needs_change(self, deployment_id: str, version_id: str, there: cards.Stock) -> bool:
        """Looked at without the right to write: nearly always there is nothing to do."""
        with self._ctx.store.read() as session:
            standing = self._standing(session, deployment_id, version_id, there)
            return standing is not None and self._plan(standing).changes

    def _change(self, deployment_id: str, version_id: str, there: cards.Stock) -> None:
        """Decided anew, since a robot may have come in between."""
        now = self._ctx.clock.now()
        with self._ctx.store.write() as session:
            standing = self._standing(session, deployment_id, version_id, there)
            if standing is None:
                return
            plan = self._plan(standing)
            robots.save(session, standing, plan.fleet, now)
            robots.grow(self._ctx, session, standing, plan.fleet)
            workers.stop([standing.rows[worker_id] for worker_id in plan.stop], now)
        self._ctx.wake.set()
        if plan.freed:
            self._ctx.bell.ring(deployment_id, plan.freed)

    def _standing(
        self, session: Session, deployment_id: str, version_id: str, there: cards.Stock
    ) -> robots.Standing | None:
        deployment, version = deployments.get(session, deployment_id), deployments.version(session, version_id)
        if deployment is None or version is None or deployment.serving != version.number:
            return None
        return robots.standing(self._ctx, session, deployment, version, there)

    def _plan(self, standing: robots.Standing) -> Plan:
        now, scaling = self._ctx.clock.now(), standing.request.autoscaler
        fleet = slots.swept(standing.fleet, now, standing.rules)
        count = robots.wanted(standing, fleet)
        idle = {row.id: now - (row.last_used_at or row.ready_at or row.created_at) for row in standing.rows.values()}
        driven = {lease.worker for lease in fleet.leases}
        left = [row.id for row in standing.rows.values() if row not in standing.current and row.id not in driven]
        # More than the bounds allow, since they were lowered: those that nobody drives end at once.
        over = scaling.max_gpus is not None and sum(row.cards for row in standing.current) > scaling.max_gpus
        stop = [*left, *slots.unneeded(fleet, idle, -1.0 if over else scaling.scaledown_window, count)]
        short = count > len(standing.current) and standing.room > 0
        gone = len(standing.fleet.leases) + len(standing.fleet.places) - fleet.robots
        return Plan(fleet, stop, freed=gone, changes=bool(stop or short or fleet != standing.fleet))

    def _kill_strays(self, living: dict[str, Placed], claimed: set[str]) -> None:
        for name in living:
            if name.startswith(NAMES) and name not in claimed and not self._tasks.busy(name):
                self._kill(name)

    def _kill(self, name: str, *, at_once: bool = False) -> None:
        self._tasks.start(f"kill {name}", lambda: self._ctx.cluster.kill(name, at_once=at_once))
