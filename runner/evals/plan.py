"""An eval request and both sides' declarations made a frozen plan, or a refusal that says what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from runner.cluster.base import Capacity, caveat
from runner.errors import Refused
from runner.evals.conditions import Start, episodes, seeds_short, selected
from runner.evals.observations import misfits
from runner.evals.unbuilt import refuse_unbuilt
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.evals import EvalRequest
from seq.contract.internal import Condition
from seq.contract.robot import ActionContract

DEFAULT_CORES = 16
GIB_A_CORE = 2.0
DEFAULT_CARD = "L4"
MIN_CORES = 0.125
MIN_GIB = 0.125
SCORE_NOTE = "score: this platform does not run a benchmark's score hook yet; its metrics are the means of check's"


@dataclass(frozen=True)
class PolicySide:
    """The pinned policy version."""

    name: str
    version: int
    request: DeploymentRequest


@dataclass(frozen=True)
class BenchmarkSide:
    """The pinned benchmark version; `observation` describes its first observation (wire.md 4.5)."""

    name: str
    version: int
    request: BenchmarkRegisterRequest
    observation: dict[str, Any] | None = None


@dataclass(frozen=True)
class AdapterSide:
    """The pinned adapter version."""

    name: str
    version: int
    sha256: str
    policy_io: str
    lossy: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Known:
    """The account's adapters: all of them, and those already used on this benchmark."""

    adapters: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machines:
    """One side's machines: how many, each with a card ("cpu" for none), processor cores and GiB of memory."""

    instances: int
    card: str
    cores: float
    memory_gb: float


@dataclass(frozen=True)
class Plan:
    """Everything an eval will do. `envs`, `envs_asked` and `cores_each` are per benchmark instance: an instance starts
    `envs`, of the `envs_asked` no more than it can have episodes; `record` is what is recorded; `pretend` says that it
    rests on cards that are not there.
    """

    episodes: tuple[Condition, ...]
    policy: Machines
    benchmark: Machines
    envs: int
    envs_asked: int
    cores_each: int
    machine_cores: int
    record: Literal["per-task", "all", "none"]
    notes: tuple[str, ...]
    pretend: bool = False

    @property
    def envs_in_all(self) -> int:
        """Environments that every benchmark instance together starts."""
        return self.envs * self.benchmark.instances


def make_plan(
    request: EvalRequest,
    policy: PolicySide,
    benchmark: BenchmarkSide,
    adapter: AdapterSide | None,
    known: Known,
    capacity: Capacity,
) -> Plan:
    """The plan of an eval of `policy` on `benchmark`; raises Refused when it cannot or must not run."""
    refuse_unbuilt(request)
    if adapter is None:
        _refuse_unlike_contracts(policy, benchmark, known)
    policy_machines = _policy_machines(request, policy.request, capacity)
    chosen = selected(benchmark.request, request)
    envs_asked = _envs_asked(request, benchmark.request)
    envs = min(envs_asked, ceil(len(chosen) / request.benchmark_instances))
    benchmark_machines = _benchmark_machines(request, benchmark, envs, capacity)
    record = _recording(request, benchmark.request)
    pretend = capacity.pretend and (policy_machines.card, benchmark_machines.card) != ("cpu", "cpu")
    return Plan(
        episodes=tuple(episodes(chosen, record)),
        policy=policy_machines,
        benchmark=benchmark_machines,
        envs=envs,
        envs_asked=envs_asked,
        cores_each=max(1, min(int(benchmark_machines.cores), capacity.cores)),
        machine_cores=capacity.cores,
        record=record,
        notes=(
            *([caveat(capacity.cards)] if pretend else []),
            *_notes_on_envs(benchmark_machines, envs, envs_asked, len(chosen), capacity),
            *_notes(request, benchmark, chosen),
        ),
        pretend=pretend,
    )


