"""`seq.eval`: score a deployed policy on a registered benchmark, on the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq._bodies import checked
from seq._watch import Silent, Watch
from seq.api import Api, Json, Pace, connect, named
from seq.contract.evals import OPEN_STATUSES, EvalRequest
from seq.deploying import register
from seq.report import EvalEstimate, EvalReport
from seq.requests import adapter_registration, declared_name
from seq.targets import load
from sequence_ai import NotFound

REPORT_TIMEOUT_S = 7200.0
_FAR_POLL_S = 10.0

Scalar = bool | int | float | str


@dataclass(frozen=True)
class EvalState:
    """One look at an eval: the report as it is now and the details beside it, both as the platform sent them."""

    report: Json
    details: Json

    @property
    def open(self) -> bool:
        """Whether it still waits or runs."""
        return self.report["status"] in OPEN_STATUSES


def eval(
    model: str | type,
    benchmark: str | type,
    *,
    adapter: str | type | None = None,
    suite: str | None = None,
    tasks: Sequence[str] | None = None,
    trials: int | None = None,
    policy_instances: int = 1,
    policy_gpu: str | None = None,
    benchmark_instances: int = 1,
    benchmark_gpu: str | None = None,
    envs: int | None = None,
    region: str | None = None,
    compare: Sequence[str] | None = None,
    sweep: Mapping[str, Sequence[Scalar]] | None = None,
    params: Mapping[str, Scalar] | None = None,
    variants: Mapping[str, Sequence[str]] | None = None,
    max_usd: float | None = None,
    record: str | None = None,
    dry_run: bool = False,
    wait: bool = True,
    timeout_s: float | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> EvalReport | EvalEstimate | str:
    """Run the policy `model` on `benchmark`; `dry_run=True` only estimates it, `wait=False` returns the eval's id.

    `model` and `benchmark` are names or decorated classes; `adapter` is "name", "name@vN", "./file.py[:Class]" or a
    decorated class, the last two registered first. `trials` keeps the first N seeds of each task and variant. After
    `timeout_s` (2 hours unless given) the report is returned as it stands, still running.
    """
    asked = {
        "model": name_of(model),
        "benchmark": name_of(benchmark),
        "suite": suite,
        "tasks": _list(tasks),
        "trials": trials,
        "policy_instances": policy_instances,
        "policy_gpu": policy_gpu,
        "benchmark_instances": benchmark_instances,
        "benchmark_gpu": benchmark_gpu,
        "envs": envs,
        "region": region,
        "compare": _list(compare),
        "sweep": {name: list(values) for name, values in sweep.items()} if sweep else None,
        "params": dict(params) if params else None,
        "variants": {axis: list(values) for axis, values in variants.items()} if variants else None,
        "max_usd": max_usd,
        "record": record,
        "dry_run": dry_run or None,
    }
    request = checked(EvalRequest, asked)
    with connect(api_key, base_url) as api:
        if adapter is not None:
            request = request.model_copy(update={"adapter": adapter_ref(api, adapter)})
        answer = api.post("/v1/eval", request.wire())
        if dry_run:
            return EvalEstimate.from_wire(answer)
        eval_id = str(answer["eval_id"])
        return EvalReport.from_wire(follow(api, eval_id, timeout_s, Silent()).report) if wait else eval_id


def follow(api: Api, eval_id: str, timeout_s: float | None, watch: Watch) -> EvalState:
    """Wait until the eval has ended or `timeout_s` is over, and return its last state; `watch` is told each change."""
    deadline = api.clock.monotonic() + (REPORT_TIMEOUT_S if timeout_s is None else timeout_s)
    pace = Pace(api, _FAR_POLL_S)
    again = f"`seq eval report {eval_id} --wait` waits again"
    shown: tuple[object, ...] = ()
    while True:
        state = api.patiently(lambda: read(api, eval_id), watch.line, again=again)
        shown = _tell(state, shown, watch)
        if not state.open or not pace.wait(deadline):
            return state


def read(api: Api, eval_id: str) -> EvalState:
    """The eval as it stands now."""
    report = api.get(f"/v1/eval/{named(eval_id)}")
    try:
        details = api.get(f"/v1/eval/{named(eval_id)}/details")
    except NotFound:
        details = {}
    return EvalState(report, details)


def name_of(given: str | type) -> str:
    """The name of a policy or a benchmark given by name or as a decorated class."""
    if isinstance(given, str):
        return str(given)
    return declared_name(given)


def adapter_ref(api: Api, adapter: str | type) -> str:
    """The adapter as an eval names it; a file or a class is registered first."""
    if isinstance(adapter, str) and not is_file(adapter):
        return adapter
    cls = load(adapter) if isinstance(adapter, str) else adapter
    accepted = register(api, adapter_registration(cls))
    return f"{accepted.name}@v{accepted.version}"


def is_file(reference: str) -> bool:
    """Whether an adapter reference names a file (`./file.py`, `file.py:Class`) and not a registered adapter."""
    return reference.partition(":")[0].endswith(".py") or "/" in reference


def _tell(state: EvalState, shown: tuple[object, ...], watch: Watch) -> tuple[object, ...]:
    status, progress = state.report["status"], state.details.get("progress") or {}
    done, total = progress.get("done"), progress.get("total")
    facts = (status, done, total)
    if facts == shown:
        return shown
    queue = state.details.get("queue") if status == "queued" else None
    if queue:
        watch.now(
            f"in line: needs {_known(queue.get('cards'))} card(s), {_known(queue.get('available'))} free now, "
            f"gives up at {queue.get('gives_up_at')}"
        )
    elif total:
        watch.now(f"{status}: {done} of {total} episodes done", done, total)
    else:
        watch.now(str(status))
    return facts


def _known(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _list(values: Sequence[str] | None) -> list[str] | None:
    return list(values) if values is not None else None
