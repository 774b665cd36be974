"""The build of a policy's version, step by step: code, image, load, act. Each step is decided from rows alone.

A build whose platform was killed goes on from what its rows say, and starts over where no environment was made yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner import images
from runner.cluster.base import caveat
from runner.context import Context
from runner.errors import Refused
from runner.fleet import probe
from runner.fleet.buildlog import BuildLog, process_path
from runner.fleet.checks import cards_of, fits
from runner.fleet.door import Door, DoorError, address_of
from runner.fleet.tasks import Tasks
from runner.fleet.workers import new_id
from runner.store.queries import benchmarks, deployments, workers
from runner.store.tables import BenchmarkVersion, Version, Worker
from seq.contract.deployments import DeploymentRequest
from seq.contract.image import ImageSpec

MAX_LOST = 3
UNREACHABLE_TRIES = 5

Find = Callable[[Any, str], Any]


class PolicyBuilds:
    """Takes versions in `building` one step further at each call of `advance`."""

    def __init__(self, ctx: Context, tasks: Tasks, door: Door) -> None:
        self._ctx = ctx
        self._tasks = tasks
        self._door = door

    def advance(self, version: Version) -> None:
        """One step for one version; returns at once."""
        if self._tasks.busy(version.id):
            return
        if version.image_hash is None:
            self._start(version.id, lambda: make_environment(self._ctx, deployments.version, version))
            return
        with self._ctx.store.read() as session:
            rows = workers.of_version(session, version.id, "check")
        ready, ended = workers.ready(rows), [row for row in rows if row.state in {"failed", "stopped"}]
        broken = [row for row in ended if row.reason != "lost"]
        if ready:
            self._start(version.id, lambda: self._prove(version.id, ready[0].id))
        elif broken or len(ended) >= MAX_LOST:
            self._give_up(version.id, (broken or ended)[0])
        elif len(ended) == len(rows):
            self._want_check(version.id, self._card(version))

    def _start(self, version_id: str, work: Callable[[], None]) -> None:
        self._tasks.start(version_id, work, lambda error: fail_policy(self._ctx, version_id, internal(error)))

    def _want_check(self, version_id: str, card: str) -> None:
        now = self._ctx.clock.now()
        with self._ctx.store.write() as session:
            row = deployments.version(session, version_id)
            if row is None or row.state != "building":
                return
            deployments.add_phase(row, "load", now)
            named = {"worker_id": new_id(self._ctx), "version_id": version_id, "purpose": "check"}
            workers.want(session, eval_id=None, card=card, now=now, **named)
        BuildLog(self._ctx.settings, version_id)("load: a worker of this version is started")
        self._ctx.wake.set()

    def _card(self, version: Version) -> str:
        """The first card of the list that the platform has; all have the same count."""
        wanted = DeploymentRequest.model_validate(version.request).resources.gpu
        there = cards_of(self._ctx.cluster)
        return next((card for card in wanted if fits(card, there)), wanted[0])

    def _give_up(self, version_id: str, check: Worker) -> None:
        last_words = BuildLog(self._ctx.settings, version_id).add_output(process_path(self._ctx.settings, check.id))
        error = check.error or "the check worker was ended"
        if check.reason == "crashed" and last_words:
            error = f"{error}; its last words: {last_words}"
        fail_policy(self._ctx, version_id, error, check.traceback)

    def _prove(self, version_id: str, worker_id: str) -> None:
        """The one real act, where an observation is declared; then the version serves."""
        with self._ctx.store.read() as session:
            version = deployments.version(session, version_id)
            row = workers.get(session, worker_id)
        if version is None or row is None:
            return
        request = DeploymentRequest.model_validate(version.request)
        try:
            if request.policy.observation is not None and not self._acts(request, row, version_id):
                return
        except DoorError as error:
            BuildLog(self._ctx.settings, version_id)(f"act: {error}")
            fail_policy(self._ctx, version_id, f"the build's one act failed: {error}", error.traceback)
            return
        accept(self._ctx, version_id, worker_id)

    def _acts(self, request: DeploymentRequest, row: Worker, version_id: str) -> bool:
        """Whether the worker answered; False where it ended meanwhile, which the next step judges from its row."""
        assert request.policy.observation is not None  # noqa: S101 - asked by the caller
        log = BuildLog(self._ctx.settings, version_id)
        _phase(self._ctx, deployments.version, version_id, "act")
        log("act: one synthetic observation is sent")
        body = probe.body(request.name, request.policy.observation)
        for last in [False] * (UNREACHABLE_TRIES - 1) + [True]:
            try:
                self._door.act(address_of(row, self._ctx.vault), body, float(request.timeouts.request))
            except DoorError as error:
                if not error.unreachable or last:
                    raise
            else:
                log("act: answered")
                return True
            self._ctx.clock.sleep(1.0)
            with self._ctx.store.read() as session:
                now_row = workers.get(session, row.id)
            if now_row is None or now_row.state != "ready":
                return False
        return False


def make_environment(ctx: Context, find: Find, version: Version | BenchmarkVersion) -> None:
    """Unpack the code and make the image of a version of either kind; failures close the version."""
    log = BuildLog(ctx.settings, version.id, fresh=True)
    fail = fail_policy if find is deployments.version else fail_benchmark
    try:
        _phase(ctx, find, version.id, "code", first=True)
        code = images.unpack(ctx.settings, ctx.blobs, version.bundle)
        images.sdk(ctx.settings)
        log("code: unpacked")
        if ctx.settings.pretend and _asks_for_a_card(version):
            log(f"cards: {caveat(ctx.settings.pretend)}")
        _phase(ctx, find, version.id, "image")
        environment = images.build(ctx.settings, ImageSpec.model_validate(version.request["image"]), code, log)
    except (images.BuildError, Refused) as error:
        log(f"image: {error}")
        fail(ctx, version.id, str(error))
        return
    with ctx.store.write() as session:
        row = find(session, version.id)
        if row is not None:
            row.image_hash = environment.hash


def _asks_for_a_card(version: Version | BenchmarkVersion) -> bool:
    asked = version.request["resources"]["gpu"] if isinstance(version, Version) else [version.request.get("gpu")]
    return bool(asked != ["cpu"])


def _phase(ctx: Context, find: Find, version_id: str, phase: str, *, first: bool = False) -> None:
    with ctx.store.write() as session:
        row = find(session, version_id)
        if row is not None:
            row.phases = [] if first else row.phases
            deployments.add_phase(row, phase, ctx.clock.now())


def internal(error: Exception) -> str:
    """A fault of the platform's own, as a version's error."""
    return f"the platform failed at this build ({type(error).__name__}: {error}); its gateway log says more"


def fail_policy(ctx: Context, version_id: str, error: str, traceback: str | None = None) -> None:
    """Close a version that could not be built; nothing of it goes on running, and what serves goes on serving."""
    with ctx.store.write() as session:
        row = deployments.version(session, version_id)
        if row is None or row.state != "building":
            return
        row.state, row.error, row.traceback = "failed", error, traceback
        workers.stop(workers.of_version(session, version_id, "check"), ctx.clock.now())
    ctx.wake.set()


def fail_benchmark(ctx: Context, version_id: str, error: str, traceback: str | None = None) -> None:
    """Close a benchmark's version that could not be built; its check process, if any, is ended by the loop."""
    with ctx.store.write() as session:
        row = benchmarks.version(session, version_id)
        if row is None or row.state != "building":
            return
        row.state, row.error, row.traceback = "failed", error, traceback
    ctx.wake.set()