def layout(plan: Plan, policy: PolicySide) -> dict[str, Any]:
    """The `layout` block of the answers to `POST /v1/eval`."""
    benchmark_row = {"gpu": plan.benchmark.card, "envs": plan.envs_asked, "instances_per_arm": plan.benchmark.instances}
    settings: dict[str, dict[str, Any]] = {"policy": {}, "adapter": {}, "benchmark": {}, "eval": {}}
    return {
        "policy": [{"model": policy.name, **_side(plan.policy)}],
        "benchmark": benchmark_row,
        "arms": [{"arm": policy.name, "model": policy.name, "params": {}, "settings": settings}],
        "episodes_per_arm": len(plan.episodes),
        "cards": {"total": cards_in_all(plan)},
    }


def cards(plan: Plan, limit: int, in_use: Mapping[str, int]) -> dict[str, Any]:
    """The `cards` block of a dry run: beside the account's `limit`, and what its workers hold now.

    A processor counts as no card against the account. Nothing waits in line for cards yet.
    """
    total, available = cards_in_all(plan), max(0, limit - sum(in_use.values()))
    return {
        "policy": _side(plan.policy),
        "benchmark": _side(plan.benchmark),
        "total": total,
        "limit": limit,
        "in_use": dict(in_use),
        "available": available,
        "short": max(0, total - available),
        "would_queue": False,
        "queue_timeout_s": 600,
    }


def cards_in_all(plan: Plan) -> int:
    """Cards of both sides together."""
    return sum(side.instances * _cards(side.card) for side in (plan.policy, plan.benchmark))


def _side(side: Machines) -> dict[str, Any]:
    return {"instances": side.instances, "gpu": side.card, "cards_each": _cards(side.card)}


def _cards(card: str) -> int:
    """How many cards one machine asks for: none for "cpu", N for "TYPE:N"."""
    if card == "cpu":
        return 0
    _, _, count = card.partition(":")
    return int(count or 1)


def _refuse_unlike_contracts(policy: PolicySide, benchmark: BenchmarkSide, known: Known) -> None:
    ours, theirs = policy.request.policy.action, benchmark.request.action_contract
    problem = _difference(policy, benchmark, ours, theirs)
    if problem is None:
        return
    names = known.used or known.adapters
    where = f"used on {benchmark.name} before" if known.used else "yours"
    hint = f"{where}: {', '.join(names)}" if names else "write one with `seq init toy-adapter` and deploy it"
    raise Refused("invalid_request", f"{problem}; give an adapter (--adapter NAME)", hint=hint, adapters=list(names))


def _difference(
    policy: PolicySide, benchmark: BenchmarkSide, ours: ActionContract | None, theirs: ActionContract | None
) -> str | None:
    if ours is None:
        return (
            f"{policy.name} declares no action contract, so nothing says that {benchmark.name} understands its actions"
        )
    if theirs is not None and (ours.action_space, ours.action_dim) != (theirs.action_space, theirs.action_dim):
        return (
            f"{policy.name} sends {ours.action_space.value} actions of {ours.action_dim} dimensions and "
            f"{benchmark.name} takes {theirs.action_space.value} of {theirs.action_dim}"
        )
    wrong = misfits(policy.request.policy.observation, benchmark.observation)
    return f"{benchmark.name}'s observation does not fit {policy.name}: {'; '.join(wrong)}" if wrong else None


def _policy_machines(request: EvalRequest, deployment: DeploymentRequest, capacity: Capacity) -> Machines:
    declared = deployment.resources.gpu
    card = request.policy_gpu or declared[0]
    if request.policy_gpu is not None and request.policy_gpu not in declared:
        raise Refused(
            "invalid_request",
            f"policy_gpu is {request.policy_gpu!r}, and {deployment.name} is deployed for {', '.join(declared)}",
            hint="leave it out, or deploy the policy for that card",
        )
    _refuse_missing_card("policy", card, request.policy_instances, capacity)
    resources = deployment.resources
    return Machines(request.policy_instances, card, resources.cpu or MIN_CORES, resources.memory_gb or MIN_GIB)


