"""An eval request and its sides' declarations made a frozen plan, or a refusal that says what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

from runner.cluster.base import Capacity, caveat
from runner.errors import Refused
from runner.evals import parameters
from runner.evals.observations import misfits
from runner.evals.parameters import Declared, Settings
from runner.evals.selection import Ranges, Record, Selection, count, seeds_short
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.evals import EvalRequest
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract

DEFAULT_CORES = 16
GIB_A_CORE = 2.0
DEFAULT_CARD = "L4"
BENCHMARK_CARDS = ("L4", "RTX-PRO-6000")
MIN_CORES = 0.125
MIN_GIB = 0.125
CPU = "cpu"


@dataclass(frozen=True)
class PolicySide:
    """A pinned policy version."""

    name: str
    version_id: str
    version: int
    sha256: str | None
    request: DeploymentRequest

    @property
    def params(self) -> Mapping[str, InferParam]:
        """What its `infer` declares."""
        return self.request.policy.params or {}


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
    params: Mapping[str, InferParam]


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
class PolicyMachines:
    """The machines of one policy version, which all arms with that policy share; `cards` are those it may get.

    A rerun needs none of a policy that has nothing left to play.
    """

    model: str
    version_id: str
    machines: Machines
    cards: tuple[str, ...]


@dataclass(frozen=True)
class ArmPlan:
    """An arm: a policy version with its settings. `todo` are the starts it plays (all of them, but for a rerun)."""

    name: str
    policy: PolicySide
    settings: Settings
    todo: Ranges


@dataclass(frozen=True)
class Plan:
    """Everything an eval will do. `benchmark`, `envs`, `envs_asked` and `cores_each` are of one arm, the last three of
    one of its instances: it starts `envs`, of the `envs_asked` no more than it can have episodes. `pretend` says that
    it rests on cards that are not there; `multiple` is the region's of the cards' price.
    """

    selection: Selection
    arms: tuple[ArmPlan, ...]
    policies: tuple[PolicyMachines, ...]
    benchmark: Machines
    envs: int
    envs_asked: int
    cores_each: int
    machine_cores: int
    notes: tuple[str, ...]
    pretend: bool = False

    @property
    def record(self) -> Record:
        """What is recorded."""
        return self.selection.record

    @property
    def total(self) -> int:
        """Episodes of all arms."""
        return sum(count(arm.todo) for arm in self.arms)

    @property
    def playing(self) -> int:
        """How many arms have an episode to play: all, but for a rerun."""
        return sum(bool(arm.todo) for arm in self.arms)

    @property
    def envs_in_all(self) -> int:
        """Environments that every benchmark instance of every arm together starts."""
        return self.envs * self.benchmark.instances * self.playing

    @property
    def cards(self) -> dict[str, int]:
        """The cards that all machines hold at once, by kind; none for processors."""
        held: Counter[str] = Counter()
        for machines in self.machines():
            kind, number = card_of(machines.card)
            if number and machines.instances:
                held[kind] += machines.instances * number
        return dict(held)

    def machines(self) -> Iterator[Machines]:
        """The machines of every policy, and those of the benchmark once for each arm that plays."""
        yield from (policy.machines for policy in self.policies)
        yield from (self.benchmark for _ in range(self.playing))


def plan_arms(
    request: EvalRequest,
    policies: Sequence[PolicySide],
    benchmark: BenchmarkSide,
    adapter: AdapterSide | None,
    selection: Selection,
) -> tuple[ArmPlan, ...]:
    """The arms: the first policy once for each swept combination, then each compared one; raises Refused.

    `policies` are the one asked for and those of `compare`, in that order.
    """
    base, *compared = policies
    twice = next((name for name, times in Counter(side.name for side in policies).items() if times > 1), None)
    if twice is not None:
        raise Refused("invalid_request", f"{twice} would be two arms with the same settings; name each policy once")
    todo: Ranges = ((0, len(selection)),)
    params, swept = request.params or {}, request.sweep or {}
    found = []
    for values in parameters.combinations(swept, params):
        settings = _settings(base, benchmark, adapter, {**params, **values})
        label = " ".join(f"{name}={_told(value)}" for name, value in values.items())
        found.append(ArmPlan(f"{base.name} {label}".strip(), base, settings, todo))
    _refuse_equal(found)
    found += [ArmPlan(side.name, side, _settings(side, benchmark, adapter, params), todo) for side in compared]
    if len(found) > parameters.MOST_ARMS:
        raise Refused("invalid_request", f"{len(found)} arms; at most {parameters.MOST_ARMS} run in one eval")
    return tuple(found)


def make_plan(
    request: EvalRequest,
    selection: Selection,
    arms: Sequence[ArmPlan],
    benchmark: BenchmarkSide,
    adapter: AdapterSide | None,
    known: Known,
    capacity: Capacity,
) -> Plan:
    """The layout of an eval with these arms; raises Refused when it cannot or must not run."""
    _refuse_region(request)
    _refuse_bound(request)
    sides = list({arm.policy.version_id: arm.policy for arm in arms}.values())
    if adapter is None:
        for side in sides:
            _refuse_unlike_contracts(side, benchmark, known)
    playing = [arm for arm in arms if arm.todo]
    needed = {arm.policy.version_id for arm in playing}
    policies = tuple(_policy_machines(request, side, capacity, needed=side.version_id in needed) for side in sides)
    most = max(count(arm.todo) for arm in arms)
    envs_asked = _envs_asked(request, benchmark.request)
    envs = max(1, min(envs_asked, ceil(most / request.benchmark_instances)))
    benchmark_machines = _benchmark_machines(request, benchmark, envs, capacity)
    pretend = capacity.pretend and any(
        side.card != CPU for side in (benchmark_machines, *(p.machines for p in policies))
    )
    plan = Plan(
        selection=selection,
        arms=tuple(arms),
        policies=policies,
        benchmark=benchmark_machines,
        envs=envs,
        envs_asked=envs_asked,
        cores_each=max(1, min(int(benchmark_machines.cores), capacity.cores)),
        machine_cores=capacity.cores,
        notes=(
            *([caveat(capacity.cards)] if pretend else []),
            *_notes_on_envs(benchmark_machines, envs, envs_asked, most, len(playing), capacity),
            *_notes(request, benchmark, selection),
        ),
        pretend=pretend,
    )
    _refuse_missing_cards(plan, capacity)
    return plan


def layout(plan: Plan) -> dict[str, Any]:
    """The `layout` block of the answers to `POST /v1/eval`."""
    return {
        "policy": [
            {"model": policy.model, **_side(policy.machines), "fallback": list(policy.cards[1:])}
            for policy in plan.policies
        ],
        "benchmark": {
            "gpu": plan.benchmark.card,
            "envs": plan.envs_asked,
            "instances_per_arm": plan.benchmark.instances,
        },
        "arms": [
            {
                "arm": arm.name,
                "model": arm.policy.name,
                "params": arm_params(arm.settings),
                "settings": arm.settings.wire(),
            }
            for arm in plan.arms
        ],
        "episodes_per_arm": max(count(arm.todo) for arm in plan.arms),
        "cards": {"total": sum(plan.cards.values())},
    }


def arm_params(settings: Settings) -> dict[str, Any]:
    """What the eval set of an arm, by `side.name`."""
    return {f"{side}.{name}": value for side in parameters.SIDES for name, value in settings.given(side).items()}


def card_of(card: str) -> tuple[str, int]:
    """A card's kind and how many one machine asks for: none for "cpu", N for "TYPE:N"."""
    kind, _, number = card.partition(":")
    return (kind, 0) if kind == CPU else (kind, int(number or 1))


