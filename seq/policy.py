"""`@seq.policy`. The declaration stands on the class, where a deploy and a worker read it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from typing_extensions import Unpack

from seq import _check as check
from seq import _policy_options as parse
from seq._marks import (
    CONCURRENT,
    POLICY,
    POLICY_HOOKS,
    Handler,
    Marked,
    gather,
    handler_of,
    refuse_foreign,
    require_call,
)
from seq._policy_options import Batching, Concurrency, Planning, PolicyOptions, Scaling, Share
from seq.contract.names import kebab
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract, Embodiment, ObservationContract
from seq.errors import PolicyDefinitionError
from seq.image import Image
from seq.params import PLATFORM_KEYWORDS, annotation_of, parameters
from seq.secret import Secret
from seq.timeouts import Timeouts
from seq.weights import Volume, parse_volumes, parse_weights

Class = TypeVar("Class", bound=type)

_PRESET = ("seq.presets.robot_arm", "Observation")


class Policy:
    """An optional base without behaviour; a policy is what `@seq.policy` decorates."""


@dataclass(frozen=True)
class PolicyDeclaration:
    """A policy as declared. `hooks` is method name by hook name; `params` are what `infer` lets a request set.

    `platform_keywords` are those of seed, episode_id, instruction and embodiment that `infer` takes; `preset` says that
    its observation is annotated as `seq.presets.robot_arm.Observation`. `weights` is URI by part name, "" when unnamed.
    """

    name: str
    handler: Handler
    hooks: Mapping[str, str]
    gpu: tuple[str, ...]
    image: Image
    action: ActionContract | None = None
    observation: ObservationContract | None = None
    embodiments: Mapping[str, Embodiment] | None = None
    params: Mapping[str, InferParam] = field(default_factory=dict)
    platform_keywords: tuple[str, ...] = ()
    preset: bool = False
    cpu: Share = field(default_factory=Share)
    memory: Share = field(default_factory=Share)
    weights: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    secrets: tuple[Secret, ...] = ()
    scaling: Scaling = field(default_factory=Scaling)
    concurrency: Concurrency | None = None
    batching: Batching | None = None
    planning: Planning | None = None
    streaming: bool = False
    region: str | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    io: str | None = None
    models: tuple[str, ...] = ()
    family: str | None = None


@overload
def policy(**options: Unpack[PolicyOptions]) -> Callable[[Class], Class]: ...


@overload
def policy(*cls: Any, **options: Any) -> Callable[[Class], Class]: ...


def policy(*cls: Any, **options: Any) -> Callable[[Class], Class]:
    """Declares the class below as a policy. Raises PolicyDefinitionError on anything a worker could not run."""
    if cls:
        raise PolicyDefinitionError('@seq.policy must be called with keywords: @seq.policy(gpu="L4")')
    settled = parse.settle(options)

    def declare(decorated: Class) -> Class:
        if POLICY in vars(decorated):
            raise PolicyDefinitionError(f"{decorated.__name__} has @seq.policy twice; write it once")
        setattr(decorated, POLICY, _declaration(decorated, settled))
        return decorated

    return declare


def declaration_of(cls: type) -> PolicyDeclaration:
    """What `@seq.policy` declared on `cls`; raises PolicyDefinitionError when it is no policy."""
    declared = vars(cls).get(POLICY) if isinstance(cls, type) else None
    if not isinstance(declared, PolicyDeclaration):
        raise PolicyDefinitionError(
            f"{getattr(cls, '__name__', cls)!r} is not a policy; decorate the class with @seq.policy(gpu=...)"
        )
    return declared


def _declaration(cls: type, options: dict[str, Any]) -> PolicyDeclaration:
    error = PolicyDefinitionError
    handler = handler_of(cls, error)
    hooks = _hooks(cls)
    embodiments = parse.embodiments_of(options.get("embodiments"))
    action = check.model("action", options.get("action"), error, ActionContract)
    if action is None and embodiments:
        action = next(iter(embodiments.values())).action
    gpu = parse.cards_of(options["gpu"])
    infer_function = hooks["infer"].function
    return PolicyDeclaration(
        name=check.public_name(options.get("name", kebab(cls.__name__)), error),
        handler=handler,
        hooks={hook: marked.method for hook, marked in hooks.items() if hook in POLICY_HOOKS},
        gpu=gpu,
        image=parse.image_of(options),
        action=action,
        observation=check.model("observation", options.get("observation"), error, ObservationContract),
        embodiments=embodiments,
        params=_infer_params(cls, infer_function),
        platform_keywords=tuple(n for n in PLATFORM_KEYWORDS if n in inspect.signature(infer_function).parameters),
        preset=_reads_preset(infer_function),
        cpu=parse.share("cpu", options.get("cpu"), "cores", highest=64, limit=128),
        memory=parse.share("memory", options.get("memory"), "GiB", highest=1024, limit=1024),
        weights=parse_weights(options.get("weights")),
        volumes=parse_volumes(options.get("volumes", {})),
        secrets=check.instances(
            "secrets", options.get("secrets", []), error, Secret, example='[seq.Secret.from_name("hf")]'
        ),
        scaling=parse.scaling(options),
        concurrency=parse.fitting(vars(cls).get(CONCURRENT), gpu),
        batching=parse.batching_of(cls, hooks),
        planning=Planning(**hooks["plan"].options) if "plan" in hooks else None,
        streaming=parse.streaming_of(cls, options, hooks),
        region=parse.region_of(options.get("region")),
        timeouts=Timeouts.parse(options.get("timeouts")),
        io=None if options.get("io") is None else check.text("io", options["io"], error),
        models=parse.models_of(options.get("models", [])),
        family=parse.family_of(options.get("family")),
    )


def _hooks(cls: type) -> dict[str, Marked]:
    hooks = gather(cls, PolicyDefinitionError)
    refuse_foreign(cls, hooks, POLICY_HOOKS, "a policy", PolicyDefinitionError)
    if "infer" not in hooks:
        raise PolicyDefinitionError(
            f"{cls.__name__} has no @seq.infer method; mark the one that turns an observation into actions"
        )
    for hook, arguments in {"infer": ("obs",), "warmup": (), "shutdown": (), "on_episode": ("episode_id",)}.items():
        if hook in hooks:
            require_call(cls, hooks[hook], hook, arguments, PolicyDefinitionError)
    return hooks


def _infer_params(cls: type, function: Callable[..., Any]) -> dict[str, InferParam]:
    where = f"{cls.__name__}.{function.__name__}"
    return parameters(function, where, PolicyDefinitionError, positional=1, skip=PLATFORM_KEYWORDS)


def _reads_preset(function: Callable[..., Any]) -> bool:
    """Told by name, so that declaring a policy does not import the preset."""
    annotation = annotation_of(function, list(inspect.signature(function).parameters.values())[1])
    return (getattr(annotation, "__module__", ""), getattr(annotation, "__name__", "")) == _PRESET
