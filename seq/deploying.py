"""`seq.deploy`: send a policy, a benchmark or an adapter to the platform and wait until it serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import Self

from seq._bodies import checked
from seq._watch import Silent, Watch
from seq.api import Api, Json, Pace, connect, named
from seq.contract.adapters import AdapterAccepted, AdapterRegisterRequest
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest, DeploymentStatusResponse
from seq.requests import Request, request_of
from seq.targets import load
from sequence_ai import Conflict, InvalidRequest, NotFound, SequencesError, Unavailable

POLICY_TIMEOUT_S = 1800.0
BENCHMARK_TIMEOUT_S = 3600.0
_EXTENSION_S = 1800.0
_LONGEST_S = 3 * 3600.0
_POLICY_POLL_S = 5.0
_BENCHMARK_POLL_S = 10.0
_LOG_LINES = 20


class DeploymentHandle(str):
    """A deployment's name that can also be asked how it is; equals, prints and hashes as the name."""

    __slots__ = ("_api_key", "_base_url")

    _api_key: str | None
    _base_url: str | None

    def __new__(cls, name: str, api_key: str | None = None, base_url: str | None = None) -> Self:
        """A handle that asks with this key at this address (resolved as everywhere unless given)."""
        handle = super().__new__(cls, name)
        handle._api_key = api_key
        handle._base_url = base_url
        return handle

    @property
    def name(self) -> str:
        """The deployment's name."""
        return str(self)

    def status(self) -> DeploymentStatusResponse:
        """How the deployment is now: `building`, `ready` or `failed` (then `.error` says why)."""
        with connect(self._api_key, self._base_url) as api:
            return DeploymentStatusResponse.model_validate(api.get(f"/v1/deployments/{named(self)}"))

    def wait(self, timeout_s: float | None = None) -> DeploymentHandle:
        """Return once the newest version is ready; raises as `seq.deploy` does."""
        with connect(self._api_key, self._base_url) as api:
            wait_policy(api, str(self), timeout_s, None, Silent())
        return self


def deploy(
    cls: type | str,
    *,
    name: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    wait: bool = True,
    timeout_s: float | None = None,
    poll_interval_s: float | None = None,
    existing_volumes: object | None = None,
) -> DeploymentHandle | str:
    """Deploy a decorated class (or "pkg.module:Class"): what `seq deploy FILE` does.

    A policy's answer is its handle, a benchmark's its name, an adapter's "name@vN". With `wait`, raises Conflict
    (`details["state"] == "failed"`) when the build fails and Unavailable (code `timeout`) when it is still building
    after `timeout_s` (1800 s for a policy, 3600 s for a benchmark unless given); the build then goes on.
    """
    if existing_volumes is not None:
        raise InvalidRequest(
            "existing_volumes= names volumes, which this platform does not have yet: leave it out",
            code="invalid_request",
        )
    request = renamed(request_of(load(cls) if isinstance(cls, str) else cls), name)
    with connect(api_key, base_url) as api:
        accepted = submit(api, request)
        if wait:
            wait_for(api, request, timeout_s, poll_interval_s, Silent())
    return DeploymentHandle(accepted, api_key, base_url) if isinstance(request, DeploymentRequest) else accepted


def renamed(request: Request, name: str | None) -> Request:
    """The request under another name; raises InvalidRequest on a name that no object may have."""
    return checked(type(request), {**request.wire(), "name": name}) if name is not None else request


def submit(api: Api, request: Request, *, replace: bool = False) -> str:
    """Send the request; the name it now has on the platform (an adapter's with its version)."""
    if isinstance(request, AdapterRegisterRequest):
        accepted = register(api, request, replace=replace)
        return f"{accepted.name}@v{accepted.version}"
    path = "/v1/deployments" if isinstance(request, DeploymentRequest) else "/v1/benchmarks"
    api.post(path, request.wire(), replace=True if replace else None)
    return request.name


def register(api: Api, request: AdapterRegisterRequest, *, replace: bool = False) -> AdapterAccepted:
    """Register an adapter's file as a version; the same content is the version it already is."""
    return AdapterAccepted.model_validate(api.post("/v1/adapters", {**request.wire(), "replace": replace}))


def wait_for(api: Api, request: Request, timeout_s: float | None, poll_s: float | None, watch: Watch) -> None:
    """Wait until what was submitted is ready; an adapter is at once."""
    if isinstance(request, DeploymentRequest):
        wait_policy(api, request.name, timeout_s, poll_s, watch)
    elif isinstance(request, BenchmarkRegisterRequest):
        wait_benchmark(api, request.name, timeout_s, poll_s, watch)


