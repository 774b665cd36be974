"""One copy of the model, in a thread of its own: imported, loaded, asked, told of episodes, shut down."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from runner.worker.parse import Declared
from seq.contract.deployments import PolicyDecl
from seq.policy import declaration_of

T = TypeVar("T")


@dataclass(frozen=True)
class Inferred:
    """What `infer` returned or raised, with its wall time and its thread's processor time."""

    value: Any
    error: BaseException | None
    inference_s: float
    inference_cpu_s: float


class Copy:
    """Every hook runs in the copy's own thread, one at a time, as asked for; so a model may be bound to it."""

    def __init__(self, code_dir: str, policy: PolicyDecl) -> None:
        self._code_dir = code_dir
        self._policy = policy
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="copy")
        self._hooks: Mapping[str, str] = {}
        self._instance: Any = None

    def create(self) -> Declared:
        """Import the policy and make its object; raises whatever the user's file raises."""
        return self._do(self._create).result()

    def load(self, weights_dir: str | None) -> None:
        """The load hook, given `weights_dir` where it takes an argument."""
        hook = self._hook("load")
        if hook is not None:
            given = (weights_dir,) if inspect.signature(hook).parameters else ()
            self._do(lambda: hook(*given)).result()

    @property
    def warms_up(self) -> bool:
        """Whether the policy has a warmup hook."""
        return "warmup" in self._hooks

    def warmup(self) -> None:
        """The warmup hook."""
        hook = self._hook("warmup")
        if hook is not None:
            self._do(hook).result()

    def infer(self, observation: Any, keywords: Mapping[str, Any]) -> Future[Inferred]:
        """One inference; the future never raises."""
        return self._do(lambda: self._infer(observation, keywords))

    def on_episode(self, episode_id: str) -> Future[Any] | None:
        """Tell that an episode ended, after what is asked before; None where the policy does not listen."""
        hook = self._hook("on_episode")
        return None if hook is None else self._do(lambda: hook(episode_id))

    def shutdown(self, limit_s: float) -> None:
        """The shutdown hook, once nothing runs any more; raises TimeoutError past the limit."""
        hook = self._hook("shutdown")
        if hook is not None:
            self._do(hook).result(limit_s)

    def _do(self, call: Callable[[], T]) -> Future[T]:
        return self._thread.submit(call)

    def _hook(self, name: str) -> Callable[..., Any] | None:
        return getattr(self._instance, self._hooks[name]) if name in self._hooks else None

    def _create(self) -> Declared:
        cls = _import(self._code_dir, self._policy.handler_ref)
        declared = declaration_of(cls)
        self._hooks = declared.hooks
        self._instance = cls()
        return Declared(self._policy, tuple(declared.platform_keywords), declared.preset)

    def _infer(self, observation: Any, keywords: Mapping[str, Any]) -> Inferred:
        wall, processor = time.perf_counter(), time.thread_time()
        value: Any = None
        error: BaseException | None = None
        try:
            value = getattr(self._instance, self._hooks["infer"])(observation, **keywords)
        except BaseException as failed:  # noqa: BLE001  the policy's own, a sys.exit() too, becomes the answer
            error = failed
        spent, worked = time.perf_counter() - wall, time.thread_time() - processor
        return Inferred(value, error, spent, worked)


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
