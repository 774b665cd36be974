"""What an eval will take, learned from what earlier ones measured. Pure; it starts nothing.

The unit that carries over to other trials, tasks and environments is processor time: an episode costs its
environment's (measured, by task) and for each act whatever else the act keeps busy (the policy, the wire, the
instance). A run is then as long as the largest of: all that work over the cores that can share it, its longest
episode, and the policy's own time, since one copy of a model answers one act at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import fmean, median
from typing import Any

from runner.evals.costs import machines_usd
from runner.evals.plan import Plan
from seq.contract.internal import Condition

LEARNED_FROM = 5
POLICY_S = 15.0
LAUNCH_S = 5.0
SETUP_S = 5.0
RESET_S = 0.5
STEP_S = 0.02
ACT_S = 0.03
STEPS_AN_ACT = 10
LEAST_ACT_S = 0.001
LEAST_POLICY_SHARE = 1 / 3


@dataclass(frozen=True)
class PastEpisode:
    """One finished episode: processor time of its environment and of the policy, and how long it took by the clock."""

    task: str
    recorded: bool
    acts: int
    env_cpu_s: float
    infer_s: float
    wall_s: float


@dataclass(frozen=True)
class PastEval:
    """One completed eval. From its submission a policy worker took `policy_s` to be ready; beside that it took
    `launch_s` until environments were started, which took `setup_s`; with both done it ran for `run_s`. `envs`
    environments shared `cores` cores. `disturbed` when something was lost or run again.
    """

    policy: str
    adapter: str | None
    envs: int
    cores: int
    policy_s: float
    launch_s: float
    setup_s: float
    run_s: float
    disturbed: bool
    episodes: tuple[PastEpisode, ...]


@dataclass(frozen=True)
class Check:
    """Seconds that the check at the benchmark's registration measured."""

    setup_s: float
    reset_s: float
    step_s: float


@dataclass(frozen=True)
class Work:
    """An episode's processor seconds in its environment, and its acts."""

    env_cpu_s: float
    acts: float


@dataclass(frozen=True)
class Pace:
    """What everything takes: the starts as in PastEval, each as if alone on the machine, an act beside its environment
    (`act_s`, of which `infer_s` in the policy), and an episode's work.
    """

    policy_s: float
    launch_s: float
    setup_s: float
    act_s: float
    infer_s: float
    work: Callable[[Condition], Work]
    source: str
    measured: bool


@dataclass(frozen=True)
class Estimate:
    """Seconds and dollars; `default_timing` when no eval of this benchmark was there to learn from."""

    wall_clock_s: float
    cost_usd: float
    default_timing: bool
    notes: tuple[str, ...]
    parts: dict[str, Any] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """The `estimate` block of the answers to `POST /v1/eval`."""
        return {
            "wall_clock_s": round(self.wall_clock_s, 1),
            "cost_usd": round(self.cost_usd, 6),
            "vlm_calls": 0,
            "default_timing": self.default_timing,
            "parts": self.parts,
        }


def make_estimate(
    plan: Plan, policy: str, adapter: str | None, past: Sequence[PastEval], check: Check | None = None
) -> Estimate:
    """The estimate of a plan; `past` are earlier evals of the same benchmark, newest first."""
    pace = _pace(plan, policy, adapter, past, check)
    works = [(episode.task, pace.work(episode)) for episode in plan.episodes]
    started = min(plan.envs_in_all, len(works))
    start_s = max(
        pace.policy_s + _taken_by_setups(pace.setup_s, started, plan.machine_cores),
        pace.launch_s + pace.setup_s * _shared(started, plan.machine_cores),
    )
    run_s = _run_s(plan, pace, [work for _, work in works])
    wall = start_s + run_s
    return Estimate(
        wall_clock_s=wall,
        cost_usd=machines_usd(plan.policy, wall) + machines_usd(plan.benchmark, wall),
        default_timing=not pace.measured,
        notes=(f"timing: {pace.source}",),
        parts={"start_s": round(start_s, 1), "run_s": round(run_s, 1), "work_s_per_task": _per_task(pace, works)},
    )


def _run_s(plan: Plan, pace: Pace, works: Sequence[Work]) -> float:
    chains = [work.env_cpu_s + work.acts * pace.act_s for work in works]
    together = max(1, min(plan.envs_in_all, plan.machine_cores, len(works)))
    asked = fsum(work.acts for work in works) * pace.infer_s / plan.policy.instances
    return max(fsum(chains) / together, *chains, asked)


