"""What a platform answers about evals, as far as it is read here; anything else is one sentence instead of a crash.

A key may be missing where a reader does without it, and a later platform may send more; what is read has JSON's type
that the wire gives it.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from sequence_ai import InternalError

Json = dict[str, Any]
Scalar = bool | int | float | str
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}$")]
Bounds = Annotated[list[float], Field(min_length=2, max_length=2)]
Texts = list[str] | None

_SHOWN = 3


class Answer(BaseModel):
    """A body, or a part of one."""

    # Built when first used: most commands read none of these.
    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)


class Document(Answer):
    """A body of which nothing must be there; what is no JSON object at all arrives as `data` (see `Api`)."""

    data: None = None


A = TypeVar("A", bound=Answer)


def answered(kind: type[A], body: Json, what: str) -> Json:
    """`body` as it came, once it is known to be a `kind`; raises InternalError, naming what is wrong, otherwise."""
    try:
        kind.model_validate(body)
    except ValidationError as wrong:
        raise unreadable(what, wrong) from wrong
    return body


def unreadable(what: str, wrong: ValidationError) -> InternalError:
    """An answer that is not `what` was asked for, and why."""
    faults = wrong.errors(include_url=False)
    told = "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'it'}: {fault['msg']}" for fault in faults[:_SHOWN])
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return InternalError(
        f"the platform's answer is not {what} as this release reads it: {told}{more}",
        code="internal",
        hint="is it a platform, and of this release? `seq status` and `seq --version` tell",
    )


# The report, `GET /v1/eval/{id}`.


class TaskValue(Answer):
    """A row of `per_task`."""

    task: str
    value: float
    n: int


class SuiteValue(Answer):
    """A row of `per_suite`."""

    suite: str
    value: float
    n: int


class Metric(Answer):
    """A value of `metrics`."""

    overall: float
    n: int
    per_task: list[TaskValue] | None = None
    per_suite: list[SuiteValue] | None = None


class LossyStep(Answer):
    """A row of `adapter_lossy`."""

    transform: str
    reason: str


class ArmValues(Answer):
    """A row of the report's `arms`."""

    arm: str
    model: str
    params: Json | None = None
    metrics: dict[str, float] | None = None
    intervals: dict[str, Bounds] | None = None
    episodes: int | None = None
    failed: int | None = None
    not_run: int | None = None


class PairValues(Answer):
    """A row of the report's `paired`."""

    metric: str
    arm_a: str
    arm_b: str
    n: int
    mean_diff: float
    interval: Bounds


class Times(Answer):
    """The report's `timing`."""

    cold_start_s: dict[str, float] | None = None
    step_ms: dict[str, float] | None = None
    batch_size_mean: float | None = None
    steps: int | None = None


class Setting(Answer):
    """The value a side ran with, and who set it."""

    value: Scalar | None
    source: str


Settings = dict[str, Setting] | None


class ArmSettings(Answer):
    """A row of `arm_params`."""

    arm: str
    policy: Settings = None
    adapter: Settings = None
    benchmark: Settings = None
    eval: Settings = None
    queries: int | None = None
    steps: int | None = None


class Report(Answer):
    """`GET /v1/eval/{id}`."""

    status: str
    metrics: dict[str, Metric]
    cost_usd: float
    dashboard_url: str
    adapter_lossy: list[LossyStep]
    videos: Texts = None
    incomplete: bool | None = None
    errors: Texts = None
    arms: list[ArmValues] | None = None
    paired: list[PairValues] | None = None
    timing: Times | None = None
    stop_reason: str | None = None
    arm_params: list[ArmSettings] | None = None


# The details beside it, `GET /v1/eval/{id}/details`, and its pages of episodes.


class Leaf(Answer):
    """A mean with its interval, where there is one."""

    mean: float | None = None
    n: int | None = None
    low: float | None = None
    high: float | None = None


class Groups(Answer):
    """The leaves of one metric."""

    overall: Leaf | None = None
    per_suite: dict[str, Leaf | None] | None = None
    per_task: dict[str, Leaf | None] | None = None
    per_variant: dict[str, Leaf | None] | None = None


class Means(Answer):
    """The means of one metric by name."""

    micro: Leaf | float | None = None
    macro: Leaf | float | None = None


class Difference(Answer):
    """A paired difference with all that is known of it."""

    mean_diff: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int | None = None
    p_adjusted: float | None = None
    comparisons: int | None = None
    won: int | None = None
    lost: int | None = None
    method: str | None = None
    p_method: str | None = None


