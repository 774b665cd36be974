"""`seq.eval`: score a deployed policy on a registered benchmark, on the platform."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from seq import _eval_answers as answers
from seq._episode_rows import episode_rows
from seq._eval_answers import answered, unreadable
from seq._eval_request import eval_request, refuse_seconds
from seq._watch import Silent, Watch
from seq.api import Api, Json, Pace, Say, connect, named
from seq.contract.adapters import AdapterRegisterRequest
from seq.contract.evals import OPEN_STATUSES, EvalRequest
from seq.deploying import register
from seq.report import EvalEstimate, EvalReport, FetchEpisodes
from seq.requests import adapter_registration, declared_name
from seq.targets import load
from sequence_ai import InternalError, InvalidRequest, NotFound

REPORT_TIMEOUT_S = 7200.0
_FAR_POLL_S = 10.0
_PAGE = 200
_ADAPTER = re.compile(r"[^@\s]+(@v[1-9][0-9]*)?")

Scalar = bool | int | float | str
Adapter = str | AdapterRegisterRequest
Row = Mapping[str, Any]


@dataclass(frozen=True)
class EvalState:
    """One look at an eval: the report as it is now and the details beside it, both as the platform sent them."""

    report: Json
    details: Json

    @property
    def status(self) -> str:
        """`pending`, `queued`, `running`, `completed`, `failed` or `canceled`."""
        return str(self.report["status"])

    @property
    def open(self) -> bool:
        """Whether it still waits or runs."""
        return self.status in OPEN_STATUSES

    def as_report(self, episodes: FetchEpisodes | None = None) -> EvalReport:
        """The report as a value that knows its details; `episodes` fetches all rows when they are needed."""
        return EvalReport.from_wire(self.report, self.details, episodes)


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
    decorated class, the last two registered first. `trials` keeps the first N seeds of each task and variant. Each
    policy of `compare`, and each combination of the values in `sweep`, is an arm of its own over the same episodes.
    After `timeout_s` (2 hours unless given) the report is returned as it stands, still running; contact that is lost
    meanwhile is waited for, 5 minutes at most.

    Raises InvalidRequest, before anything is sent, on a value that no platform could take.
    """
    asked = {
        "model": name_of(model),
        "benchmark": name_of(benchmark),
        "suite": suite,
        "tasks": tasks,
        "trials": trials,
        "policy_instances": policy_instances,
        "policy_gpu": policy_gpu,
        "benchmark_instances": benchmark_instances,
        "benchmark_gpu": benchmark_gpu,
        "envs": envs,
        "region": region,
        "compare": compare,
        "sweep": sweep,
        "params": params,
        "variants": variants,
        "max_usd": max_usd,
        "record": record,
        "dry_run": dry_run or None,
    }
    request = eval_request(asked)
    refuse_seconds("timeout_s", timeout_s)
    bridge = adapter_of(adapter) if adapter is not None else None
    with connect(api_key, base_url) as api:
        request = bridged(api, request, bridge)
        if dry_run:
            answer = api.post("/v1/eval", request.wire())
            return EvalEstimate.from_wire(answered(answers.Estimated, answer, "an estimate"))
        eval_id = str(begin(api, request)["eval_id"])
        if not wait:
            return eval_id
        state = follow(api, eval_id, timeout_s, Silent())

    def rows() -> list[Row]:
        with connect(api_key, base_url) as later:
            return episodes(later, eval_id, state.details, Silent().line)

    return state.as_report(rows)


def begin(api: Api, request: EvalRequest) -> Json:
    """Start an eval; the platform's answer, whose `eval_id` is its id."""
    return answered(answers.Started, api.post("/v1/eval", request.wire()), "that of an eval that has begun")


def follow(api: Api, eval_id: str, timeout_s: float | None, watch: Watch, *, every_s: float | None = None) -> EvalState:
    """Wait until the eval has ended or `timeout_s` is over, and return its last state; `watch` is told each change.

    `every_s` is the time between two looks (unless given: soon on a near platform, every 10 s on a far one).
    """
    deadline = api.clock.monotonic() + (REPORT_TIMEOUT_S if timeout_s is None else timeout_s)
    pace = Pace(api, _FAR_POLL_S, every_s)
    again = f"`seq eval report {eval_id} --wait` waits again"
    shown: tuple[object, ...] = ()
    while True:
        seen = api.patiently(lambda: _look(api, eval_id), watch.line, again=again)
        shown = _tell(seen, shown, watch)
        if seen["status"] not in OPEN_STATUSES or not pace.wait(deadline):
            return api.patiently(lambda: read(api, eval_id), watch.line, again=again)


