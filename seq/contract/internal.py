"""Bodies between the platform's own processes: the gateway, its workers and its benchmark instances.

Every one of these calls carries the process's own bearer token and is retried until acknowledged.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from seq.contract._model import Strict
from seq.contract.benchmarks import RenderSpec
from seq.contract.deployments import Concurrency, PolicyDecl, Timeouts

MAX_SENTENCE = 2_000
MAX_TRACE = 20_000


def _shortened(text: Any) -> Any:
    return f"{text[:MAX_SENTENCE]} ..." if isinstance(text, str) and len(text) > MAX_SENTENCE else text


def _last_of(text: Any) -> Any:
    return f"... {text[-MAX_TRACE:]}" if isinstance(text, str) and len(text) > MAX_TRACE else text


Sentence = Annotated[str, BeforeValidator(_shortened)]
"""What a user's code said, cut to a length that a row and a report can hold."""
Trace = Annotated[str, BeforeValidator(_last_of)]
"""A user's traceback: the end of it, where the error stands."""


OUTPUT_FOLLOWS = "; the end of its output: "
"""What stands between why a process ended and what it printed last, which is no part of the cause."""
GROUP_PORT = "SEQ_GROUP_PORT"
"""The variable that names the port at which machine 0 of a group waits for the others."""


class WorkerStart(Strict):
    """What a policy worker reads as one JSON line from its standard input, which then stays open as its leash.

    `code_dir` holds the unpacked bundle, `weights_dir` the weights or None; certificate and key are PEM text. `cards`
    is what the worker holds (1 for `gpu="cpu"`); an eval's worker is asked by environments, not by robots. `group` is
    on how many machines the model runs, where one cannot hold it: each is started with this, and its RANK says which
    one it is; only machine 0 has the certificate's key.
    """

    worker_id: str
    gateway_url: str
    token: str
    secret: str
    tls_cert: str
    tls_key: str
    host: str = "127.0.0.1"
    code_dir: str
    weights_dir: str | None = None
    policy: PolicyDecl
    timeouts: Timeouts
    concurrency: Concurrency = Concurrency()
    cards: int = 1
    for_eval: bool = False
    group: int | None = None
    params: dict[str, Any] = Field(default_factory=dict)


class WorkerReport(Strict):
    """`POST /internal/workers/{id}/report`: a phase began (`load`, `warmup`), the worker serves, or it failed.

    `error` is a sentence, `traceback` the policy's own, `reason` the cause where it is a known one. `exited` comes
    from the process's host, not the worker. A ready one that serves an eval tells the `sockets` at which its copies
    take acts on its own machine (`runner.worker.acts`); `facts` are its Python and the packages that it loaded.
    """

    phase: Literal["start", "load", "warmup", "ready", "failed", "exited"]
    url: str | None = None
    sockets: list[str] = Field(default_factory=list)
    facts: dict[str, str] = Field(default_factory=dict)
    pid: int | None = None
    error: Sentence | None = None
    traceback: Trace | None = None
    reason: Literal["gpu_out_of_memory", "host_out_of_memory", "crashed", "stuck", "group_member_lost"] | None = None


class GroupMember(Strict):
    """One machine of a group: its state, and how long ago machine 0 heard from it, in s (None: never)."""

    rank: int
    state: Literal["starting", "ready"]
    beat_age_s: float | None = None


class WorkerPing(Strict):
    """`GET {worker}/ping`, with its secret: acts that run or wait, copies that serve, copies started again.

    `group` are the machines of a model that runs on several.
    """

    pid: int
    acts: int
    errors: int
    busy: int = 0
    copies: int = 1
    restarts: int = 0
    idle_s: float = 0.0
    status: str = "ready"
    group: list[GroupMember] | None = None


class Condition(Strict):
    """One episode as planned: which start, how long at most."""

    index: int
    task: str
    seed: int
    variation: list[tuple[str, str]] = Field(default_factory=list)
    suite: str | None = None
    max_steps: int
    timeout_s: float | None = None
    record: bool = False


class LeasedEpisode(Strict):
    """An episode handed to an instance; `attempt` counts from 1."""

    condition: Condition
    attempt: int


class InstanceStart(Strict):
    """What an instance is started with: only where to ask and how to prove who it is."""

    instance_id: str
    eval_id: str
    gateway_url: str
    token: str


class AdapterRef(Strict):
    """The adapter file an instance runs, checked by hash where it is loaded."""

    name: str
    version: int
    class_name: str
    source: str
    sha256: str
    policy_io: Literal["robot_arm", "own"]
    params: dict[str, Any] = Field(default_factory=dict)


class InstanceSpec(Strict):
    """`GET /internal/instances/{id}/spec`: everything the instance needs to run its share of an eval.

    `python` is the interpreter of the benchmark's environment, `env_vars` its image's variables, `pythonpath` the
    platform's packages as copied for users' processes. `envs` environments: that many processes for a single
    benchmark, that many slots in one process for a batched one; the first of them is number `first_env` of the eval.
    `connect_token` opens the robot's door for this eval; `policy_params` go with every act.
    """

    eval_id: str
    model: str
    connect_token: str
    streaming: bool = False
    policy_params: dict[str, Any] = Field(default_factory=dict)
    python: str
    env_vars: dict[str, str] = Field(default_factory=dict)
    pythonpath: list[str]
    code_dir: str
    handler_ref: str
    batched: bool
    has_score: bool = False
    setup_params: dict[str, Any] = Field(default_factory=dict)
    assets_dir: str | None = None
    envs: int
    first_env: int = 0
    cores: int
    render: RenderSpec | None = None
    record: Literal["per-task", "all", "none"] = "per-task"
    adapter: AdapterRef | None = None
    steps_per_query: int | None = None
    action_dim: int | None = None
    policy_action_dim: int | None = None
    blob_dir: str
    outbox_dir: str
    setup_limit_s: float = 600.0
    reset_limit_s: float = 600.0
    step_limit_s: float = 300.0
    act_limit_s: float = 3600.0


