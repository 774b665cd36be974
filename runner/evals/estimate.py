"""What an eval will take, learned from what earlier ones measured. Pure; it starts nothing.

The unit that carries over to other trials, tasks and environments is processor time: an episode costs its
environment's (measured, by task) and for each act whatever else the act keeps busy (the policy, the wire, the
instance). A run is then as long as the largest of: all that work over the cores that can share it, its longest
episode, and the policy's own time, since one copy of a model answers one act at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import fsum
from statistics import fmean, median
from typing import Any

from runner.evals.costs import plan_usd
from runner.evals.plan import ArmPlan, Plan
from runner.evals.selection import counter

LEARNED_FROM = 5
BAND = 2.0
"""An estimate learned from earlier evals is held to this factor, both ways (tests/e2e/test_estimate.py)."""
UNMEASURED_LEAST = 0.05
"""Of an estimate without a measurement, which takes every episode to its step limit: it may well end that soon."""
HOLD_MARGIN = 1.25
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
    """One finished episode of a policy: processor time of its environment and of the policy, and how long it took by
    the clock.
    """

    policy: str
    task: str
    recorded: bool
    acts: int
    env_cpu_s: float
    infer_s: float
    wall_s: float


@dataclass(frozen=True)
class PastEval:
    """One completed eval, all its arms together. From its submission a policy worker took `policy_s` to be ready;
    beside that it took `launch_s` until environments were started, which took `setup_s`; with both done it ran for
    `run_s`. `envs` environments shared `cores` cores. `disturbed` when something was lost or run again.
    """

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
    work: Callable[[str, bool, int], Work]
    source: str
    measured: bool


@dataclass(frozen=True)
class Share:
    """Episodes of one arm that cost the same: of one task, recorded or not."""

    label: str
    version_id: str
    task: str
    episodes: int
    chain_s: float
    asked_s: float


@dataclass(frozen=True)
class Estimate:
    """Seconds and dollars; `default_timing` when no eval of this benchmark was there to learn from.

    `low_s` and `high_s` bound the time as far as such an estimate is held to; `held_usd` is the most that a real run
    sets aside: its dearest cards for the longest of these times and a margin, at most its own bound.
    """

    wall_clock_s: float
    low_s: float
    high_s: float
    cost_usd: float
    held_usd: float
    default_timing: bool
    notes: tuple[str, ...]
    parts: dict[str, Any] = field(default_factory=dict)
    breakdown: tuple[dict[str, Any], ...] = ()

    def wire(self) -> dict[str, Any]:
        """The `estimate` block of the answers to `POST /v1/eval`."""
        return {
            "wall_clock_s": round(self.wall_clock_s, 1),
            "low_s": round(self.low_s, 1),
            "high_s": round(self.high_s, 1),
            "cost_usd": round(self.cost_usd, 6),
            "held_usd": round(self.held_usd, 6),
            "vlm_calls": 0,
            "default_timing": self.default_timing,
            "parts": self.parts,
            "breakdown": list(self.breakdown),
        }


def make_estimate(
    plan: Plan,
    adapter: str | None,
    past: Sequence[PastEval],
    check: Check | None = None,
    max_usd: float | None = None,
) -> Estimate:
    """The estimate of a plan; `past` are earlier evals of the same benchmark, newest first."""
    paces = [_pace(plan, arm.policy.name, adapter, past, check) for arm in plan.arms]
    shares = list(chain.from_iterable(_shares(plan, arm, pace) for arm, pace in zip(plan.arms, paces, strict=True)))
    started = min(plan.envs_in_all, plan.total)
    setup_s = max(pace.setup_s for pace in paces)
    start_s = max(
        max(pace.policy_s for pace in paces) + _taken_by_setups(setup_s, started, plan.machine_cores),
        max(pace.launch_s for pace in paces) + setup_s * _shared(started, plan.machine_cores),
    )
    run_s = _run_s(plan, shares)
    wall = start_s + run_s
    measured = all(pace.measured for pace in paces)
    high = wall * BAND
    held = HOLD_MARGIN * plan_usd(plan, high, dearest=True)
    return Estimate(
        wall_clock_s=wall,
        low_s=wall / BAND if measured else wall * UNMEASURED_LEAST,
        high_s=high,
        cost_usd=plan_usd(plan, wall),
        held_usd=held if max_usd is None else min(held, max_usd),
        default_timing=not measured,
        notes=tuple(dict.fromkeys(f"timing: {pace.source}" for pace in paces)),
        parts={"start_s": round(start_s, 1), "run_s": round(run_s, 1), "work_s_per_task": _per_task(shares)},
        breakdown=tuple(_broken_down(shares)),
    )


def _shares(plan: Plan, arm: ArmPlan, pace: Pace) -> Iterator[Share]:
    """The episodes that an arm plays, block by block."""
    seen: set[str] = set()
    below, end = counter(arm.todo), 0
    for block in plan.selection.blocks:
        begin, end = end, end + len(block)
        first = block.task not in seen
        seen.add(block.task)
        wanted = below(end) - below(begin)
        filmed = {"all": wanted, "per-task": below(begin + 1) - below(begin) if first else 0, "none": 0}[plan.record]
        for recorded, episodes in ((True, filmed), (False, wanted - filmed)):
            if episodes:
                work = pace.work(block.task, recorded, block.max_steps)
                chain_s = work.env_cpu_s + work.acts * pace.act_s
                asked_s = work.acts * pace.infer_s
                yield Share(arm.name, arm.policy.version_id, block.task, episodes, chain_s, asked_s)


def _run_s(plan: Plan, shares: Sequence[Share]) -> float:
    together = max(1, min(plan.envs_in_all, plan.machine_cores, plan.total))
    longest = max((share.chain_s for share in shares), default=0.0)
    asked = [
        fsum(share.episodes * share.asked_s for share in shares if share.version_id == policy.version_id)
        / policy.machines.instances
        for policy in plan.policies
        if policy.machines.instances
    ]
    return max(fsum(share.episodes * share.chain_s for share in shares) / together, longest, *asked)


def _per_task(shares: Iterable[Share]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for share in shares:
        sums[share.task] = sums.get(share.task, 0.0) + share.episodes * share.chain_s
    return {task: round(total, 1) for task, total in sums.items()}


def _broken_down(shares: Iterable[Share]) -> Iterator[dict[str, Any]]:
    sums: dict[tuple[str, str], tuple[int, float]] = {}
    for share in shares:
        episodes, seconds = sums.get((share.label, share.task), (0, 0.0))
        sums[share.label, share.task] = (episodes + share.episodes, seconds + share.episodes * share.chain_s)
    for (arm, task), (episodes, seconds) in sums.items():
        yield {"arm": arm, "task": task, "episodes": episodes, "seconds": round(seconds, 1)}


def _shared(processes: int, cores: int) -> float:
    """How many times longer equal work takes when so many processes share the cores."""
    return max(1.0, processes / max(1, cores))


def _pace(plan: Plan, policy: str, adapter: str | None, past: Sequence[PastEval], check: Check | None) -> Pace:
    scored = [earlier for earlier in past if earlier.episodes]
    its = [earlier for earlier in scored if any(episode.policy == policy for episode in earlier.episodes)]
    for found, what in (
        ([e for e in its if e.adapter == adapter], "this policy, benchmark and adapter"),
        (its, "this policy and benchmark with another adapter"),
        (scored, "this benchmark with other policies"),
    ):
        if found:
            return _learned(plan, policy, found, what)
    return _unmeasured(check)


def _learned(plan: Plan, policy: str, found: Sequence[PastEval], what: str) -> Pace:
    evals = ([e for e in found if not e.disturbed] or list(found))[:LEARNED_FROM]
    every = [episode for earlier in evals for episode in earlier.episodes]
    episodes = [episode for episode in every if episode.policy == policy] or every
    act_s = median(_act_s(earlier) for earlier in evals)
    # Where only the whole act was measured, waiting is part of it: the policy cannot have been busier than the act.
    infer_s = min(act_s, median(_infer_s(earlier, policy) for earlier in evals))
    unknown = sorted({block.task for block in plan.selection.blocks} - {episode.task for episode in episodes})
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


def _infer_s(past: PastEval, policy: str) -> float:
    episodes = [episode for episode in past.episodes if episode.policy == policy] or past.episodes
    acts = max(1, sum(episode.acts for episode in episodes))
    return fsum(episode.infer_s for episode in episodes) / acts


def _by_task(episodes: Sequence[PastEpisode]) -> Callable[[str, bool, int], Work]:
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

    def work(task: str, recorded: bool, max_steps: int) -> Work:  # noqa: ARG001  as measured, whatever the limit
        return next(
            means[key] for key in ((task, recorded), (task, None), (None, recorded), (None, None)) if key in means
        )

    return work


def _unmeasured(check: Check | None) -> Pace:
    reset_s, step_s = (check.reset_s, check.step_s) if check else (RESET_S, STEP_S)

    def work(task: str, recorded: bool, max_steps: int) -> Work:  # noqa: ARG001  nothing is known of either
        return Work(reset_s + max_steps * step_s, max_steps / STEPS_AN_ACT)

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
