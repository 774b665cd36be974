"""The robot's door: connecting, and what a worker answers. Acts themselves are checked by the worker, not modelled."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from seq.contract._model import Lenient
from seq.contract.robot import ActionContract, ObservationContract


class ConnectRequest(Lenient):
    """`POST /v1/act/connect`. With `wait_s` the answer is held for up to that long until there is a slot."""

    model: str = Field(max_length=256)
    session: str = Field(max_length=128)
    moves: bool = False
    move: bool = False
    embodiment: str | None = None
    params: dict[str, Any] | None = None
    wait_s: float = Field(default=0.0, ge=0, le=60)


class Lease(Lenient):
    """How long a robot's slot is held without a renewal; `epoch` changes when the worker's coordinates do."""

    ttl_s: float
    epoch: int | str
    expires_at: str | None = None


class ConnectAnswer(Lenient):
    """Where to act, how to know it is the right worker, what the policy declares, and what acts may be written in.

    An eval's instance is also told `acts_socket`: where the model copy that is to answer it takes acts directly, should
    both be on one machine.
    """

    worker_url: str
    cert_fingerprint: str
    direct_secret: str
    lease: Lease | None = None
    action: ActionContract | None = None
    observation: ObservationContract | None = None
    embodiment: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    rotate: dict[str, Any] | None = None
    encodings: list[str] = Field(default_factory=lambda: ["json"])
    acts_socket: str | None = None


class ReleaseRequest(Lenient):
    """`POST /v1/act/release`."""

    model: str = Field(max_length=256)
    session: str = Field(max_length=128)


class ReadyAnswer(Lenient):
    """`GET /v1/act/ready`."""

    ready: bool
    eta_s: float | None = None
    status: str
