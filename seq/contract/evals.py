"""Evals: the request, the answers of a dry and a real run, the report (strict) and the details beside it (open)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_serializer

from seq.contract._model import Strict
from seq.contract.params import Scalar

EvalStatus = Literal["pending", "queued", "running", "completed", "failed", "canceled"]
OPEN_STATUSES = ("pending", "queued", "running")
StopReason = Literal[
    "canceled", "budget", "balance", "deadline", "mismatch", "refused", "queue_timeout", "no_gpu_render"
]


class EvalRequest(Strict):
    """`POST /v1/eval`: one body for a dry run and a real one."""

    model: str
    benchmark: str
    adapter: str | None = None
    dry_run: bool | None = None
    suite: str | None = None
    tasks: list[str] | None = None
    trials: int | None = Field(default=None, ge=1)
    policy_instances: int = Field(default=1, ge=1, le=64)
    benchmark_instances: int = Field(default=1, ge=1, le=64)
    policy_gpu: str | None = None
    benchmark_gpu: str | None = None
    envs: int | None = Field(default=None, ge=1)
    region: str | None = None
    compare: list[str] | None = Field(default=None, max_length=64)
    sweep: dict[str, list[Scalar]] | None = None
    params: dict[str, Scalar] | None = None
    variants: dict[str, list[str]] | None = None
    max_usd: float | None = None
    record: Literal["per-task", "all", "none"] | None = None
    rerun_of: str | None = None
    rerun_unsuccessful_of: str | None = None
    metric: str | None = None


class ScheduleRequest(Strict):
    """`PUT /v1/deployments/{name}/evals/schedule`; of a schedule that is there, what is left out stays.

    `webhook` is where a regression is told: https, or http on the platform's own machine.
    """

    benchmark: str
    every: Literal["daily", "weekly", "deploy"] | None = None
    adapter: str | None = None
    trials: int | None = Field(default=None, ge=1)
    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    webhook: str | None = None


class TaskAgg(Strict):
    """One task's mean of a metric over `n` scored episodes."""

    task: str
    value: float
    n: int


class SuiteAgg(Strict):
    """One suite's mean of a metric over `n` scored episodes."""

    suite: str
    value: float
    n: int


class MetricAgg(Strict):
    """A metric's mean over all scored episodes, and per task and suite."""

    overall: float
    n: int
    per_task: list[TaskAgg] = Field(default_factory=list)
    per_suite: list[SuiteAgg] = Field(default_factory=list)


class LossyTransform(Strict):
    """A lossy step of the adapter that ran, with its reason."""

    transform: str
    reason: str


class Timing(Strict):
    """Where the time went: seconds of each cold start, mean milliseconds of each phase."""

    cold_start_s: dict[str, float] = Field(default_factory=dict)
    step_ms: dict[str, float] = Field(default_factory=dict)
    batch_size_mean: float | None = None
    steps: int = 0


class ParamValue(Strict):
    """The value a side ran with, written also where it is none, and who set it."""

    value: Scalar | None = None
    source: Literal["cli", "policy", "adapter", "benchmark", "platform", "deployment"]

    @model_serializer
    def _both(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source}


class ArmParams(Strict):
    """The parameters an arm ran with, side by side."""

    arm: str
    policy: dict[str, ParamValue] = Field(default_factory=dict)
    adapter: dict[str, ParamValue] = Field(default_factory=dict)
    benchmark: dict[str, ParamValue] = Field(default_factory=dict)
    eval: dict[str, ParamValue] = Field(default_factory=dict)
    queries: int | None = None
    steps: int | None = None


class ArmBody(Strict):
    """One arm's own numbers, never pooled with another's."""

    arm: str
    model: str
    params: dict[str, Scalar] = Field(default_factory=dict)
    metrics: dict[str, float] = Field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = Field(default_factory=dict)
    episodes: int = 0
    failed: int = 0
    not_run: int = 0
    budget_stopped: bool = False


class PairBody(Strict):
    """Arm b minus arm a over the `n` episodes that both scored, with its 95 % interval."""

    metric: str
    arm_a: str
    arm_b: str
    n: int
    mean_diff: float
    interval: tuple[float, float]


class ReportBody(Strict):
    """`GET /v1/eval/{id}`: exactly these keys, top to bottom; anything else goes into the details."""

    status: EvalStatus
    metrics: dict[str, MetricAgg]
    cost_usd: float
    dashboard_url: str
    adapter_lossy: list[LossyTransform]
    videos: list[str] = Field(default_factory=list)
    incomplete: bool | None = None
    errors: list[str] = Field(default_factory=list)
    arms: list[ArmBody] | None = None
    paired: list[PairBody] | None = None
    timing: Timing | None = None
    stop_reason: StopReason | None = None
    arm_params: list[ArmParams] | None = None


class EpisodeRow(Strict):
    """One episode in the details document and the CSV; `wall_s` is how long it took, in s."""

    index: int
    arm: str | None = None
    task: str
    seed: int
    suite: str | None = None
    variation: list[tuple[str, str]] = Field(default_factory=list)
    steps: int = 0
    terminated: bool = False
    truncated: bool = False
    timed_out: bool = False
    recorded: bool = False
    error: str | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    trajectory: bool = False
    attempts: int = 1
    acts: int = 0
    wall_s: float = 0.0
