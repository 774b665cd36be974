"""Bodies to values and back. The client names the wire's fields itself; `tests/wire` holds it to the platform's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sequence_ai._codec import JSON, MSGPACK, Blob, dumps, has_msgpack, loads
from sequence_ai._errors import CertPinError, InvalidRequest, PolicyError, SequencesError
from sequence_ai._types import ActionChunk, ImageFrame, Observation, Prediction

__all__ = [
    "ConnectAnswer",
    "best_encoding",
    "connect_body",
    "dumps",
    "loads",
    "observation_body",
    "read_chunk",
    "read_connect",
    "read_outputs",
    "read_prediction",
]

_NUMBERS = (int, float)
MOST_HZ = 10_000  # ten times the fastest servo loop; a higher rate is a burst


@dataclass(frozen=True)
class ConnectAnswer:
    """Where to act, how to know that it is the right worker, and what the policy declares."""

    worker_url: str
    fingerprint: str
    secret: str = field(repr=False)
    lease_s: float = 0.0  # 0: never renewed
    epoch: Any = None
    action: Mapping[str, Any] | None = None
    observation: Mapping[str, Any] | None = None
    embodiment: str | None = None
    params: Mapping[str, Any] | None = None
    rotate: bool = False
    encodings: tuple[str, ...] = (JSON,)

    def same_worker(self, other: ConnectAnswer) -> bool:
        """Both lead to one worker that still knows this session."""
        mine = (self.worker_url, self.fingerprint, self.secret, self.epoch)
        return self.epoch is not None and mine == (other.worker_url, other.fingerprint, other.secret, other.epoch)


def connect_body(
    model: str, session: str, *, embodiment: str | None, params: Mapping[str, Any] | None, move: bool
) -> dict[str, Any]:
    """The body of POST /v1/act/connect, the same on every poll, renewal and reconnect of one handle."""
    body: dict[str, Any] = {"model": model, "session": session, "moves": True}
    if move:
        body["move"] = True
    if embodiment is not None:
        body["embodiment"] = embodiment
    if params is not None:
        body["params"] = dict(params)
    return body


def read_connect(body: Mapping[str, Any]) -> ConnectAnswer:
    """The answer to it. Raises SequencesError when it names no worker (CertPinError when it names no certificate)."""
    for name in ("worker_url", "cert_fingerprint", "direct_secret"):
        if not isinstance(body.get(name), str):
            kind = CertPinError if name == "cert_fingerprint" else SequencesError
            raise kind(f"malformed /v1/act/connect response: {name} is missing")
    lease = body.get("lease") or {}
    return ConnectAnswer(
        worker_url=body["worker_url"].rstrip("/"),
        fingerprint=body["cert_fingerprint"],
        secret=body["direct_secret"],
        lease_s=float(lease.get("ttl_s") or 0),
        epoch=lease.get("epoch"),
        action=body.get("action") or None,
        observation=body.get("observation") or None,
        embodiment=body.get("embodiment"),
        params=body.get("params"),
        rotate=bool(body.get("rotate")),
        encodings=tuple(body.get("encodings") or (JSON,)),
    )


def best_encoding(answer: ConnectAnswer) -> str:
    """What acts are written in: MessagePack where the worker offers it and it can be written here, else JSON."""
    return MSGPACK if MSGPACK in answer.encodings and has_msgpack() else JSON


def observation_body(observation: Observation, encoding: str | None = None) -> dict[str, Any]:
    """The wire's `observation`, with its explicit nulls: for `dumps` in that encoding, or as plain JSON values.

    Raises InvalidRequest on a frame whose text is no base64, where the encoding needs its bytes.
    """
    felt = observation.proprioception
    body: dict[str, Any] = {
        "images": [_frame_body(frame, encoding) for frame in observation.images],
        "proprioception": {
            "joint_positions": list(felt.joint_positions),
            "joint_velocities": _listed(felt.joint_velocities),
            "end_effector_pose": _listed(felt.end_effector_pose),
            "gripper": _listed(felt.gripper),
        },
        "instruction": observation.instruction,
    }
    if observation.state is not None:
        body["state"] = {name: list(row) for name, row in observation.state.items()}
    return body


def read_prediction(body: Mapping[str, Any], *, request_id: str, model: str) -> Prediction:
    """A worker's answer to an observation. Raises PolicyError when it holds no playable chunk."""
    chunk = body.get("action_chunk")
    if not isinstance(chunk, Mapping):
        raise PolicyError(
            f"{model} answered without an action_chunk: it does not speak the robot-arm form; give predict() its own "
            "inputs instead of an Observation",
            code="policy_error",
            request_id=request_id,
        )
    return Prediction(
        id=body.get("id") or body.get("rid") or request_id,
        model=body.get("model") or model,
        action_chunk=read_chunk(chunk),
        perf=body.get("perf") or {},
        usage=body.get("usage") or {},
        warnings=body.get("warnings") or [],
    )