class Pair(Difference):
    """A row of the details' `paired`."""

    metric: str | None = None
    arm_a: str | None = None
    arm_b: str | None = None


class ArmDetails(Answer):
    """A row of the details' `arms`."""

    arm: str | None = None
    model: str | None = None
    model_version: int | str | None = None
    params: Json | None = None
    intervals: dict[str, Groups | None] | None = None
    means: dict[str, Means | None] | None = None
    counts: dict[str, int | None] | None = None
    scored_by: Texts = None


class Episode(Answer):
    """One episode's row."""

    index: int
    task: str
    seed: int
    arm: str | None = None
    suite: str | None = None
    variation: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    steps: int | None = None
    terminated: bool | None = None
    truncated: bool | None = None
    timed_out: bool | None = None
    recorded: bool | None = None
    trajectory: bool | None = None
    error: str | None = None
    metrics: dict[str, float] | None = None


class Cause(Answer):
    """A row of the details' `errors`."""

    cause: str | None = None
    count: int | None = None
    arm: str | None = None
    traceback: str | None = None
    episodes: list[int] | None = None


class Adapter(Answer):
    """The adapter in a manifest."""

    name: str | None = None
    version: int | str | None = None
    sha256: str | None = None


class Manifest(Answer):
    """Exactly what ran."""

    eval_id: Name | None = None
    model: str | None = None
    model_version: int | str | None = None
    benchmark: str | None = None
    benchmark_version: int | str | None = None
    adapter: Adapter | str | None = None
    episodes: int | None = None
    seeds: list[int] | None = None
    sha256: Json | None = None
    layout: Json | None = None
    facts: Json | None = None
    rerun_of: str | None = None
    rerun_unsuccessful_of: str | None = None
    metric: str | None = None
    earlier_cost_usd: float | None = None


class ArmProgress(Answer):
    """A row of the progress's `arms`."""

    arm: str | None = None
    done: int | None = None
    total: int | None = None
    failed: int | None = None
    running: int | None = None
    pending: int | None = None
    not_run: int | None = None
    metrics: dict[str, Leaf | None] | None = None


class Progress(Answer):
    """How far an eval is."""

    done: int | None = None
    total: int | None = None
    failed: int | None = None
    running: int | None = None
    pending: int | None = None
    not_run: int | None = None
    arms: list[ArmProgress] | None = None


class Latency(Answer):
    """How long acts took."""

    act_ms_mean: float | None = None
    act_ms_max: float | None = None
    acts: int | None = None


class PolicyLoad(Answer):
    """A policy worker's part of a load."""

    instance: str | int | None = None
    requests: int | None = None
    busy: float | None = None


class Load(Answer):
    """Where an arm's time went."""

    policies: list[PolicyLoad] | None = None
    benchmark_busy: float | None = None
    policy_wait: float | None = None
    episodes_moved: int | None = None
    episodes_rerun: int | None = None


class Queue(Answer):
    """The wait for cards."""

    cards: int | None = None
    available: int | None = None
    waited_s: float | None = None
    gives_up_at: str | float | None = None


class Standing(Answer):
    """`GET /v1/eval/{id}/progress`."""

    status: str
    progress: Progress | None = None
    queue: Queue | None = None


class Spent(Answer):
    """Time and money; either may be known alone."""

    wall_clock_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    cost_usd: float | None = None
    held_usd: float | None = None


class Starts(Answer):
    """How many distinct starts there were."""

    planned: int | None = None
    seen: int | None = None


class Note(Answer):
    """A remark."""

    note: str | None = None


class Previous(Answer):
    """How a scheduled run compares with the one before it."""

    eval_id: str | None = None
    metric: str | None = None
    value: float | None = None
    difference: Difference | None = None
    regressed: bool | None = None
    sentence: str | None = None


class Details(Document):
    """`GET /v1/eval/{id}/details`."""

    manifest: Manifest | None = None
    intervals: dict[str, Groups | None] | None = None
    means: dict[str, Means | None] | None = None
    arms: list[ArmDetails] | None = None
    paired: list[Pair] | None = None
    differs: Texts = None
    episodes: list[Episode] | None = None
    episodes_total: int | None = None
    errors: list[Cause] | None = None
    counts: dict[str, int | None] | None = None
    progress: Progress | None = None
    latency: Latency | None = None
    load: list[Load] | None = None
    queue: Queue | None = None
    happened: Texts = None
    estimate: Spent | None = None
    actual: Spent | None = None
    distinct_starts: Starts | None = None
    time_limit: Note | None = None
    previous: Previous | None = None


