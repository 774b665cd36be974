"""What an eval answers, as plain frozen values: the estimate of a dry run and the report of a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Json = Mapping[str, Any]
FetchEpisodes = Callable[[], Iterable[Json]]


@dataclass(frozen=True)
class ClampInfo:
    """A number the platform granted less of than was asked, and which limit did it."""

    limit: str
    requested: int
    granted: int

    @classmethod
    def from_wire(cls, body: Json) -> ClampInfo:
        """Read `clamped_by` of a dry run's answer."""
        return cls(str(body["limit"]), int(body["requested"]), int(body["granted"]))


@dataclass(frozen=True)
class EvalEstimate:
    """What an eval would take: seconds and dollars. Nothing was started and nothing is reserved."""

    gpus_granted: int
    wall_clock_s: float
    cost_usd: float
    vlm_calls: int
    clamped_by: ClampInfo | None = None
    layout: Json | None = None
    cards: Json | None = None
    notes: list[str] | None = None
    breakdown: Json | list[Json] | None = None
    default_timing: bool | None = None
    held_usd: float | None = None

    @classmethod
    def from_wire(cls, body: Json) -> EvalEstimate:
        """Read the whole answer to a `dry_run` request."""
        numbers = body.get("estimate") or {}
        cards = body.get("cards")
        clamped, notes, planning = (body.get(key) for key in ("clamped_by", "notes", "planning"))
        return cls(
            gpus_granted=int(body.get("gpus_granted", (cards or {}).get("total", 0))),
            wall_clock_s=float(numbers["wall_clock_s"]),
            cost_usd=float(numbers["cost_usd"]),
            vlm_calls=int(numbers.get("vlm_calls") or 0),
            clamped_by=ClampInfo.from_wire(clamped) if clamped else None,
            layout=body.get("layout"),
            cards=cards,
            notes=[*(notes or []), *planning] if planning else notes,
            breakdown=numbers.get("breakdown"),
            default_timing=numbers.get("default_timing"),
            held_usd=numbers.get("held_usd"),
        )


@dataclass(frozen=True)
class TaskAgg:
    """One task's mean of a metric over `n` scored episodes."""

    task: str
    value: float
    n: int

    @classmethod
    def from_wire(cls, body: Json) -> TaskAgg:
        """Read one row of `per_task`."""
        return cls(str(body["task"]), float(body["value"]), int(body["n"]))


@dataclass(frozen=True)
class SuiteAgg:
    """One suite's mean of a metric over `n` scored episodes."""

    suite: str
    value: float
    n: int

    @classmethod
    def from_wire(cls, body: Json) -> SuiteAgg:
        """Read one row of `per_suite`."""
        return cls(str(body["suite"]), float(body["value"]), int(body["n"]))


@dataclass(frozen=True)
class MetricAgg:
    """A metric of yours: its mean over all scored episodes, and per suite and task."""

    overall: float
    per_suite: list[SuiteAgg]
    per_task: list[TaskAgg]
    n: int

    @classmethod
    def from_wire(cls, body: Json) -> MetricAgg:
        """Read one value of the report's `metrics`."""
        return cls(
            overall=float(body["overall"]),
            per_suite=[SuiteAgg.from_wire(row) for row in body.get("per_suite") or []],
            per_task=[TaskAgg.from_wire(row) for row in body.get("per_task") or []],
            n=int(body["n"]),
        )


@dataclass(frozen=True)
class LossyTransform:
    """A step of the adapter that ran and loses something, with its reason."""

    transform: str
    reason: str

    @classmethod
    def from_wire(cls, body: Json) -> LossyTransform:
        """Read one row of `adapter_lossy`."""
        return cls(str(body["transform"]), str(body["reason"]))


@dataclass(frozen=True)
class Timing:
    """Seconds of each cold start, and mean milliseconds of each phase of the loop."""

    cold_start_s: dict[str, float] = field(default_factory=dict)
    step_ms: dict[str, float] = field(default_factory=dict)
    batch_size_mean: float | None = None
    steps: int = 0

    @classmethod
    def from_wire(cls, body: Json) -> Timing:
        """Read the report's `timing`."""
        return cls(
            cold_start_s=dict(body.get("cold_start_s") or {}),
            step_ms=dict(body.get("step_ms") or {}),
            batch_size_mean=body.get("batch_size_mean"),
            steps=int(body.get("steps") or 0),
        )


@dataclass(frozen=True)
class ParamValue:
    """The value a side ran with, and who set it."""

    value: bool | int | float | str | None
    source: str


@dataclass(frozen=True)
class ArmParams:
    """The parameters one arm ran with, side by side."""

    arm: str
    policy: dict[str, ParamValue]
    adapter: dict[str, ParamValue]
    benchmark: dict[str, ParamValue]
    eval: dict[str, ParamValue]
    queries: int | None = None
    steps: int | None = None

    @classmethod
    def from_wire(cls, body: Json) -> ArmParams:
        """Read one row of `arm_params`."""

        def side(name: str) -> dict[str, ParamValue]:
            return {key: ParamValue(row["value"], row["source"]) for key, row in (body.get(name) or {}).items()}

        return cls(
            arm=str(body["arm"]),
            policy=side("policy"),
            adapter=side("adapter"),
            benchmark=side("benchmark"),
            eval=side("eval"),
            queries=body.get("queries"),
            steps=body.get("steps"),
        )