def _told(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(
    side: PolicySide, benchmark: BenchmarkSide, adapter: AdapterSide | None, given: Mapping[str, Any]
) -> Settings:
    declared = Declared(side.params, adapter.params if adapter else {}, benchmark.request.params or {})
    return parameters.settings(given, declared)


def _refuse_equal(arms: Sequence[ArmPlan]) -> None:
    """A sweep of 1 and 1.0 of a float would be one arm twice."""
    seen: dict[str, str] = {}
    for arm in arms:
        settings = repr(arm.settings.wire())
        if settings in seen:
            raise Refused("invalid_request", f"the arms {seen[settings]!r} and {arm.name!r} have the same settings")
        seen[settings] = arm.name


def _side(side: Machines) -> dict[str, Any]:
    return {"instances": side.instances, "gpu": side.card, "cards_each": card_of(side.card)[1]}


def _refuse_region(request: EvalRequest) -> None:
    if request.region is not None:
        raise Refused("invalid_request", "this platform has one place to run; leave out region (--region)")


def _refuse_bound(request: EvalRequest) -> None:
    if request.max_usd is not None and not (isfinite(request.max_usd) and request.max_usd > 0):
        raise Refused("invalid_request", f"max_usd is {request.max_usd!r}; it must be a number of dollars above 0")


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


def _policy_machines(request: EvalRequest, side: PolicySide, capacity: Capacity, *, needed: bool) -> PolicyMachines:
    declared = side.request.resources.gpu
    if request.policy_gpu is not None and request.policy_gpu not in declared:
        raise Refused(
            "invalid_request",
            f"policy_gpu is {request.policy_gpu!r}, and {side.name} is deployed for {', '.join(declared)}",
            hint="leave it out, or deploy the policy for that card",
        )
    cards = (request.policy_gpu,) if request.policy_gpu is not None else tuple(declared)
    there = [card for card in cards if _is_there(card, capacity)]
    _refuse_missing_card("policy", cards[0], there, capacity)
    resources = side.request.resources
    instances = request.policy_instances if needed else 0
    machines = Machines(instances, there[0], resources.cpu or MIN_CORES, resources.memory_gb or MIN_GIB)
    return PolicyMachines(side.name, side.version_id, machines, tuple(there))


def _envs_asked(request: EvalRequest, benchmark: BenchmarkRegisterRequest) -> int:
    """Environments of an instance; where nobody says, a single one has a core of a CPU benchmark each."""
    a_core_each = benchmark.gpu == CPU and not benchmark.batched
    return request.envs or benchmark.envs or ((benchmark.cpu or DEFAULT_CORES) if a_core_each else 1)


def _benchmark_machines(request: EvalRequest, side: BenchmarkSide, envs: int, capacity: Capacity) -> Machines:
    """The benchmark's machines, with `envs` environments on each."""
    benchmark = side.request
    declared = benchmark.gpu or DEFAULT_CARD
    if declared == CPU:
        return _cpu_machines(request, side, envs)
    card = request.benchmark_gpu or declared
    if card not in BENCHMARK_CARDS:
        raise Refused(
            "invalid_request", f"benchmark_gpu is {card!r}; a benchmark runs on {' or '.join(BENCHMARK_CARDS)}"
        )
    _refuse_missing_card("benchmark", card, [card] if _is_there(card, capacity) else [], capacity)
    cores = float(benchmark.cpu or 1)
    return Machines(request.benchmark_instances, card, cores, benchmark.memory_gb or GIB_A_CORE * cores)


def _cpu_machines(request: EvalRequest, side: BenchmarkSide, envs: int) -> Machines:
    """A single environment keeps one core busy, so cores are its environments; a batched one declares both."""
    benchmark = side.request
    if request.benchmark_gpu not in (None, CPU):
        raise Refused(
            "invalid_request", f"{side.name} is a CPU benchmark; leave out benchmark_gpu ({request.benchmark_gpu!r})"
        )
    cores = (benchmark.cpu or DEFAULT_CORES) if benchmark.batched else envs
    memory = benchmark.memory_gb if benchmark.memory_gb and benchmark.cpu == cores else GIB_A_CORE * cores
    return Machines(request.benchmark_instances, CPU, float(cores), memory)


def _is_there(card: str, capacity: Capacity) -> bool:
    kind, number = card_of(card)
    return not number or capacity.cards.get(kind, 0) >= number


def _refuse_missing_card(side: str, wanted: str, there: Sequence[str], capacity: Capacity) -> None:
    if not there:
        detail = f"the {side} asks for the card {wanted}, which this platform does not have; it has: {_has(capacity)}"
        raise Refused("invalid_request", detail)


def _refuse_missing_cards(plan: Plan, capacity: Capacity) -> None:
    for kind, wanted in plan.cards.items():
        there = capacity.cards.get(kind, 0)
        if wanted > there:
            detail = f"the eval asks for {wanted} x {kind} at once, which this platform does not have"
            raise Refused("invalid_request", f"{detail}; it has: {_has(capacity)}")


def _has(capacity: Capacity) -> str:
    return ", ".join((CPU, *(f"{number} x {name}" for name, number in sorted(capacity.cards.items()))))


def _notes_on_envs(
    machines: Machines, envs: int, asked: int, episodes: int, arms: int, capacity: Capacity
) -> list[str]:
    notes = []
    started, in_all = envs * machines.instances, asked * machines.instances
    busy = arms * machines.instances * min(int(machines.cores), envs)
    if machines.card == CPU and busy > capacity.cores:
        notes.append(f"{started * arms} environments on {capacity.cores} cores: they share")
    if in_all > episodes:
        each = " of an arm" if arms > 1 else ""
        unused = f"{in_all} environments for {episodes} episodes{each}: {in_all - episodes} would stay unused"
        notes.append(f"{unused}, so {started} are started" if started < in_all else unused)
    return notes


def _notes(request: EvalRequest, side: BenchmarkSide, selection: Selection) -> list[str]:
    notes = []
    most = seeds_short(selection, request.trials)
    if most is not None:
        notes.append(f"trials is {request.trials} and no task has more than {most} seeds: those run")
    if side.request.render is None and request.record in ("per-task", "all"):
        notes.append(f"{side.name} declares no render=, so nothing is recorded")
    if selection.distinct < len(selection):
        notes.append(
            f"{len(selection)} episodes an arm from {selection.distinct} different starts: "
            "those that share a start are not independent, and intervals count them as one cluster"
        )
    return notes