def _per_task(pace: Pace, works: Iterable[tuple[str, Work]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for task, work in works:
        sums[task] = sums.get(task, 0.0) + work.env_cpu_s + work.acts * pace.act_s
    return {task: round(total, 1) for task, total in sums.items()}


def _shared(processes: int, cores: int) -> float:
    """How many times longer equal work takes when so many processes share the cores."""
    return max(1.0, processes / max(1, cores))


def _pace(plan: Plan, policy: str, adapter: str | None, past: Sequence[PastEval], check: Check | None) -> Pace:
    scored = [earlier for earlier in past if earlier.episodes]
    for found, what in (
        ([e for e in scored if e.policy == policy and e.adapter == adapter], "this policy, benchmark and adapter"),
        ([e for e in scored if e.policy == policy], "this policy and benchmark with another adapter"),
        (scored, "this benchmark with other policies"),
    ):
        if found:
            return _learned(plan, found, what)
    return _unmeasured(check)


def _learned(plan: Plan, found: Sequence[PastEval], what: str) -> Pace:
    evals = ([e for e in found if not e.disturbed] or list(found))[:LEARNED_FROM]
    episodes = [episode for earlier in evals for episode in earlier.episodes]
    act_s = median(_act_s(earlier) for earlier in evals)
    # Where only the whole act was measured, waiting is part of it: the policy cannot have been busier than the act.
    infer_s = min(act_s, median(_infer_s(earlier) for earlier in evals))
    unknown = sorted({episode.task for episode in plan.episodes} - {episode.task for episode in episodes})
    more = f"; {', '.join(unknown)} not among them, taken as the mean of the others" if unknown else ""
    return Pace(
        policy_s=median(_policy_alone_s(e) for e in evals),
        launch_s=median(e.launch_s for e in evals),
        setup_s=median(_setup_alone_s(e) for e in evals),
        act_s=act_s,
        infer_s=infer_s,
        work=_by_task(episodes),
        source=f"learned from {len(evals)} earlier eval(s) of {what}{more}",
        measured=True,
    )


def _taken_by_setups(setup_s: float, environments: int, cores: int) -> float:
    """How much later the policy is ready because environments start beside it."""
    return setup_s * environments / max(1, cores)


def _started(past: PastEval) -> int:
    return min(past.envs, len(past.episodes))


def _setup_alone_s(past: PastEval) -> float:
    return past.setup_s / _shared(_started(past), past.cores)


def _policy_alone_s(past: PastEval) -> float:
    taken = _taken_by_setups(_setup_alone_s(past), _started(past), past.cores)
    return max(past.policy_s - taken, past.policy_s * LEAST_POLICY_SHARE)


def _act_s(past: PastEval) -> float:
    """What an act kept busy beside its environment: the processor time the run had, less what environments used."""
    acts = max(1, sum(episode.acts for episode in past.episodes))
    running = fsum(episode.wall_s for episode in past.episodes) / max(past.run_s, 1e-6)
    together = max(1.0, min(past.cores, past.envs, running))
    rest = past.run_s * together - fsum(episode.env_cpu_s for episode in past.episodes)
    return max(LEAST_ACT_S, rest / acts)


def _infer_s(past: PastEval) -> float:
    acts = max(1, sum(episode.acts for episode in past.episodes))
    return fsum(episode.infer_s for episode in past.episodes) / acts


def _by_task(episodes: Sequence[PastEpisode]) -> Callable[[Condition], Work]:
    groups: dict[tuple[str | None, bool | None], list[PastEpisode]] = {}
    for episode in episodes:
        for key in (
            (episode.task, episode.recorded),
            (episode.task, None),
            (None, episode.recorded),
            (None, None),
        ):
            groups.setdefault(key, []).append(episode)
    means = {
        key: Work(fmean(episode.env_cpu_s for episode in group), fmean(episode.acts for episode in group))
        for key, group in groups.items()
    }

    def work(condition: Condition) -> Work:
        keys = ((condition.task, condition.record), (condition.task, None), (None, condition.record), (None, None))
        return next(means[key] for key in keys if key in means)

    return work


def _unmeasured(check: Check | None) -> Pace:
    reset_s, step_s = (check.reset_s, check.step_s) if check else (RESET_S, STEP_S)

    def work(condition: Condition) -> Work:
        return Work(reset_s + condition.max_steps * step_s, condition.max_steps / STEPS_AN_ACT)

    first = "from the check at the benchmark's registration" if check else "no measurement, only defaults"
    return Pace(
        policy_s=POLICY_S,
        launch_s=LAUNCH_S,
        setup_s=check.setup_s if check else SETUP_S,
        act_s=ACT_S,
        infer_s=0.0,
        work=work,
        source=f"{first}; every episode taken to its step limit (the first eval of this benchmark measures more)",
        measured=False,
    )