class LeaseRequest(Strict):
    """`POST /internal/instances/{id}/lease`: also the instance's heartbeat. `pids` are its environment processes.

    `number` counts an instance's requests for episodes: the same number again gets the same episodes again, so that an
    answer that was lost on its way loses none. A mere heartbeat (`free` 0) has no number.
    """

    free: int = Field(ge=0)
    number: int = 0
    pids: list[int] = Field(default_factory=list)


class LeaseAnswer(Strict):
    """Episodes to run. `stop` ends the instance (canceled, failed); `drained` says that none is left for it.

    `ample`: more wait than all environments of its arm can begin.
    """

    episodes: list[LeasedEpisode] = Field(default_factory=list)
    stop: bool = False
    drained: bool = False
    ample: bool = False


class EpisodeOutcome(Strict):
    """One finished episode. Times in seconds; `env_cpu_s` is processor time of the environment's process.

    Phase sums (`phase_s`) and counts (`phase_n`) are by the names reset, observe, act, step, check, record, encode.
    `restarts` counts how often it began anew because the policy worker that held its state was lost.
    """

    index: int
    attempt: int
    steps: int
    acts: int
    terminated: bool = False
    truncated: bool = False
    timed_out: bool = False
    metrics: dict[str, float] = Field(default_factory=dict)
    error: Sentence | None = None
    traceback: Trace | None = None
    recorded: bool = False
    record_error: Sentence | None = None
    trajectory: bool = False
    restarts: int = 0
    wall_s: float = 0.0
    env_cpu_s: float = 0.0
    act_s: float = 0.0
    act_max_s: float = 0.0
    infer_s: float = 0.0
    phase_s: dict[str, float] = Field(default_factory=dict)
    phase_n: dict[str, int] = Field(default_factory=dict)


class ResultsRequest(Strict):
    """`POST /internal/instances/{id}/results`: idempotent on (eval, index, attempt)."""

    outcomes: list[EpisodeOutcome]


class RequeueRequest(Strict):
    """`POST /internal/instances/{id}/requeue`: episodes that must run again (their environment died), and why."""

    episodes: list[tuple[int, int]]
    reason: Sentence


class InstanceEvent(Strict):
    """`POST /internal/instances/{id}/event`: started, failed for good, or something to tell in the report.

    `kind` `started` carries `setup_s` and `facts` (its Python, packages, drawing, machine), `facts` more of them;
    `failed` ends the eval with `message` and `traceback`; `moved` says that acts went on at another worker (`count`
    environments were waiting); `ended` that the instance is done.
    """

    kind: Literal["started", "facts", "failed", "moved", "ended"]
    message: Sentence | None = None
    traceback: Trace | None = None
    setup_s: float | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    count: int = 0


class CheckStart(Strict):
    """What the check of a registered benchmark reads as one JSON line from its standard input, its leash afterwards."""

    version_id: str
    gateway_url: str
    token: str
    code_dir: str
    handler_ref: str
    batched: bool
    setup_params: dict[str, Any] = Field(default_factory=dict)
    assets_dir: str | None = None
    condition: Condition
    action_dim: int | None = None
    action_bounds: list[tuple[float, float]] | None = None
    render: RenderSpec | None = None


class CheckReport(Strict):
    """`POST /internal/benchmarks/{version_id}/check`: what one setup, reset and step of a benchmark showed.

    `observation` is the description of the first observation (wire.md 4.5); times in seconds.
    """

    ok: bool
    observation: dict[str, Any] | None = None
    metrics: list[str] = Field(default_factory=list)
    steps: int = 0
    setup_s: float = 0.0
    reset_s: float = 0.0
    step_s: float = 0.0
    error: Sentence | None = None
    traceback: Trace | None = None


class ScoreStart(Strict):
    """What the process that runs a benchmark's own score reads as one JSON line from its standard input."""

    eval_id: str
    gateway_url: str
    token: str
    code_dir: str
    handler_ref: str
    batched: bool
    envs: int
    arms: int
    setup_params: list[dict[str, Any]]


class ScoreGroups(Strict):
    """What `score` said of one arm: of all episodes, each suite, each task. `sizes` are the groups' episodes."""

    overall: dict[str, float] = Field(default_factory=dict)
    per_suite: dict[str, dict[str, float]] = Field(default_factory=dict)
    per_task: dict[str, dict[str, float]] = Field(default_factory=dict)
    sizes: dict[str, Any] = Field(default_factory=dict)
    errors: list[Sentence] = Field(default_factory=list)


class ScoreReport(Strict):
    """`POST /internal/evals/{id}/score`: the arms by number, or why there is nothing."""

    arms: dict[str, ScoreGroups] = Field(default_factory=dict)
    error: Sentence | None = None
