"""`@seq.benchmark`, in both forms: one environment, or batched slots (with `observation` and `step` hooks)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

from typing_extensions import TypedDict, Unpack

from seq import _check as check
from seq._marks import BENCHMARK, BENCHMARK_HOOKS, Handler, Marked, gather, handler_of, refuse_foreign, require_call
from seq.conditions import Condition, expand
from seq.contract.benchmarks import Conditions
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract, ObservationContract
from seq.episodes import Record
from seq.errors import BenchmarkDefinitionError
from seq.image import Image
from seq.params import parameters
from seq.secret import Secret
from seq.weights import Volume

Class = TypeVar("Class", bound=type)
Gpu = Literal["L4", "RTX-PRO-6000", "cpu"]

CARDS = ("L4", "RTX-PRO-6000")
DEFAULT_CORES = 16
GIB_A_CORE = 2


class Benchmark:
    """An optional base without behaviour; a benchmark is what `@seq.benchmark` decorates."""


class BenchmarkOptions(TypedDict, total=False):
    """What `@seq.benchmark` takes."""

    name: str
    image: Image
    secrets: list[Secret]
    gpu: str | list[str]
    envs: int
    cpu: int
    memory: float
    max_steps: int
    timeout_s: float | None
    conditions: list[Condition] | tuple[Condition, ...] | Conditions | Callable[[], Any]
    assets: Volume | list[Volume] | None
    render: Record | None
    action_contract: ActionContract | dict[str, Any] | None
    obs_contract: ObservationContract | dict[str, Any] | None
    engine: str | None
    default_adapter: Any


@dataclass(frozen=True)
class BenchmarkDeclaration:
    """A benchmark as declared. `hooks` is method name by hook name; `params` are what `setup` lets an eval set.

    `gpu` is the card to run on, or "cpu"; then `cores` and `memory_gb` are set, else None. `timeout_s` is seconds per
    episode, None without a limit. `assets` is volume by mount path.
    """

    name: str
    handler: Handler
    hooks: Mapping[str, str]
    conditions: tuple[Condition, ...]
    image: Image
    gpu: Gpu
    envs: int
    cores: int | None = None
    memory_gb: float | None = None
    max_steps: int = 300
    timeout_s: float | None = None
    params: Mapping[str, InferParam] = field(default_factory=dict)
    render: Record | None = None
    action_contract: ActionContract | None = None
    obs_contract: ObservationContract | None = None
    secrets: tuple[Secret, ...] = ()
    assets: Mapping[str, Volume] = field(default_factory=dict)
    engine: str | None = None
    default_adapter: Any = None

    @property
    def batched(self) -> bool:
        """Whether one call steps many slots."""
        return "step" in self.hooks


@dataclass(frozen=True)
class _Machine:
    """Where a benchmark runs, and how many environments."""

    gpu: Gpu
    envs: int
    cores: int | None = None
    memory_gb: float | None = None


@overload
def benchmark(**options: Unpack[BenchmarkOptions]) -> Callable[[Class], Class]: ...


@overload
def benchmark(*cls: Any, **options: Any) -> Callable[[Class], Class]: ...


def benchmark(*cls: Any, **options: Any) -> Callable[[Class], Class]:
    """Declares the class below as a benchmark; raises BenchmarkDefinitionError on anything that could not run."""
    if cls:
        raise BenchmarkDefinitionError(
            "@seq.benchmark must be called with keywords: @seq.benchmark(conditions=seq.conditions(...))"
        )
    check.known("@seq.benchmark", options, BenchmarkOptions.__annotations__, BenchmarkDefinitionError)
    if "conditions" not in options:
        raise BenchmarkDefinitionError(
            "@seq.benchmark needs conditions=: what to run, e.g. seq.conditions(['reach'], range(20))"
        )

    def declare(decorated: Class) -> Class:
        if BENCHMARK in vars(decorated):
            raise BenchmarkDefinitionError(f"{decorated.__name__} has @seq.benchmark twice; write it once")
        setattr(decorated, BENCHMARK, _declaration(decorated, options))
        return decorated

    return declare


def declaration_of(cls: type) -> BenchmarkDeclaration:
    """What `@seq.benchmark` declared on `cls`; raises BenchmarkDefinitionError when it is no benchmark."""
    declared = vars(cls).get(BENCHMARK) if isinstance(cls, type) else None
    if not isinstance(declared, BenchmarkDeclaration):
        name = getattr(cls, "__name__", cls)
        raise BenchmarkDefinitionError(
            f"{name!r} is not a benchmark; decorate the class with @seq.benchmark(conditions=...)"
        )
    return declared


def _declaration(cls: type, options: dict[str, Any]) -> BenchmarkDeclaration:
    error = BenchmarkDefinitionError
    handler = handler_of(cls, error)
    hooks = _hooks(cls)
    batched = "step" in hooks
    machine = _machine(options, batched=batched)
    return BenchmarkDeclaration(
        name=check.public_name(options.get("name", cls.__name__), error),
        handler=handler,
        hooks={hook: marked.method for hook, marked in hooks.items()},
        conditions=expand(options["conditions"]),
        image=_typed("image", options.get("image") or Image.debian_slim(), Image),
        gpu=machine.gpu,
        envs=machine.envs,
        cores=machine.cores,
        memory_gb=machine.memory_gb,
        max_steps=check.whole("max_steps", options.get("max_steps", 300), error, low=1),
        timeout_s=_timeout(options.get("timeout_s")),
        params=_setup_params(cls, hooks, batched=batched),
        render=None if options.get("render") is None else _typed("render", options["render"], Record),
        action_contract=check.model("action_contract", options.get("action_contract"), error, ActionContract),
        obs_contract=check.model("obs_contract", options.get("obs_contract"), error, ObservationContract),
        secrets=check.instances(
            "secrets", options.get("secrets", []), error, Secret, example='[seq.Secret.from_name("hf")]'
        ),
        assets=_assets(options.get("assets")),
        engine=None if options.get("engine") is None else check.text("engine", options["engine"], error, longest=32),
        default_adapter=options.get("default_adapter"),
    )


def _hooks(cls: type) -> dict[str, Marked]:
    error = BenchmarkDefinitionError
    hooks = gather(cls, error)
    refuse_foreign(cls, {k: v for k, v in hooks.items() if k != "batched"}, BENCHMARK_HOOKS, "a benchmark", error)
    if "batched" in hooks:
        raise error(
            f"{cls.__name__} carries a policy's @seq.batched; a batched benchmark has @seq.observation and @seq.step"
        )
    for hook in ("reset", "check"):
        if hook not in hooks:
            raise error(f"{cls.__name__} has no @seq.{hook} method; a benchmark needs @seq.reset and @seq.check")
    if ("observation" in hooks) != ("step" in hooks):
        missing = "step" if "observation" in hooks else "observation"
        raise error(
            f"{cls.__name__} has no @seq.{missing} method; a batched benchmark needs @seq.observation and @seq.step"
        )
    for hook, marked in hooks.items():
        if hook != "setup" or "step" in hooks:
            require_call(cls, marked, hook, _arguments("step" in hooks)[hook], error)
    return hooks


def _arguments(batched: bool) -> dict[str, tuple[str, ...]]:
    if batched:
        return {
            "setup": ("envs",),
            "reset": ("slots", "conditions"),
            "observation": ("slots",),
            "step": ("slots", "actions"),
            "check": ("slots",),
            "score": ("results",),
        }
    return {"reset": ("seed", "variant"), "check": ("env",), "score": ("results",)}


def _setup_params(cls: type, hooks: Mapping[str, Marked], *, batched: bool) -> dict[str, InferParam]:
    if "setup" not in hooks:
        return {}
    marked = hooks["setup"]
    return parameters(
        marked.function, f"{cls.__name__}.{marked.method}", BenchmarkDefinitionError, positional=int(batched)
    )


def _machine(options: dict[str, Any], *, batched: bool) -> _Machine:
    error, gpu = BenchmarkDefinitionError, _card(options.get("gpu", "L4"))
    envs = None if options.get("envs") is None else check.whole("envs", options["envs"], error, low=1, high=65_536)
    if gpu != "cpu":
        for name in ("cpu", "memory"):
            if options.get(name) is not None:
                raise error(f'{name}= goes with gpu="cpu"; a benchmark on a card takes what its machine has')
        return _Machine(gpu, envs or 1)
    cores = check.whole("cpu", options.get("cpu") or DEFAULT_CORES, error, low=1, high=64)
    memory = check.number(
        "memory", options.get("memory") or cores * GIB_A_CORE, error, low=0.125, high=1024, unit=" GiB"
    )
    if not batched and envs not in (None, cores):
        raise error(
            f"a CPU benchmark runs one environment per core: envs= ({envs}) must equal cpu= ({cores}), or be left out"
        )
    return _Machine("cpu", envs or cores, cores, memory)


def _card(value: Any) -> Gpu:
    """The card; a list stands for its first, as a registration carries one."""
    cards = (value,) if isinstance(value, str) else value
    fits = isinstance(cards, (list, tuple)) and cards and all(card in CARDS for card in cards)
    if not fits and cards not in (("cpu",), ["cpu"]):
        raise BenchmarkDefinitionError(
            f'gpu= is "L4" or "RTX-PRO-6000" (or a list of them), or "cpu" alone, got {value!r}'
        )
    return "cpu" if cards[0] == "cpu" else "L4" if cards[0] == "L4" else "RTX-PRO-6000"


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    if check.number("timeout_s", value, BenchmarkDefinitionError, low=0) == 0:
        raise BenchmarkDefinitionError("timeout_s= must be above 0 seconds, got 0")
    return float(value)


Value = TypeVar("Value")


def _typed(name: str, value: Any, kind: type[Value]) -> Value:
    if not isinstance(value, kind):
        raise BenchmarkDefinitionError(f"{name}= must be a seq.{kind.__name__}, got {value!r}")
    return value


def _assets(value: Any) -> dict[str, Volume]:
    if value is None:
        return {}
    if isinstance(value, Volume):
        return {"/assets": value}
    volumes = check.instances(
        "assets", value, BenchmarkDefinitionError, Volume, example='[seq.Volume.from_name("scenes")]'
    )
    if len(volumes) == 1:
        return {"/assets": volumes[0]}
    return {f"/assets/{volume.name}": volume for volume in volumes}