def accept(ctx: Context, version_id: str, worker_id: str) -> None:
    """The version is ready: new sessions get it, unless a later one already serves.

    Its check worker, loaded as it is, goes on as the serving one where robots are served now or a floor is declared,
    and max_gpus allows it beside those of the version before; so taking over leaves no gap. Otherwise it ends.
    """
    with ctx.store.write() as session:
        version, check = deployments.version(session, version_id), workers.get(session, worker_id)
        if version is None or check is None:
            return
        deployment = deployments.get(session, version.deployment_id)
        if deployment is None or version.state != "building":
            workers.stop([check], ctx.clock.now())
            return
        version.state = "ready"
        kept_warm = False
        if version.number > (deployment.serving or 0):
            request = DeploymentRequest.model_validate(version.request)
            serves = [row for row in deployments.open_workers(session, deployment.id) if row.purpose == "serve"]
            needed = bool(workers.usable(serves)) or request.autoscaler.min_containers > 0
            most = request.autoscaler.max_gpus
            held = sum(row.cards for row in workers.usable(serves))
            kept_warm = needed and (most is None or held + check.cards <= most)
            deployment.serving = version.number
            deployment.handler_ref = request.policy.handler_ref
        if kept_warm:
            check.purpose, check.last_used_at = "serve", ctx.clock.now()
        else:
            workers.stop([check], ctx.clock.now())
        session.flush()
        deployments.prune(session, deployment)
    BuildLog(ctx.settings, version_id)("ready")
    ctx.wake.set()
