"""The build of a benchmark's version: code, image, and one setup, reset and step in a process of its own."""

from __future__ import annotations

import hmac

from runner import images
from runner.cluster.base import ClusterLostError, Command
from runner.context import Context
from runner.errors import Refused
from runner.fleet.buildlog import BuildLog, process_path
from runner.fleet.builds import MAX_LOST, fail_benchmark, internal, make_environment
from runner.fleet.tasks import Tasks, Work
from runner.store.queries import benchmarks, deployments
from runner.store.tables import BenchmarkVersion
from runner.vault import token_hash
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.internal import CheckReport, CheckStart, Condition, WorkerReport

MODULE = "runner.engine.check"
CHECK_LIMIT_S = 1800.0


def process_name(version_id: str) -> str:
    """The name of a version's check process."""
    return f"check-{version_id}"


class BenchmarkBuilds:
    """Takes benchmark versions in `building` one step further at each call of `advance`."""

    def __init__(self, ctx: Context, tasks: Tasks) -> None:
        self._ctx = ctx
        self._tasks = tasks

    def advance(self, version: BenchmarkVersion, *, living: bool) -> None:
        """One step for one version; `living` says whether its check process does. Returns at once."""
        if self._tasks.busy(version.id):
            return
        checks = [phase["at"] for phase in version.phases if phase["phase"] == "check"]
        if version.image_hash is None:
            self._start(version.id, lambda: make_environment(self._ctx, benchmarks.version, version))
        elif not living and len(checks) < MAX_LOST:
            self._start(version.id, lambda: self._launch(version.id))
        elif not living:
            fail_benchmark(self._ctx, version.id, f"the check was lost {MAX_LOST} times; register the benchmark again")
        elif self._ctx.clock.now() - checks[-1] > CHECK_LIMIT_S:
            limit = f"{CHECK_LIMIT_S:g} s"
            fail_benchmark(
                self._ctx, version.id, f"setup, one reset and one step took longer than {limit} and were ended"
            )

    def _start(self, version_id: str, work: Work) -> None:
        self._tasks.start(version_id, work, lambda error: fail_benchmark(self._ctx, version_id, internal(error)))

    def _launch(self, version_id: str) -> None:
        token = self._ctx.new_secret()
        with self._ctx.store.write() as session:
            row = benchmarks.version(session, version_id)
            if row is None or row.state != "building":
                return
            row.token_hash = token_hash(token)
            deployments.add_phase(row, "check", self._ctx.clock.now())
        BuildLog(self._ctx.settings, version_id)("check: one setup, reset and step")
        try:
            self._ctx.cluster.launch_command(_command(self._ctx, row, token))
        except images.BuildError as error:
            fail_benchmark(self._ctx, version_id, str(error))
        except ClusterLostError:
            return  # counted as lost: the next step launches it again


def _command(ctx: Context, row: BenchmarkVersion, token: str) -> Command:
    settings, request = ctx.settings, BenchmarkRegisterRequest.model_validate(row.request)
    environment = images.find(settings, row.image_hash or "")
    code, sdk = images.unpack(settings, ctx.blobs, row.bundle), images.sdk(settings)
    action = request.action_contract
    start = CheckStart(
        version_id=row.id,
        gateway_url=settings.url,
        token=token,
        code_dir=str(code),
        handler_ref=request.handler_ref,
        batched=request.batched,
        condition=first_condition(request),
        action_dim=action.action_dim if action else None,
        action_bounds=action.bounds if action else None,
        render=request.render,
    )
    log_path = process_path(settings, process_name(row.id))
    log_path.parent.mkdir(parents=True, exist_ok=True)
    return Command(
        name=process_name(row.id),
        argv=[str(environment.python), "-P", "-m", MODULE],
        env=images.process_env(environment, sdk, code),
        stdin=start.model_dump_json(exclude_none=True),
        log_path=str(log_path),
        cwd=str(code),
        exit_url=f"{settings.url}/internal/benchmarks/{row.id}/exited",
        token=token,
    )


def first_condition(request: BenchmarkRegisterRequest) -> Condition:
    """The first condition in the order an eval runs them."""
    if request.condition_list:
        listed = request.condition_list[0]
        return Condition(
            index=0,
            task=listed.task,
            seed=listed.seed,
            variation=list(listed.variant.items()),
            suite=listed.suite or request.suite_of.get(listed.task),
            max_steps=listed.max_steps or request.max_steps,
            timeout_s=listed.timeout_s or request.timeout_s,
        )
    task = request.conditions.tasks[0]
    return Condition(
        index=0,
        task=task,
        seed=request.conditions.seeds[0],
        variation=[(variant.axis, variant.values[0]) for variant in request.conditions.variants],
        suite=request.suite_of.get(task),
        max_steps=request.max_steps,
        timeout_s=request.timeout_s,
    )


def report(ctx: Context, version_id: str, token: str, told: CheckReport) -> None:
    """What the check showed: it decides the version. Told again, it changes nothing."""
    with ctx.store.write() as session:
        row = _own(benchmarks.version(session, version_id), token)
        if row.state != "building":
            return
        if told.ok:
            benchmark = benchmarks.get(session, row.benchmark_id)
            row.state, row.observation = "ready", told.observation
            row.check = told.model_dump(mode="json", exclude={"observation", "traceback"}, exclude_none=True)
            if benchmark is not None and row.number > (benchmark.latest or 0):
                benchmark.latest, benchmark.handler_ref = row.number, row.request["handler_ref"]
    if not told.ok:
        fail_benchmark(ctx, version_id, told.error or "the check failed without saying why", told.traceback)
    log = BuildLog(ctx.settings, version_id)
    log.add_output(process_path(ctx.settings, process_name(version_id)))
    log("check: ready" if told.ok else f"check: {told.error}")
    ctx.wake.set()


def exited(ctx: Context, version_id: str, token: str, told: WorkerReport) -> None:
    """The check process ended; one that had not reported before has failed."""
    with ctx.store.read() as session:
        row = _own(benchmarks.version(session, version_id), token)
    if row.state == "building":
        last = BuildLog(ctx.settings, version_id).add_output(process_path(ctx.settings, process_name(version_id)))
        why = told.error or "nobody knows why"
        words = f"; its last words: {last}" if last else ""
        fail_benchmark(ctx, version_id, f"the check ended before it had stepped the benchmark: {why}{words}")


def _own(row: BenchmarkVersion | None, token: str) -> BenchmarkVersion:
    if row is None or not hmac.compare_digest(row.token_hash or "", token_hash(token)):
        raise Refused("unauthenticated", "this is not the check's own token")
    return row
