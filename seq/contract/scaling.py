"""How a deployment grows and shrinks, by the names an author uses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from seq.contract._model import Strict
from seq.contract.deployments import Autoscaler


class ScalingRequest(Strict):
    """`PUT /v1/deployments/{name}/scaling`: only the fields that were sent count; `max_gpus` null is no limit."""

    min_workers: int = Field(default=0, ge=0, le=256)
    buffer_workers: int = Field(default=0, ge=0, le=256)
    max_gpus: int | None = Field(default=None, ge=1, le=256)
    idle_timeout: int = Field(default=600, ge=1)
    on_full: Literal["queue", "reject"] = "queue"
    queue_timeout_s: int = Field(default=120, ge=5, le=3600)
    rotate_after_s: int = Field(default=18000, ge=600, le=18000)


class Scaling(Strict):
    """A deployment's scaling as it stands."""

    min_workers: int
    buffer_workers: int
    max_gpus: int | None
    idle_timeout: int
    on_full: Literal["queue", "reject"]
    queue_timeout_s: int

    @staticmethod
    def of(declared: Autoscaler) -> Scaling:
        """The same by the author's names."""
        return Scaling(
            min_workers=declared.min_containers,
            buffer_workers=declared.buffer_containers or 0,
            max_gpus=declared.max_gpus,
            idle_timeout=declared.scaledown_window,
            on_full=declared.on_full,
            queue_timeout_s=declared.queue_timeout_s,
        )