def wait_policy(api: Api, name: str, timeout_s: float | None, poll_s: float | None, watch: Watch) -> Json:
    """The build of the newest version once it is ready; `watch` is told each phase and the newest log line."""
    limit = POLICY_TIMEOUT_S if timeout_s is None else timeout_s
    deadline, pace = api.clock.monotonic() + limit, Pace(api, _POLICY_POLL_S, poll_s)
    again = f"`seq policy status {name} --wait` waits again"
    follower = _Follower(watch)
    while True:
        build = api.patiently(lambda: api.get(f"/v1/deployments/{named(name)}/build"), watch.line, again=again)
        follower.look(build)
        if build["state"] == "ready":
            return build
        if build["state"] == "failed":
            raise _failed(name, f"version {build['version']} of {name}", build, hint=_what_serves(api, name, build))
        if not pace.wait(deadline):
            raise _still_building(name, limit, again)


def wait_benchmark(api: Api, name: str, timeout_s: float | None, poll_s: float | None, watch: Watch) -> Json:
    """The benchmark once its image and its check are done.

    Without `timeout_s`, the hour is extended by half an hour at a time while its log moves, to 3 hours at most.
    """
    limit = BENCHMARK_TIMEOUT_S if timeout_s is None else timeout_s
    began, pace = api.clock.monotonic(), Pace(api, _BENCHMARK_POLL_S, poll_s)
    again = f"`seq benchmark status {name} --wait` waits again"
    follower, log_at_limit = _Follower(watch), ""
    while True:
        row = api.patiently(lambda: api.get(f"/v1/benchmarks/{named(name)}"), watch.line, again=again)
        logs = benchmark_logs(api, name)
        follower.look(logs)
        if row["status"] == "ready":
            return row
        if row["status"] == "failed":
            raise _failed(name, f"benchmark {name}", {**logs, "error": row.get("error")}, hint=None)
        if pace.wait(began + limit):
            continue
        if timeout_s is not None or limit >= _LONGEST_S or logs.get("log", "") == log_at_limit:
            raise _still_building(name, limit, again)
        limit, log_at_limit = min(limit + _EXTENSION_S, _LONGEST_S), logs.get("log", "")


def benchmark_logs(api: Api, name: str) -> Json:
    """Phases and log of a benchmark's newest version; empty when the platform keeps none."""
    try:
        return api.get(f"/v1/benchmarks/{named(name)}/logs")
    except (NotFound, Unavailable):
        return {}


def row_of(api: Api, name: str) -> Json | None:
    """A deployment's row of the list, looked up on the first page."""
    rows = api.get("/v1/deployments", limit=200).get("data") or []
    return next((row for row in rows if row.get("name") == name), None)


def worker_price(pricing: Mapping[str, Any], request: DeploymentRequest) -> tuple[float, float, float] | None:
    """Dollars an hour of one worker: its cards, its cores, its memory; None for a card that is not priced."""
    card, _, count = request.resources.gpu[0].partition(":")
    prices = {row["gpu"]: row["usd_per_hour"] for row in pricing.get("gpus") or []}
    gpu = 0.0 if card == "cpu" else prices.get(card)
    if gpu is None:
        return None
    cores, memory = request.resources.cpu or 0.125, request.resources.memory_gb or 0.125
    return (
        gpu * int(count or 1),
        cores * float(pricing["cpu"]["usd_per_core_hour"]),
        memory * float(pricing["memory"]["usd_per_gib_hour"]),
    )


class _Follower:
    """Tells a watch what is new since the last look at a build."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen: set[tuple[str, float]] = set()
        self._last_line = ""

    def look(self, build: Mapping[str, Any]) -> None:
        for entry in build.get("phases") or []:
            key = (str(entry["phase"]), float(entry["at"]))
            if key not in self._seen:
                self._seen.add(key)
                self._watch.line(_PHASES.get(key[0], key[0]))
        lines = str(build.get("log") or "").strip().splitlines()
        if lines and lines[-1] != self._last_line:
            self._last_line = lines[-1]
            self._watch.now(f"  {lines[-1]}")


_PHASES = {
    "code": "code: unpacking what was uploaded",
    "image": "image: building the environment",
    "weights": "weights: copying",
    "load": "load: the worker is loading the policy",
    "act": "act: one act on a synthetic observation",
    "check": "check: one reset and step of each environment",
}


def _failed(name: str, what: str, build: Mapping[str, Any], hint: str | None) -> Conflict:
    lines = str(build.get("log") or "").rstrip().splitlines()[-_LOG_LINES:]
    return Conflict(
        f"{what} failed to build: {build.get('error') or 'no reason was given'}",
        code="conflict",
        hint=hint,
        details={"state": "failed", "name": name, "log": lines},
    )


def _what_serves(api: Api, name: str, build: Mapping[str, Any]) -> str:
    try:
        row = row_of(api, name)
    except SequencesError as unread:  # it must not hide why the build failed
        return f"whether an older version serves could not be read: {unread.message}"
    if row is not None and row.get("version") != build.get("version") and row.get("status") in ("ready", "serving"):
        return f"v{row['version']} still serves, as before"
    return "nothing serves under this name: mend the file and deploy it again"


def _still_building(name: str, limit: float, again: str) -> Unavailable:
    return Unavailable(
        f"{name} is still building after {limit:.0f} s; the build goes on",
        code="timeout",
        retryable=True,
        hint=again,
        details={"state": "building"},
    )
