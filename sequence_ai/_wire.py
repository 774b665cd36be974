"""Bodies to values and back. The client names the wire's fields itself; `tests/wire` holds it to the platform's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sequence_ai._codec import JSON, MSGPACK, Blob, dumps, has_msgpack, loads
from sequence_ai._declared import declared_action, declared_observation, malformed, section
from sequence_ai._errors import CertPinError, InternalError, InvalidRequest, PolicyError, SequencesError
from sequence_ai._plain import is_finite, is_whole, shown
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

T = TypeVar("T")

_NUMBERS = (int, float)
_SCALARS = (str, int, float)
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
    model: str,
    session: str,
    *,
    embodiment: str | None,
    params: Mapping[str, Any] | None,
    move: bool,
    wait_s: float = 0.0,
) -> dict[str, Any]:
    """The body of POST /v1/act/connect, the same on every poll, renewal and reconnect of one handle.

    `wait_s` is for how long the gateway may hold the question until there is a slot.
    """
    body: dict[str, Any] = {"model": model, "session": session, "moves": True}
    if wait_s > 0:
        body["wait_s"] = wait_s
    if move:
        body["move"] = True
    if embodiment is not None:
        body["embodiment"] = embodiment
    if params is not None:
        body["params"] = dict(params)
    return body


def read_connect(body: Mapping[str, Any]) -> ConnectAnswer:
    """The answer to it, each field of it checked here once, so that nothing of it fails while a robot moves.

    Raises SequencesError naming the field when it names no worker, or is malformed; CertPinError when it names no
    certificate.
    """
    for name in ("worker_url", "cert_fingerprint", "direct_secret"):
        if not isinstance(body.get(name), str):
            kind = CertPinError if name == "cert_fingerprint" else SequencesError
            raise kind(f"malformed /v1/act/connect response: {name} is missing")
    if not body["direct_secret"].isprintable():  # it would end a header; and no message may show it
        raise malformed("direct_secret holds characters that no secret has")
    lease = section(body, "lease")
    return ConnectAnswer(
        worker_url=body["worker_url"].rstrip("/"),
        fingerprint=body["cert_fingerprint"],
        secret=body["direct_secret"],
        lease_s=_lease_s(lease),
        epoch=_epoch(lease),
        action=declared_action(section(body, "action")) or None,
        observation=declared_observation(section(body, "observation")) or None,
        embodiment=_embodiment(body),
        params=None if body.get("params") is None else section(body, "params"),
        rotate=_rotate(body),
        encodings=_encodings(body),
    )


def _lease_s(lease: Mapping[str, Any]) -> float:
    ttl_s = lease.get("ttl_s")
    if ttl_s is None:
        return 0.0
    if not is_finite(ttl_s):
        raise malformed(f"lease.ttl_s is {shown(ttl_s)}, which is no number of seconds")
    return float(ttl_s)


def _epoch(lease: Mapping[str, Any]) -> Any:
    """Any JSON value, in a form that can be compared."""
    epoch = lease.get("epoch")
    if epoch is None or isinstance(epoch, _SCALARS):
        return epoch
    try:
        return json.dumps(epoch, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise malformed(f"lease.epoch is {shown(epoch)}, which cannot be compared") from None


def _embodiment(body: Mapping[str, Any]) -> str | None:
    name = body.get("embodiment")
    if name is not None and not isinstance(name, str):
        raise malformed(f"embodiment is {shown(name)}, which is no name")
    return name


def _rotate(body: Mapping[str, Any]) -> bool:
    try:
        return bool(body.get("rotate"))
    except ValueError:  # an array is neither true nor false
        raise malformed(f"rotate is {shown(body['rotate'])}") from None


def _encodings(body: Mapping[str, Any]) -> tuple[str, ...]:
    offered = body.get("encodings")
    if offered is None:
        return (JSON,)
    if not isinstance(offered, list) or not all(isinstance(name, str) for name in offered):
        raise malformed(f"encodings is {shown(offered)}, which is no list of names")
    return tuple(offered) or (JSON,)


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
        id=_part(body, "id", str, "") or _part(body, "rid", str, "") or request_id,
        model=_part(body, "model", str, "") or model,
        action_chunk=read_chunk(chunk),
        perf=_part(body, "perf", dict, {}),
        usage=_part(body, "usage", dict, {}),
        warnings=_part(body, "warnings", list, []),
    )


def _part(body: Mapping[str, Any], name: str, kind: type[T], absent: T) -> T:
    value = body.get(name)
    if value is None:
        return absent
    if not isinstance(value, kind):
        raise InternalError(
            f"the worker's answer is malformed: its {name} is {shown(value)}, where a {kind.__name__} belongs",
            code="internal",
        )
    return value


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
    hz, dim = chunk["control_frequency_hz"], chunk["action_dim"]
    horizon, sustained_s = (chunk.get(name) for name in ("open_loop_horizon", "sustains_seconds"))
    for name, fits, wanted in (
        ("steps", isinstance(chunk["steps"], list), "a list of rows"),
        ("robot", isinstance(chunk["robot"], str), "text"),
        ("action_space", isinstance(chunk["action_space"], str), "text"),
        ("action_dim", is_whole(dim) and dim >= 1, "a whole number of at least 1"),
        ("control_frequency_hz", is_finite(hz) and 0 < hz <= MOST_HZ, f"above 0 and at most {MOST_HZ} Hz"),
        ("covers_seconds", is_finite(chunk["covers_seconds"]), "a number of seconds"),
        ("open_loop_horizon", horizon is None or (is_whole(horizon) and horizon >= 1), "a whole number of at least 1"),
        ("sustains_seconds", sustained_s is None or is_finite(sustained_s), "a number of seconds"),
    ):
        if not fits:
            raise PolicyError(f"the answer's {name} is {shown(chunk[name])}: it must be {wanted}", code="policy_error")
    return ActionChunk(
        steps=[_row(index, step, chunk["action_dim"]) for index, step in enumerate(chunk["steps"])],
        robot=chunk["robot"],
        action_space=chunk["action_space"],
        action_dim=chunk["action_dim"],
        control_frequency_hz=chunk["control_frequency_hz"],
        covers_seconds=chunk["covers_seconds"],
        open_loop_horizon=horizon,
        sustains_seconds=sustained_s,
    )


def _row(index: int, step: Any, dim: int) -> list[float]:
    values = step.get("values") if isinstance(step, Mapping) else step
    # No text and no truth value is read as a number: a guess would move a robot.
    if not isinstance(values, list) or not all(type(value) in _NUMBERS for value in values):
        raise PolicyError(f"row {index} of the chunk is not a list of numbers: {shown(step)}", code="policy_error")
    try:
        row = [float(value) for value in values]
    except OverflowError:  # a whole number of 400 digits
        row = []
    if len(row) != dim or not all(map(math.isfinite, row)):
        raise PolicyError(
            f"row {index} of the chunk must be {dim} finite numbers, and is {shown(values)}: nothing of it is handed "
            "out",
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