class Episodes(Answer):
    """`GET /v1/eval/{id}/episodes`, one page."""

    episodes: list[Episode]
    next_cursor: str | None = None


# `POST /v1/eval`, and stopping one.


class PolicyLayout(Answer):
    """A policy's machines in a dry run."""

    model: str
    instances: int
    gpu: str | None = None
    fallback: Texts = None


class BenchmarkLayout(Answer):
    """The benchmark's machines in a dry run."""

    gpu: str | None = None
    fallback: Texts = None
    envs: int | None = None
    instances_per_arm: int | None = None


class ArmLayout(Answer):
    """An arm in a dry run."""

    arm: str
    model: str
    settings: dict[str, Settings] | None = None


class Layout(Answer):
    """How an eval would be laid out."""

    policy: list[PolicyLayout] | None = None
    benchmark: BenchmarkLayout | None = None
    arms: list[ArmLayout] | None = None
    region: str | None = None
    region_multiple: float | None = None
    episodes_per_arm: int | None = None


class SideCards(Answer):
    """One side's cards."""

    instances: int | None = None
    cards_each: int | None = None


class Cards(Answer):
    """The cards of a layout against the account's."""

    policy: SideCards | None = None
    benchmark: SideCards | None = None
    total: int | None = None
    limit: int | None = None
    in_use: dict[str, int | None] | None = None
    available: int | None = None
    short: int | None = None
    reason: str | None = None
    would_queue: bool | None = None
    queue_timeout_s: float | None = None


class Work(Answer):
    """A row of an estimate's `breakdown`."""

    arm: str | None = None
    task: str | None = None
    episodes: int | None = None
    seconds: float | None = None


class Estimate(Spent):
    """What an eval would take: how long and how much, or nothing."""

    vlm_calls: int | None = None
    default_timing: bool | None = None
    breakdown: list[Work] | Json | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        if self.wall_clock_s is not None and self.cost_usd is None:
            raise ValueError("wall_clock_s without cost_usd")
        return self


class Clamped(Answer):
    """A number that less was granted of."""

    limit: str
    requested: int
    granted: int


class DryRun(Answer):
    """The answer to a dry run."""

    estimate: Estimate
    gpus_granted: int = 0
    cards: Cards | None = None
    layout: Layout | None = None
    planning: Texts = None
    notes: Texts = None
    clamped_by: Clamped | None = None
    queue: Queue | None = None


class Estimated(DryRun):
    """The same, as `seq.EvalEstimate` needs it."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.estimate.wall_clock_s is None:
            raise ValueError("there is no estimate in it")
        if not self.gpus_granted and self.cards is not None and self.cards.total is None:
            raise ValueError("there is no number of cards in it")
        return self


class Started(Answer):
    """The answer to a real run."""

    eval_id: Name
    status: str | None = None
    estimate: Estimate | None = None
    queue: Queue | None = None


class Canceled(Answer):
    """`POST /v1/eval/{id}/cancel`."""

    eval_id: str
    status: str


# Evals over time, and against each other.


class Schedule(Answer):
    """A schedule as it is listed."""

    benchmark: str
    every: str | None = None
    trials: int | None = None
    max_usd: float | None = None
    adapter: str | None = None
    due_at: str | None = None
    webhook: str | None = None
    webhook_secret: str | None = None
    last_eval: str | None = None
    last_error: str | None = None
    previous: Previous | None = None


class Past(Answer):
    """An eval as it is listed."""

    eval_id: str
    status: str | None = None
    model_version: int | str | None = None
    arm: str | None = None
    benchmark: str | None = None
    metric: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    incomplete: bool | None = None
    scheduled: bool | None = None
    regressed: bool | None = None


class History(Answer):
    """`GET /v1/deployments/{name}/evals`, one page."""

    history: list[Past]
    schedules: list[Schedule] | None = None
    total: int | None = None
    offset: int | None = None
    next_cursor: str | None = None


class Compared(Answer):
    """One of two evals that are compared."""

    eval_id: str | None = None
    model: str | None = None
    model_version: int | str | None = None
    status: str | None = None
    scored: int | None = None


class MetricDifference(Difference):
    """A row of a comparison."""

    metric: str


class Comparison(Answer):
    """`GET /v1/eval/{a}/compare/{b}`."""

    a: Compared
    b: Compared
    paired: list[MetricDifference]
    differs: Texts = None
    incomplete: bool | None = None