def read_outputs(body: Mapping[str, Any]) -> Any:
    """A worker's answer to raw inputs: what the policy returned, untouched."""
    if "outputs" not in body and "action_chunk" not in body:
        raise PolicyError("the worker answered with neither outputs nor an action_chunk", code="policy_error")
    return body["outputs"] if "outputs" in body else body["action_chunk"]


def read_chunk(chunk: Mapping[str, Any]) -> ActionChunk:
    """The wire's `action_chunk`. Raises PolicyError on a missing field, or a row that no robot may be handed."""
    required = ("steps", "robot", "action_space", "action_dim", "control_frequency_hz", "covers_seconds")
    missing = [name for name in required if chunk.get(name) is None]
    if missing:
        raise PolicyError(f"the answer's action_chunk has no {', '.join(missing)}", code="policy_error")
    for name in ("control_frequency_hz", "covers_seconds"):
        if type(chunk[name]) not in _NUMBERS or not math.isfinite(chunk[name]):
            raise PolicyError(f"the answer's {name} is {chunk[name]!r}: it must be a number", code="policy_error")
    if not 0 < chunk["control_frequency_hz"] <= MOST_HZ:
        raise PolicyError(
            f"the answer's control_frequency_hz is {chunk['control_frequency_hz']!r}: no robot is driven at that rate "
            f"(above 0, at most {MOST_HZ} Hz)",
            code="policy_error",
        )
    horizon = chunk.get("open_loop_horizon")
    if horizon is not None and not (isinstance(horizon, int) and horizon >= 1):
        raise PolicyError(f"open_loop_horizon is {horizon!r}: it must be at least 1", code="policy_error")
    return ActionChunk(
        steps=[_row(index, step, chunk["action_dim"]) for index, step in enumerate(chunk["steps"])],
        robot=chunk["robot"],
        action_space=chunk["action_space"],
        action_dim=chunk["action_dim"],
        control_frequency_hz=chunk["control_frequency_hz"],
        covers_seconds=chunk["covers_seconds"],
        open_loop_horizon=horizon,
        sustains_seconds=chunk.get("sustains_seconds"),
    )


def _row(index: int, step: Any, dim: int) -> list[float]:
    values = step.get("values") if isinstance(step, Mapping) else step
    # No text and no truth value is read as a number: a guess would move a robot.
    if not isinstance(values, list) or not all(type(value) in _NUMBERS for value in values):
        raise PolicyError(f"row {index} of the chunk is not a list of numbers: {step!r}", code="policy_error")
    row = [float(value) for value in values]
    if len(row) != dim or not all(map(math.isfinite, row)):
        raise PolicyError(
            f"row {index} of the chunk must be {dim} finite numbers, and is {row}: nothing of it is handed out",
            code="policy_error",
        )
    return row


def _frame_body(frame: ImageFrame, encoding: str | None) -> dict[str, Any]:
    # A frame that was given as text may be no base64: that is the worker's to say, where it can.
    as_text = encoding is None or (encoding == JSON and not frame.has_bytes)
    data = frame.data if as_text else _blob(frame)
    body: dict[str, Any] = {"view": frame.view, "data": data, "timestamp_ms": frame.timestamp_ms}
    if frame.kind is not None:
        body["kind"] = frame.kind
    return body


def _blob(frame: ImageFrame) -> Blob:
    try:
        return Blob(frame.bytes)
    except ValueError as wrong:
        raise InvalidRequest(f"this cannot be sent: {wrong}") from wrong


def _listed(values: Sequence[float] | None) -> list[float] | None:
    return None if values is None else list(values)