@dataclass(frozen=True)
class ArmResult:
    """One arm of an eval: its own numbers, never pooled with another's."""

    arm: str
    model: str
    params: dict[str, Any]
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    episodes: int
    failed: int
    not_run: int
    budget_stopped: bool

    @classmethod
    def from_wire(cls, body: Json) -> ArmResult:
        """Read one row of `arms`."""
        return cls(
            arm=str(body["arm"]),
            model=str(body["model"]),
            params=dict(body.get("params") or {}),
            metrics=dict(body.get("metrics") or {}),
            intervals={name: (float(low), float(high)) for name, (low, high) in (body.get("intervals") or {}).items()},
            episodes=int(body.get("episodes") or 0),
            failed=int(body.get("failed") or 0),
            not_run=int(body.get("not_run") or 0),
            budget_stopped=bool(body.get("budget_stopped")),
        )


@dataclass(frozen=True)
class PairedDifference:
    """Arm b minus arm a over the `n` episodes that both scored, with a 95 % interval."""

    metric: str
    arm_a: str
    arm_b: str
    n: int
    mean_diff: float
    interval: tuple[float, float]

    @classmethod
    def from_wire(cls, body: Json) -> PairedDifference:
        """Read one row of `paired`."""
        low, high = body["interval"]
        return cls(
            metric=str(body["metric"]),
            arm_a=str(body["arm_a"]),
            arm_b=str(body["arm_b"]),
            n=int(body["n"]),
            mean_diff=float(body["mean_diff"]),
            interval=(float(low), float(high)),
        )


@dataclass(frozen=True)
class Beside:
    """What page, frame and picture need beyond a report's published fields: the details, and all episodes' rows."""

    details: Json = field(default_factory=dict)
    episodes: FetchEpisodes | None = None

    def rows(self) -> Iterable[Json]:
        """Every episode's row. Raises LookupError when there is no way to them."""
        from seq._episode_rows import listed  # noqa: PLC0415  reports are read far more often than their episodes

        found = listed(self.details) if "episodes" in self.details else None
        if found is not None:
            return found
        if self.episodes is None:
            raise LookupError(
                "this report came without its episodes: read it again with seq.eval, or `seq eval report ID --csv PATH`"
            )
        return self.episodes()


@dataclass(frozen=True)
class EvalReport:
    """An eval's outcome. `metrics` are the benchmark's own keys; there is no success rate of the platform's.

    A notebook shows it as a page; `to_pandas()` and `plot()` need the extra `data`.
    """

    status: str
    metrics: dict[str, MetricAgg]
    cost_usd: float
    dashboard_url: str
    adapter_lossy: list[LossyTransform]
    videos: list[str]
    incomplete: bool | None = None
    errors: list[str] = field(default_factory=list)
    arms: list[ArmResult] | None = None
    paired: list[PairedDifference] | None = None
    timing: Timing | None = None
    stop_reason: str | None = None
    arm_params: list[ArmParams] | None = None

    # No field: two reports that say the same are equal, and `dataclasses.asdict` holds what was published.
    _beside: ClassVar[Beside] = Beside()

    @classmethod
    def from_wire(cls, body: Json, details: Json | None = None, episodes: FetchEpisodes | None = None) -> EvalReport:
        """Read `GET /v1/eval/{id}`; keys of a later platform are left aside.

        `details` is the document beside it. `episodes` is asked for every episode's row where that document does not
        hold them all, each time they are needed.
        """
        arms, paired, timing, params = (body.get(key) for key in ("arms", "paired", "timing", "arm_params"))
        report = cls(
            status=str(body["status"]),
            metrics={name: MetricAgg.from_wire(row) for name, row in body["metrics"].items()},
            cost_usd=float(body["cost_usd"]),
            dashboard_url=str(body["dashboard_url"]),
            adapter_lossy=[LossyTransform.from_wire(row) for row in body["adapter_lossy"]],
            videos=list(body.get("videos") or []),
            incomplete=body.get("incomplete"),
            errors=list(body.get("errors") or []),
            arms=[ArmResult.from_wire(row) for row in arms] if arms is not None else None,
            paired=[PairedDifference.from_wire(row) for row in paired] if paired is not None else None,
            timing=Timing.from_wire(timing) if timing is not None else None,
            stop_reason=body.get("stop_reason"),
            arm_params=[ArmParams.from_wire(row) for row in params] if params is not None else None,
        )
        object.__setattr__(report, "_beside", Beside(dict(details or {}), episodes))
        return report

    def __getstate__(self) -> dict[str, Any]:
        """Without the way to fetch episodes, which may hold a connection: a copy has the rows that the details hold."""
        return {**vars(self), "_beside": Beside(self._beside.details)}

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with a row an episode: `arm`, `index`, `task`, `seed`, ..., `variation.<axis>`, and each metric.

        Raises ImportError without pandas, LookupError when this report came without its episodes.
        """
        from seq._report_frame import frame  # noqa: PLC0415  pandas is loaded when it is asked for
        from seq._report_view import view  # noqa: PLC0415  the same

        return frame(self._beside.rows(), view(self).first.name)

    def plot(self, metric: str | None = None) -> Figure:
        """A matplotlib Figure of `metric` (`success`, else the first): by task with intervals, and between arms.

        Raises ImportError without matplotlib, ValueError for a metric that is not there.
        """
        from seq._report_plot import plot  # noqa: PLC0415  matplotlib is loaded when it is asked for
        from seq._report_view import view  # noqa: PLC0415  the same

        return plot(view(self), metric)

    def _repr_html_(self) -> str:
        from seq._report_html import page  # noqa: PLC0415  only a notebook asks
        from seq._report_view import view  # noqa: PLC0415  the same

        return page(view(self))
