"""Author, deploy and score robot policies: decorators, declarations, and the calls behind the `seq` command.

Names are loaded when they are first used, so that `import seq` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq import presets as presets
    from seq import safety as safety
    from seq import tf as tf
    from seq._benchmark_hooks import check as check
    from seq._benchmark_hooks import observation as observation
    from seq._benchmark_hooks import reset as reset
    from seq._benchmark_hooks import score as score
    from seq._benchmark_hooks import setup as setup
    from seq._benchmark_hooks import step as step
    from seq._policy_hooks import batched as batched
    from seq._policy_hooks import concurrent as concurrent
    from seq._policy_hooks import infer as infer
    from seq._policy_hooks import load as load
    from seq._policy_hooks import on_episode as on_episode
    from seq._policy_hooks import plan as plan
    from seq._policy_hooks import shutdown as shutdown
    from seq._policy_hooks import warmup as warmup
    from seq.adapter import Adapter as Adapter
    from seq.adapter import AdapterKind as AdapterKind
    from seq.adapter import adapter as adapter
    from seq.benchmark import Benchmark as Benchmark
    from seq.benchmark import benchmark as benchmark
    from seq.conditions import Condition as Condition
    from seq.conditions import conditions as conditions
    from seq.contract.adapters import AdapterTransform as AdapterTransform
    from seq.contract.benchmarks import Conditions as Conditions
    from seq.contract.benchmarks import Variant as Variant
    from seq.contract.deployments import DeploymentAccepted as DeploymentAccepted
    from seq.contract.deployments import DeploymentRequest as DeploymentRequest
    from seq.contract.deployments import DeploymentStatusResponse as DeploymentStatusResponse
    from seq.contract.evals import EvalStatus as EvalStatus
    from seq.contract.robot import ActionContract as ActionContract
    from seq.contract.robot import ActionSpace as ActionSpace
    from seq.contract.robot import Camera as Camera
    from seq.contract.robot import Embodiment as Embodiment
    from seq.contract.robot import ObservationContract as ObservationContract
    from seq.deploying import DeploymentHandle as DeploymentHandle
    from seq.deploying import deploy as deploy
    from seq.episodes import EpisodeResult as EpisodeResult
    from seq.episodes import Record as Record
    from seq.episodes import RenderSpec as RenderSpec
    from seq.episodes import Step as Step
    from seq.errors import AdapterDefinitionError as AdapterDefinitionError
    from seq.errors import BenchmarkDefinitionError as BenchmarkDefinitionError
    from seq.errors import PolicyDefinitionError as PolicyDefinitionError
    from seq.errors import SeqAuthoringError as SeqAuthoringError
    from seq.evaluating import eval as eval
    from seq.image import Image as Image
    from seq.params import OneOf as OneOf
    from seq.params import Range as Range
    from seq.policy import Policy as Policy
    from seq.policy import policy as policy
    from seq.report import ClampInfo as ClampInfo
    from seq.report import EvalEstimate as EvalEstimate
    from seq.report import EvalReport as EvalReport
    from seq.report import LossyTransform as LossyTransform
    from seq.report import MetricAgg as MetricAgg
    from seq.report import SuiteAgg as SuiteAgg
    from seq.report import TaskAgg as TaskAgg
    from seq.requests import adapter_registration as adapter_registration
    from seq.requests import benchmark_registration as benchmark_registration
    from seq.requests import deployment_request as deployment_request
    from seq.requests import registration as registration
    from seq.secret import Secret as Secret
    from seq.sources import adapter_source as adapter_source
    from seq.timeouts import Timeouts as Timeouts
    from seq.weights import Volume as Volume
    from seq.weights import Weights as Weights

_HOMES = {
    "seq.adapter": ("Adapter", "AdapterKind", "adapter"),
    "seq._benchmark_hooks": ("check", "observation", "reset", "score", "setup", "step"),
    "seq.benchmark": ("Benchmark", "benchmark"),
    "seq.conditions": ("Condition", "conditions"),
    "seq.contract.adapters": ("AdapterTransform",),
    "seq.contract.benchmarks": ("Conditions", "Variant"),
    "seq.contract.deployments": ("DeploymentAccepted", "DeploymentRequest", "DeploymentStatusResponse"),
    "seq.contract.evals": ("EvalStatus",),
    "seq.contract.robot": ("ActionContract", "ActionSpace", "Camera", "Embodiment", "ObservationContract"),
    "seq.deploying": ("DeploymentHandle", "deploy"),
    "seq.episodes": ("EpisodeResult", "Record", "RenderSpec", "Step"),
    "seq.errors": ("AdapterDefinitionError", "BenchmarkDefinitionError", "PolicyDefinitionError", "SeqAuthoringError"),
    "seq.evaluating": ("eval",),
    "seq.image": ("Image",),
    "seq.params": ("OneOf", "Range"),
    "seq._policy_hooks": ("batched", "concurrent", "infer", "load", "on_episode", "plan", "shutdown", "warmup"),
    "seq.policy": ("Policy", "policy"),
    "seq.report": ("ClampInfo", "EvalEstimate", "EvalReport", "LossyTransform", "MetricAgg", "SuiteAgg", "TaskAgg"),
    "seq.requests": ("adapter_registration", "benchmark_registration", "deployment_request", "registration"),
    "seq.secret": ("Secret",),
    "seq.sources": ("adapter_source",),
    "seq.timeouts": ("Timeouts",),
    "seq.weights": ("Volume", "Weights"),
}
_MODULES = ("presets", "safety", "tf")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ActionContract",
    "ActionSpace",
    "Adapter",
    "AdapterDefinitionError",
    "AdapterKind",
    "AdapterTransform",
    "Benchmark",
    "BenchmarkDefinitionError",
    "Camera",
    "ClampInfo",
    "Condition",
    "Conditions",
    "DeploymentAccepted",
    "DeploymentHandle",
    "DeploymentRequest",
    "DeploymentStatusResponse",
    "Embodiment",
    "EpisodeResult",
    "EvalEstimate",
    "EvalReport",
    "EvalStatus",
    "Image",
    "LossyTransform",
    "MetricAgg",
    "ObservationContract",
    "OneOf",
    "Policy",
    "PolicyDefinitionError",
    "Range",
    "Record",
    "RenderSpec",
    "Secret",
    "SeqAuthoringError",
    "Step",
    "SuiteAgg",
    "TaskAgg",
    "Timeouts",
    "Variant",
    "Volume",
    "Weights",
    "adapter",
    "adapter_registration",
    "adapter_source",
    "batched",
    "benchmark",
    "benchmark_registration",
    "check",
    "concurrent",
    "conditions",
    "deploy",
    "deployment_request",
    "eval",
    "infer",
    "load",
    "observation",
    "on_episode",
    "plan",
    "policy",
    "presets",
    "registration",
    "reset",
    "safety",
    "score",
    "setup",
    "shutdown",
    "step",
    "tf",
    "warmup",
]


class _Package(types.ModuleType):
    """Keeps `seq.policy` the decorator: importing the submodule of that name would put the module in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if sys.version_info < (3, 10):
        raise ImportError("seq needs Python 3.10 or newer; on this robot use the client, `import sequence_ai`")
    if name in _MODULES:
        return importlib.import_module(f"seq.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'seq' has no attribute {name!r}; its names are {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