def _envs_asked(request: EvalRequest, benchmark: BenchmarkRegisterRequest) -> int:
    """Environments of an instance; where nobody says, a single one has a core of a CPU benchmark each."""
    a_core_each = benchmark.gpu == "cpu" and not benchmark.batched
    return request.envs or benchmark.envs or ((benchmark.cpu or DEFAULT_CORES) if a_core_each else 1)


def _benchmark_machines(request: EvalRequest, side: BenchmarkSide, envs: int, capacity: Capacity) -> Machines:
    """The benchmark's machines, with `envs` environments on each."""
    benchmark = side.request
    declared = benchmark.gpu or DEFAULT_CARD
    if declared == "cpu":
        return _cpu_machines(request, side, envs)
    card = request.benchmark_gpu or declared
    _refuse_missing_card("benchmark", card, request.benchmark_instances, capacity)
    cores = float(benchmark.cpu or 1)
    return Machines(request.benchmark_instances, card, cores, benchmark.memory_gb or GIB_A_CORE * cores)


def _cpu_machines(request: EvalRequest, side: BenchmarkSide, envs: int) -> Machines:
    """A single environment keeps one core busy, so cores are its environments; a batched one declares both."""
    benchmark = side.request
    if request.benchmark_gpu not in (None, "cpu"):
        raise Refused(
            "invalid_request", f"{side.name} is a CPU benchmark; leave out benchmark_gpu ({request.benchmark_gpu!r})"
        )
    cores = (benchmark.cpu or DEFAULT_CORES) if benchmark.batched else envs
    memory = benchmark.memory_gb if benchmark.memory_gb and benchmark.cpu == cores else GIB_A_CORE * cores
    return Machines(request.benchmark_instances, "cpu", float(cores), memory)


def _refuse_missing_card(side: str, card: str, instances: int, capacity: Capacity) -> None:
    kind = card.partition(":")[0]
    if kind == "cpu":
        return
    there = capacity.cards.get(kind, 0)
    if there < instances * _cards(card):
        has = ", ".join(("cpu", *(f"{count} x {name}" for name, count in sorted(capacity.cards.items()))))
        asked = f"{instances} x {card}" if there else card
        detail = f"the {side} asks for the card {asked}, which this platform does not have; it has: {has}"
        raise Refused("invalid_request", detail)


def _recording(request: EvalRequest, benchmark: BenchmarkRegisterRequest) -> Literal["per-task", "all", "none"]:
    return "none" if benchmark.render is None else request.record or "per-task"


def _notes_on_envs(machines: Machines, envs: int, asked: int, episodes: int, capacity: Capacity) -> list[str]:
    notes = []
    started, in_all = envs * machines.instances, asked * machines.instances
    busy = machines.instances * min(int(machines.cores), envs)
    if machines.card == "cpu" and busy > capacity.cores:
        notes.append(f"{started} environments on {capacity.cores} cores: they share")
    if in_all > episodes:
        unused = f"{in_all} environments for {episodes} episodes: {in_all - episodes} would stay unused"
        notes.append(f"{unused}, so {started} are started" if started < in_all else unused)
    return notes


def _notes(request: EvalRequest, side: BenchmarkSide, chosen: Sequence[Start]) -> list[str]:
    notes = []
    most = seeds_short(chosen, request.trials)
    if most is not None:
        notes.append(f"trials is {request.trials} and no task has more than {most} seeds: those run")
    if side.request.render is None and request.record in ("per-task", "all"):
        notes.append(f"{side.name} declares no render=, so nothing is recorded")
    if side.request.score:
        notes.append(SCORE_NOTE)
    return notes


__all__ = [
    "AdapterSide",
    "BenchmarkSide",
    "Known",
    "Machines",
    "Plan",
    "PolicySide",
    "cards",
    "cards_in_all",
    "layout",
    "make_plan",
]
