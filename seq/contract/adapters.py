"""Adapters: what registering one sends, and the hash that names its content."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from seq.contract._model import Strict
from seq.contract.names import AdapterName, HandlerRef
from seq.contract.params import InferParam

MAX_SOURCE_BYTES = 256 * 1024


class AdapterTransform(Strict):
    """One step of a pipeline with its loss label."""

    pipeline: Literal["obs", "action"]
    transform: str
    kind: Literal["lossless", "lossy"]
    reason: str | None = None


class AdapterRegisterRequest(Strict):
    """`POST /v1/adapters`."""

    name: AdapterName
    class_name: str
    handler_ref: HandlerRef
    source: str
    transforms: list[AdapterTransform] = Field(min_length=1)
    policy_io: Literal["robot_arm", "own"] = "robot_arm"
    replace: bool = False
    params: dict[str, InferParam] | None = None


class AdapterAccepted(Strict):
    """The answer: the version this content is, and whether it is new."""

    name: str
    version: int
    created: bool
    lossy: bool
    sha256: str


def content_hash(class_name: str, source: str) -> str:
    """The hex SHA-256 that names an adapter's content: over the class name, a newline and the file's text."""
    return hashlib.sha256(f"{class_name}\n{source}".encode()).hexdigest()
