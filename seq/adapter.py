"""`@seq.adapter`: two pipelines between a benchmark and a policy, each step labelled with what it loses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar, overload

from seq import _check as check
from seq._marks import ADAPTER, Handler, gather, handler_of
from seq.contract.adapters import AdapterTransform
from seq.contract.names import ADAPTER_NAME, kebab
from seq.contract.params import InferParam
from seq.errors import AdapterDefinitionError
from seq.params import parameters
from seq.transforms import Transform

Class = TypeVar("Class", bound=type)
PolicyIo = Literal["robot_arm", "own"]

_PIPELINES: tuple[tuple[Literal["obs", "action"], str], ...] = (
    ("obs", "obs_transforms"),
    ("action", "action_transforms"),
)


class AdapterKind(str, Enum):
    """Whether a step loses something."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"


class Adapter:
    """The base of every adapter.

    With `policy_io="own"`, what `obs` returns goes to `infer` as it is, and `action` gets `infer`'s value.
    """

    policy_io: ClassVar[str] = "robot_arm"
    obs_transforms: Sequence[Transform] = ()
    action_transforms: Sequence[Transform] = ()

    def obs(self, value: Any) -> Any:
        """The benchmark's observation as the policy reads it."""
        return _through(self.obs_transforms, value)

    def action(self, value: Any) -> Any:
        """The policy's rows `(rows, dim)` as the benchmark steps them, `(rows, env_dim)`."""
        return _through(self.action_transforms, value)


@dataclass(frozen=True)
class AdapterDeclaration:
    """An adapter as declared; `params` are the keywords of its `__init__`."""

    name: str
    handler: Handler
    class_name: str
    policy_io: PolicyIo
    transforms: tuple[AdapterTransform, ...]
    params: Mapping[str, InferParam]

    @property
    def lossy(self) -> bool:
        """Whether any step loses something."""
        return any(step.kind == "lossy" for step in self.transforms)


@overload
def adapter(cls: Class, /) -> Class: ...


@overload
def adapter(*, name: str = ...) -> Callable[[Class], Class]: ...


def adapter(*cls: Any, **options: Any) -> Any:
    """Declares the class below, a `seq.Adapter`. Raises AdapterDefinitionError when its pipelines hold no steps."""
    check.known("@seq.adapter", options, ("name",), AdapterDefinitionError)
    if len(cls) > 1 or (cls and options):
        raise AdapterDefinitionError('write @seq.adapter, or @seq.adapter(name="my-adapter")')

    def declare(decorated: Class) -> Class:
        declared = _declaration(decorated, options)
        setattr(decorated, ADAPTER, declared)
        return decorated

    return declare(cls[0]) if cls else declare


def declaration_of(cls: type) -> AdapterDeclaration:
    """What `@seq.adapter` declared on `cls`; raises AdapterDefinitionError when it is no adapter."""
    declared = vars(cls).get(ADAPTER) if isinstance(cls, type) else None
    if not isinstance(declared, AdapterDeclaration):
        name = getattr(cls, "__name__", cls)
        raise AdapterDefinitionError(
            f"{name!r} is not an adapter; decorate a class that subclasses seq.Adapter with @seq.adapter"
        )
    return declared


def classify(owner: Any) -> list[AdapterTransform]:
    """Every step of an adapter, instance or class, with its label; raises AdapterDefinitionError on what is no step."""
    steps: list[AdapterTransform] = []
    for pipeline, attribute in _PIPELINES:
        for step in _steps(owner, attribute):
            kind: Literal["lossless", "lossy"] = "lossy" if step.loss else "lossless"
            steps.append(AdapterTransform(pipeline=pipeline, transform=step.name, kind=kind, reason=step.loss))
    if not steps:
        raise AdapterDefinitionError(
            f"{_label(owner)} has no transforms; use seq.tf.identity() where nothing is to change"
        )
    return steps


def _declaration(cls: type, options: dict[str, Any]) -> AdapterDeclaration:
    error = AdapterDefinitionError
    handler = handler_of(cls, error)
    if ADAPTER in vars(cls):
        raise error(f"{cls.__name__} has @seq.adapter twice; write it once")
    if not issubclass(cls, Adapter):
        raise error(f"{cls.__name__} must subclass seq.Adapter: class {cls.__name__}(seq.Adapter)")
    for hook, marked in gather(cls, error).items():
        raise error(f"{cls.__name__}.{marked.method} carries @seq.{hook}; an adapter has no hooks, only its pipelines")
    params = {} if cls.__init__ is object.__init__ else parameters(cls.__init__, f"{cls.__name__}.__init__", error)
    return AdapterDeclaration(
        name=check.public_name(options.get("name", kebab(cls.__name__)), error, ADAPTER_NAME, "a letter"),
        handler=handler,
        class_name=cls.__name__,
        policy_io=_policy_io(cls),
        transforms=tuple(classify(_built(cls))),
        params=params,
    )


def _policy_io(cls: type[Adapter]) -> PolicyIo:
    check.choice("policy_io", cls.policy_io, AdapterDefinitionError, ("robot_arm", "own"))
    return "own" if cls.policy_io == "own" else "robot_arm"


def _built(cls: type[Adapter]) -> Adapter:
    """An instance with the defaults, as an eval makes it: one that cannot be made is refused here, not there."""
    try:
        built = cls()
        steps_per_query = getattr(built, "steps_per_query", None)
    except Exception as wrong:
        raise AdapterDefinitionError(f"{cls.__name__}() raised {type(wrong).__name__}: {wrong}") from wrong
    if steps_per_query is not None:
        check.whole(f"{cls.__name__}.steps_per_query", steps_per_query, AdapterDefinitionError, low=1)
    return built


def _steps(owner: Any, attribute: str) -> list[Transform]:
    steps = getattr(owner, attribute, None)
    if isinstance(steps, (str, bytes)) or not isinstance(steps, Iterable):
        raise AdapterDefinitionError(f"{_label(owner)}.{attribute} must be a list of seq.tf steps, got {steps!r}")
    found = list(steps)
    for step in found:
        if not isinstance(step, Transform):
            raise AdapterDefinitionError(
                f"{_label(owner)}.{attribute} must hold seq.tf steps such as seq.tf.rename(...), got {step!r}"
            )
    return found


def _through(steps: Iterable[Transform], value: Any) -> Any:
    for step in steps:
        value = step(value)
    return value


def _label(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__
