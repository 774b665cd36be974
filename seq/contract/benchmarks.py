"""Benchmarks: what registering one sends, and what reads of it answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from seq.contract._model import Strict
from seq.contract.code import CodeBundle
from seq.contract.image import ImageSpec, SecretRef
from seq.contract.names import DeploymentName, HandlerRef
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract


class Variant(Strict):
    """One axis of variation and its values."""

    axis: str
    values: list[str] = Field(min_length=1)


class Conditions(Strict):
    """Tasks x variant combinations x seeds, expanded in that order: seeds innermost."""

    tasks: list[str] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1)
    variants: list[Variant] = Field(default_factory=list)


class ListedCondition(Strict):
    """One condition of a list that is not a plain product."""

    task: str
    seed: int
    variant: dict[str, str] = Field(default_factory=dict)
    max_steps: int | None = Field(default=None, ge=1)
    timeout_s: float | None = Field(default=None, gt=0)
    suite: str | None = None


class RenderSpec(Strict):
    """What is recorded: a camera, frames a second, and whether recorded frames (only those) are turned."""

    camera: str
    fps: float = Field(default=30, gt=0)
    flip: Literal["vertical", "horizontal", "both"] | None = None


class AssetMount(Strict):
    """A volume mounted read-only for a benchmark."""

    uri: str
    mount: str


class BenchmarkRegisterRequest(Strict):
    """`POST /v1/benchmarks`."""

    name: DeploymentName
    image: ImageSpec
    conditions: Conditions
    condition_list: list[ListedCondition] | None = Field(default=None, max_length=5000)
    max_steps: int = Field(default=300, ge=1)
    timeout_s: float | None = Field(default=None, gt=0)
    handler_ref: HandlerRef
    code: CodeBundle | None = None
    image_context: CodeBundle | None = None
    assets: list[AssetMount] = Field(default_factory=list)
    render: RenderSpec | None = None
    replay: dict[str, Any] | None = None
    cpu: int | None = Field(default=None, ge=1, le=64)
    memory_gb: float | None = None
    gpu: Literal["L4", "RTX-PRO-6000", "cpu"] | None = None
    envs: int | None = Field(default=None, ge=1, le=65536)
    suite_of: dict[str, str] = Field(default_factory=dict)
    task_descriptions: dict[str, str] = Field(default_factory=dict)
    action_contract: ActionContract | None = None
    secrets: list[SecretRef] = Field(default_factory=list)
    score: bool = False
    batched: bool = False
    params: dict[str, InferParam] | None = None
    engine: str | None = None
    default_adapter_ref: str | None = None
    seeds_repeat: int | None = None


class BenchmarkStatus(Strict):
    """The answer to registering and reading a benchmark: exactly these keys."""

    name: str
    status: Literal["building", "ready", "failed"]
    error: str | None = None
