"""One copy of the model: imported, loaded, asked, told of episodes, shut down; all in the caller's thread."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import Refused
from runner.worker.calls import Call, Done
from runner.worker.check import ChunkError
from runner.worker.parse import Declared, contracts
from runner.worker.written import Inferred, Write, members
from seq._policy_options import Batching
from seq.contract.deployments import PolicyDecl
from seq.policy import declaration_of


@dataclass(frozen=True)
class Created:
    """What the class says of its calls, and whether it has a warmup hook."""

    declared: Declared
    batching: Batching | None
    warms_up: bool


class Copy:
    """For one thread; a model may be bound to it."""

    def __init__(self, code_dir: str, policy: PolicyDecl) -> None:
        self._code_dir = code_dir
        self._policy = policy
        self._hooks: Mapping[str, str] = {}
        self._batched = False
        self._defaults: dict[str, Any] = {}
        self._instance: Any = None

    def create(self) -> Created:
        """Import the policy and make its object; raises whatever the user's file raises."""
        cls = _import(self._code_dir, self._policy.handler_ref)
        declared = declaration_of(cls)
        self._hooks = declared.hooks
        self._batched = declared.batching is not None
        self._instance = cls()
        self._defaults = _defaults(self._hooks["infer"], self._instance)
        keywords = tuple(declared.platform_keywords)
        return Created(Declared(self._policy, keywords, declared.preset), declared.batching, "warmup" in self._hooks)

    def load(self, weights_dir: str | None) -> None:
        """The load hook, given `weights_dir` where it takes an argument."""
        hook = self._hook("load")
        if hook is not None:
            hook(*((weights_dir,) if inspect.signature(hook).parameters else ()))

    def warmup(self) -> None:
        """The warmup hook, where there is one."""
        hook = self._hook("warmup")
        if hook is not None:
            hook()

    def run(self, calls: Sequence[Call], write: Write = members) -> list[Done]:
        """The acts of one turn, answered in order with what `write` makes of each; never raises.

        More than one only where `infer` is batched.
        """
        return [
            self._done(call, inferred, len(calls), write)
            for call, inferred in zip(calls, self._infer(calls), strict=True)
        ]

    def on_episode(self, episode_id: str) -> None:
        """Tell that an episode ended, where the policy listens."""
        hook = self._hook("on_episode")
        if hook is not None:
            hook(episode_id)

    def shutdown(self) -> None:
        """The shutdown hook, where there is one."""
        hook = self._hook("shutdown")
        if hook is not None:
            hook()

    def _hook(self, name: str) -> Callable[..., Any] | None:
        return getattr(self._instance, self._hooks[name]) if name in self._hooks else None

    def _infer(self, calls: Sequence[Call]) -> list[Inferred]:
        wall, processor = time.perf_counter(), time.thread_time()
        values: list[Any] = [None] * len(calls)
        error: BaseException | None = None
        try:
            values = self._values(calls)
        except BaseException as failed:  # noqa: BLE001  the policy's own, a sys.exit() too, becomes the answer
            error = failed
        spent, worked = time.perf_counter() - wall, (time.thread_time() - processor) / len(calls)
        return [Inferred(value, error, spent, worked) for value in values]

    def _values(self, calls: Sequence[Call]) -> list[Any]:
        infer = getattr(self._instance, self._hooks["infer"])
        if not self._batched:
            return [infer(call.act.observation, **call.act.keywords) for call in calls]
        keywords = [self._defaults | call.act.keywords for call in calls]
        listed = {name: [given[name] for given in keywords] for name in self._defaults}
        return _one_each(infer([call.act.observation for call in calls], **listed), len(calls))

    def _done(self, call: Call, inferred: Inferred, batch_size: int, write: Write) -> Done:
        began = time.perf_counter()
        written: dict[str, bytes] = {}
        refused: str | None = None
        details: dict[str, Any] = {}
        try:
            action, _ = contracts(self._policy, call.act.embodiment)
            written = write(call, action, inferred, self._code_dir)
        except Refused as told:
            shared = batch_size > 1 and inferred.error is not None
            refused = f"{told.detail} (in a batch of {batch_size} acts, all refused for it)" if shared else told.detail
            details = told.details
        answer_s = time.perf_counter() - began
        return Done(inferred.inference_s, inferred.inference_cpu_s, answer_s, batch_size, written, refused, details)


def _defaults(method: str, instance: Any) -> dict[str, Any]:
    """Every keyword of `infer` with what it is where a request does not say."""
    parameters = list(inspect.signature(getattr(instance, method)).parameters.values())[1:]
    empty = inspect.Parameter.empty
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return {one.name: None if one.default is empty else one.default for one in named}


def _one_each(value: Any, count: int) -> list[Any]:
    """The answers of a batch, one for each request; raises ChunkError where that is not what came."""
    if isinstance(value, (Mapping, str, bytes)) or not hasattr(value, "__len__"):
        raise ChunkError(
            f"a batched infer returned a {type(value).__name__}; it must return a list, one for each request"
        )
    if len(value) != count:
        raise ChunkError(
            f"a batched infer returned {len(value)} answers for {count} requests; it must return one for each"
        )
    return list(value)


def _import(code_dir: str, handler_ref: str) -> type[Any]:
    """The class `module:Class` of the bundle; raises ImportError when the name finds another module first."""
    module_name, _, class_name = handler_ref.partition(":")
    if code_dir in sys.path:
        sys.path.remove(code_dir)
    sys.path.insert(0, code_dir)
    module = importlib.import_module(module_name)
    found = getattr(module, "__file__", None) or ""
    if not Path(found).is_relative_to(code_dir):
        raise ImportError(f"{module_name} is {found or 'a built-in module'}, not the policy's file; rename the file")
    cls: type[Any] | None = getattr(module, class_name, None)
    if cls is None:
        raise ImportError(f"{module_name} has no class {class_name}")
    return cls