def read(api: Api, eval_id: str) -> EvalState:
    """The eval as it stands now."""
    report = answered(answers.Report, api.get(f"/v1/eval/{named(eval_id)}"), "an eval's report")
    try:
        details = api.get(f"/v1/eval/{named(eval_id)}/details")
    except NotFound:
        details = {}
    return EvalState(report, answered(answers.Details, details, "an eval's details"))


def episodes(api: Api, eval_id: str, details: Json, say: Say) -> list[Row]:
    """Every episode's row, page by page where the details do not hold them all; `say` is told of lost contact."""
    path = f"/v1/eval/{named(eval_id)}/episodes"
    again = f"`seq eval report {eval_id}` reads them again"
    seen: set[str] = set()

    def page(cursor: str | None) -> Json:
        answer = api.patiently(lambda: api.get(path, limit=_PAGE, cursor=cursor), say, again=again)
        following = answered(answers.Episodes, answer, "a page of episodes").get("next_cursor")
        if following in seen:
            raise InternalError(f"{path} leads in a circle: its page {cursor} names {following} again", code="internal")
        seen.add(following or "")
        return answer

    return list(episode_rows(details, page))


def name_of(given: str | type) -> str:
    """The name of a policy or a benchmark given by name or as a decorated class."""
    if isinstance(given, str):
        return str(given)
    return declared_name(given)


def adapter_of(adapter: str | type) -> Adapter:
    """An adapter as it was named, or what registers it where it is a file or a class. Nothing is sent.

    Raises InvalidRequest on what is no name, SeqAuthoringError on a file or a class that declares no adapter.
    """
    if isinstance(adapter, str) and not is_file(adapter):
        if not _ADAPTER.fullmatch(adapter):
            raise InvalidRequest(
                f"the adapter {adapter!r}: give NAME, NAME@vN (as NAME@v1) or ./file.py[:Class]", code="invalid_request"
            )
        return adapter
    return adapter_registration(load(adapter) if isinstance(adapter, str) else adapter)


def adapter_ref(api: Api, adapter: Adapter) -> str:
    """The adapter as an eval names it; one that is not there yet is registered."""
    if isinstance(adapter, str):
        return adapter
    try:
        accepted = register(api, adapter)
    except ValidationError as wrong:
        raise unreadable("the registration of an adapter", wrong) from wrong
    return f"{accepted.name}@v{accepted.version}"


def bridged(api: Api, request: EvalRequest, adapter: Adapter | None) -> EvalRequest:
    """The request with its adapter, which is registered if need be."""
    return request if adapter is None else request.model_copy(update={"adapter": adapter_ref(api, adapter)})


def is_file(reference: str) -> bool:
    """Whether an adapter reference names a file (`./file.py`, `file.py:Class`) and not a registered adapter."""
    return reference.partition(":")[0].endswith(".py") or "/" in reference


def _look(api: Api, eval_id: str) -> Json:
    """`status`, `progress` and `queue` as they are now; a platform that does not tell them apart is read whole."""
    try:
        answer = api.get(f"/v1/eval/{named(eval_id)}/progress")
    except NotFound:
        state = read(api, eval_id)
        return {**state.details, "status": state.status}
    return answered(answers.Standing, answer, "how far an eval is")


def _tell(seen: Json, shown: tuple[object, ...], watch: Watch) -> tuple[object, ...]:
    """Say what has changed since the last look; what is then known to the watcher."""
    status, progress = seen["status"], seen.get("progress") or {}
    done, total = progress.get("done"), progress.get("total")
    line = _waits(seen) if status == "queued" else None
    facts = (status, done, total, line)
    if facts == shown:
        return shown
    if line is not None:
        watch.now(line)
    elif total and done is not None:
        watch.now(f"{status}: {done} of {total} episodes done", done, total)
    else:
        watch.now(status)
    return facts


def _waits(details: Mapping[str, Any]) -> str | None:
    """The wait for cards in words, without what changes by itself; None where there is none."""
    queue = details.get("queue")
    if not queue:
        return None
    wanted, free, until = (queue.get(key, None) for key in ("cards", "available", "gives_up_at"))
    return f"in line: needs {_known(wanted)} card(s), {_known(free)} free now, gives up at {_known(until)}"


def _known(value: Any) -> str:
    return "unknown" if value is None else str(value)
