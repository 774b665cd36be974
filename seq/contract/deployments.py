"""Deployments: what `seq deploy` sends for a policy, and what reads of it answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from seq.contract._model import Strict
from seq.contract.code import CodeBundle
from seq.contract.image import ImageSpec, SecretRef
from seq.contract.names import DeploymentName, HandlerRef
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract, Embodiment, ObservationContract


class WeightsSpec(Strict):
    """Where weights come from and where the worker sees them."""

    uri: str
    mount: str = "/data"


class VolumeMount(Strict):
    """A mount of a `volumes=` declaration; a deploy that carries one is refused."""

    uri: str
    mount: str
    create_if_missing: bool = True


class Resources(Strict):
    """Cards in order of preference, cores and GiB requested and allowed, and where."""

    gpu: list[str] = Field(min_length=1)
    cpu: float | None = None
    cpu_limit: float | None = None
    memory_gb: float | None = None
    memory_limit_gb: float | None = None
    region: str | None = None

    @property
    def cards(self) -> int:
        """Cards of one worker; `cpu` counts as one, and every card of a fallback list comes in the same number."""
        return int(self.gpu[0].partition(":")[2] or 1)


class PolicyDecl(Strict):
    """The policy itself: the class to import and what it declares about its inputs and outputs."""

    handler_ref: HandlerRef
    action: ActionContract | None = None
    action_declared: bool = False
    observation: ObservationContract | None = None
    embodiments: dict[str, Embodiment] | None = None
    streaming: bool = False
    secrets: list[SecretRef] = Field(default_factory=list)
    params: dict[str, InferParam] | None = None
    models: list[str] | None = None
    io: str | None = Field(default=None, max_length=4000)
    family: str | None = None
    frames_per_chunk: int | None = None


class Autoscaler(Strict):
    """How many workers, and when; the wire's names differ from the author's."""

    min_containers: int = 0
    max_containers: int | None = None
    max_gpus: int | None = Field(default=None, ge=1, le=256)
    buffer_containers: int | None = None
    scaledown_window: int = 600
    on_full: Literal["queue", "reject"] = "queue"
    queue_timeout_s: int = Field(default=120, ge=5, le=3600)


MACHINE_CARDS = 8
"""Cards of one machine: a worker that holds more is a group of whole machines."""


def machines(cards: int) -> int:
    """How many machines a worker with so many cards is."""
    return max(1, cards // MACHINE_CARDS)


class Concurrency(Strict):
    """Copies of the model on a worker, and robots it takes."""

    replicas_per_gpu: int | None = Field(default=None, ge=1, le=64)
    gpus_per_replica: int | None = Field(default=None, ge=1, le=256)
    target_inputs: int | None = Field(default=None, ge=1, le=1024)
    max_inputs: int | None = Field(default=None, ge=1, le=1024)
    replica_start: Literal["together", "one_by_one"] | None = None
    dynamic: bool | None = None
    max_concurrent: int | None = None

    def copies(self, cards: int) -> int:
        """Copies of the model on a worker with that many cards (`gpu="cpu"` counts as one); a group holds one."""
        if machines(cards) > 1:
            return 1
        return cards // (self.gpus_per_replica or 1) * (self.replicas_per_gpu or 1)

    def target(self, cards: int) -> int:
        """Robots such a worker takes before another one is wanted: its slots."""
        return self.target_inputs or self.copies(cards)

    def most(self, cards: int) -> int:
        """Robots it takes while that one starts."""
        return self.max_inputs or max(self.copies(cards), self.target(cards))


class Timeouts(Strict):
    """Seconds one inference and one start may take."""

    request: int = Field(default=300, ge=1, le=3600)
    startup: int = Field(default=1800, ge=1, le=18000)


class DeploymentRequest(Strict):
    """`POST /v1/deployments`."""

    name: DeploymentName
    image: ImageSpec
    weights: WeightsSpec | None = None
    weights_name: str | None = None
    extra_weights: dict[str, WeightsSpec] | None = None
    volumes: list[VolumeMount] = Field(default_factory=list)
    resources: Resources
    policy: PolicyDecl
    code: CodeBundle | None = None
    image_context: CodeBundle | None = None
    autoscaler: Autoscaler = Autoscaler()
    concurrency: Concurrency = Concurrency()
    timeouts: Timeouts = Timeouts()


class DeploymentAccepted(Strict):
    """The answer to a submitted deployment: exactly these keys."""

    deployment_id: str
    status: Literal["building"] = "building"


class DeploymentStatusResponse(Strict):
    """`GET /v1/deployments/{name}`: exactly these keys."""

    status: Literal["building", "ready", "failed"]
    model: str
    error: str | None = None
    reason: Literal["gpu_out_of_memory", "host_out_of_memory", "crashed"] | None = None


class PhaseAt(Strict):
    """A phase of a build and when it began (epoch seconds)."""

    phase: str
    at: float


class BuildStatus(Strict):
    """`GET /v1/deployments/{name}/build`: the newest version's phases and log."""

    deployment: str
    version: int
    state: Literal["building", "ready", "failed"]
    error: str | None = None
    phase: str | None = None
    phases: list[PhaseAt] = Field(default_factory=list)
    log: str = ""


class DeploymentRow(Strict):
    """A row of `GET /v1/deployments`."""

    name: str
    status: str
    version: int
    gpu: str
    weights: str | None = None
    weights_revision: str | None = None
    stopped: bool = False
    error: str | None = None
    latest: dict[str, Any] | None = None
