"""The decorators of a policy's methods, and `@seq.concurrent` for its class: they check their options and mark."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from seq import _check as check
from seq._marks import CONCURRENT, POLICY, Method, mark
from seq._policy_options import CONCURRENT_USE, Concurrency
from seq.errors import PolicyDefinitionError

Class = TypeVar("Class", bound=type)


def load(method: Method) -> Method:
    """Marks `(self, weights_dir)`: called once per model copy at worker start; None without weights."""
    return mark(method, "load")


def warmup(method: Method) -> Method:
    """Marks `(self)`: called after `load`, before the copy serves."""
    return mark(method, "warmup")


def infer(method: Method) -> Method:
    """Marks `(self, obs, *, seed=None, ...)`: called per act; every other keyword with a default is a parameter."""
    return mark(method, "infer")


def on_episode(method: Method) -> Method:
    """Marks `(self, episode_id)`: called when an episode ends, to free its state."""
    return mark(method, "on_episode")


def shutdown(method: Method) -> Method:
    """Marks `(self)`: called on every copy once its acts are finished."""
    return mark(method, "shutdown")


def plan(*method: Any, **options: Any) -> Callable[[Method], Method]:
    """Marks a slow planner beside `infer`: `@seq.plan(every_s=2.0)`, optionally `max_concurrency=` 1-64."""
    _require_options("plan", method, options, ("every_s", "max_concurrency"), "every_s=2.0")
    if "every_s" not in options:
        raise PolicyDefinitionError("@seq.plan needs every_s=, the seconds from one plan's answer to the next plan")
    if check.number("every_s", options["every_s"], PolicyDefinitionError, low=0) == 0:
        raise PolicyDefinitionError("every_s= must be above 0, got 0")
    if options.get("max_concurrency") is not None:
        check.whole("max_concurrency", options["max_concurrency"], PolicyDefinitionError, low=1, high=64)
    return lambda function: mark(function, "plan", **options)


def batched(*method: Any, **options: Any) -> Callable[[Method], Method]:
    """Marks an `infer` whose arguments arrive as lists: `@seq.batched(max_batch_size=8)`."""
    allowed = ("max_batch_size", "eval_wait_ms", "serve_wait_ms", "wait_ms")
    _require_options("batched", method, options, allowed, "max_batch_size=8")
    if "max_batch_size" not in options:
        raise PolicyDefinitionError("@seq.batched needs max_batch_size=, from 2 to 256")
    if "wait_ms" in options:
        warnings.warn("@seq.batched(wait_ms=) is now eval_wait_ms=", FutureWarning, stacklevel=2)
        options["eval_wait_ms"] = options.pop("wait_ms")
    check.whole("max_batch_size", options["max_batch_size"], PolicyDefinitionError, low=2, high=256)
    for name, high in (("eval_wait_ms", 10_000), ("serve_wait_ms", 10)):
        if options.get(name) is not None:
            check.whole(name, options[name], PolicyDefinitionError, low=0, high=high)
    return lambda function: mark(function, "batched", **options)


def concurrent(*cls: Any, **options: Any) -> Callable[[Class], Class]:
    """Under `@seq.policy`: how many copies of the model share a worker's cards, and how many robots it takes."""
    allowed = ("replicas_per_gpu", "gpus_per_replica", "target_inputs", "max_inputs", "replica_start")
    _require_options("concurrent", cls, options, allowed, "replicas_per_gpu=2")
    if not options:
        raise PolicyDefinitionError(f"@seq.concurrent() declares nothing; write {CONCURRENT_USE}")
    declared = _concurrency(options)

    def declare(decorated: Class) -> Class:
        if POLICY in vars(decorated):
            raise PolicyDefinitionError(f"{decorated.__name__}: @seq.concurrent goes under @seq.policy, not above it")
        setattr(decorated, CONCURRENT, declared)
        return decorated

    return declare


def _require_options(
    name: str, given: tuple[Any, ...], options: dict[str, Any], allowed: tuple[str, ...], example: str
) -> None:
    if given:
        raise PolicyDefinitionError(f"@seq.{name} must be called with keywords: @seq.{name}({example})")
    check.known(f"@seq.{name}", options, allowed, PolicyDefinitionError)


def _concurrency(options: dict[str, Any]) -> Concurrency:
    for name in ("replicas_per_gpu", "gpus_per_replica", "target_inputs", "max_inputs"):
        if options.get(name) is not None:
            check.whole(name, options[name], PolicyDefinitionError, low=1)
    if options.get("replica_start") is not None:
        check.choice("replica_start", options["replica_start"], PolicyDefinitionError, ("together", "one_by_one"))
    declared = Concurrency(**options)
    if (declared.gpus_per_replica or 1) > 1 and (declared.replicas_per_gpu or 1) > 1:
        raise PolicyDefinitionError(
            "gpus_per_replica= above 1 and replicas_per_gpu= above 1 exclude each other; keep one"
        )
    if declared.target_inputs and declared.max_inputs and declared.max_inputs < declared.target_inputs:
        raise PolicyDefinitionError(
            f"max_inputs={declared.max_inputs} must be at least target_inputs={declared.target_inputs}"
        )
    return declared
