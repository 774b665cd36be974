"""The body of an act made into what `infer` is called with. Pure; refuses before anything runs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.errors import Refused
from runner.worker.check import observation_faults, shape_faults
from seq.contract import codec
from seq.contract.deployments import PolicyDecl
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract, ObservationContract
from seq.presets.robot_arm import Observation

_NAMES = {codec.JSON: "JSON", codec.MSGPACK: "MessagePack"}
_TYPES: dict[str, tuple[type[Any], ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,)}


@dataclass(frozen=True)
class Declared:
    """What the policy's class says of its `infer`: the platform's keywords it takes, and if it takes the preset."""

    policy: PolicyDecl
    platform_keywords: tuple[str, ...] = ()
    preset: bool = False


@dataclass(frozen=True)
class Act:
    """One call of `infer`: its observation and keywords. `opaque` inputs are answered as they were returned."""

    observation: Any
    keywords: dict[str, Any]
    opaque: bool
    embodiment: str | None = None
    model: str | None = None
    episode_id: str | None = None


def read_body(raw: bytes | memoryview, encoding: str = codec.JSON) -> dict[str, Any]:
    """The body as an object without NaN or infinity, its arrays still tagged; refused otherwise."""
    try:
        body = codec.parse(raw, encoding)
    except ValueError as wrong:
        raise Refused("invalid_request", f"the body is not {_NAMES[encoding]}: {wrong}") from None
    if not isinstance(body, dict):
        raise Refused("invalid_request", f"the body must be a {_NAMES[encoding]} object")
    return body


def parse(body: Mapping[str, Any], declared: Declared, defaults: Mapping[str, Any]) -> Act:
    """The call that `body` asks for; `defaults` are parameters set when the worker was started.

    Raises Refused naming what is missing or wrong. Keys nobody declared are ignored.
    """
    embodiment = _text(body, "embodiment")
    _, contract = contracts(declared.policy, embodiment)
    keywords = _params(body.get("params"), declared.policy.params or {}, defaults)
    offered = {
        "seed": _seed(body),
        "episode_id": _text(body, "episode_id"),
        "instruction": _instruction(body),
        "embodiment": embodiment,
    }
    taken = [key for key in declared.platform_keywords if offered.get(key) is not None]
    keywords |= {key: offered[key] for key in taken}
    return Act(
        observation=_observation(body, declared, contract),
        keywords=keywords,
        opaque="observation" not in body,
        embodiment=embodiment,
        model=_text(body, "model"),
        episode_id=_text(body, "episode_id"),
    )


def contracts(policy: PolicyDecl, embodiment: str | None) -> tuple[ActionContract | None, ObservationContract | None]:
    """What holds for this body of the robot; the policy's own contracts where the body has none of its own.

    Raises Refused on a body that nobody declared.
    """
    bodies = policy.embodiments or {}
    if embodiment is None or not bodies:
        return policy.action, policy.observation
    if embodiment not in bodies:
        known = ", ".join(sorted(bodies))
        raise Refused("invalid_request", f"the policy has no embodiment {embodiment!r}; it has {known}")
    body = bodies[embodiment]
    return body.action, body.observation or policy.observation


def _observation(body: Mapping[str, Any], declared: Declared, contract: ObservationContract | None) -> Any:
    if "observation" not in body:
        return _inputs(body, declared, contract)
    observation = body["observation"]
    if not isinstance(observation, Mapping):
        raise Refused("invalid_request", "observation must be an object")
    faults = shape_faults(observation)
    if contract is not None and not faults:
        faults = observation_faults(contract, observation)
    if faults:
        raise _mismatch(faults)
    if not declared.preset:
        return {**observation, "images": [_with_text(frame) for frame in observation["images"]]}
    try:
        return Observation.from_wire(observation)
    except ValueError as wrong:
        raise Refused("invalid_request", f"the observation cannot be read: {wrong}") from None


def _with_text(frame: Mapping[str, Any]) -> Mapping[str, Any]:
    """A frame for a policy that takes plain data: the same base64 text whichever encoding it came in."""
    data = frame["data"]
    return {**frame, "data": base64.b64encode(data).decode()} if isinstance(data, bytes) else frame


def _inputs(body: Mapping[str, Any], declared: Declared, contract: ObservationContract | None) -> Any:
    if "inputs" not in body:
        raise Refused("invalid_request", "the body has neither observation nor inputs; send one of them")
    if contract is not None or declared.preset:
        wanted = "declares observation=" if contract is not None else "takes a robot-arm Observation"
        raise Refused("invalid_request", f"the policy {wanted}; send an observation, not bare inputs")
    try:
        return codec.decode(body["inputs"])
    except ValueError as wrong:
        raise Refused("invalid_request", f"inputs cannot be read: {wrong}") from None


def _mismatch(faults: list[str]) -> Refused:
    return Refused("invalid_request", f"the observation does not fit the policy: {'; '.join(faults)}", missing=faults)


def _params(given: Any, declared: Mapping[str, InferParam], defaults: Mapping[str, Any]) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise _wrong_params("params must be an object")
    asked = {**defaults, **(given or {})}
    unknown = sorted(set(asked) - set(declared))
    if unknown:
        known = ", ".join(sorted(declared)) or "none"
        raise _wrong_params(f"the policy declares no parameter {', '.join(unknown)}; it declares {known}")
    return {name: _cast(name, value, declared[name]) for name, value in asked.items()}


def _cast(name: str, value: Any, declared: InferParam) -> Any:
    if value is None and declared.default is None:
        return None
    if not isinstance(value, _TYPES[declared.type]) or (isinstance(value, bool) and declared.type != "bool"):
        raise _wrong_params(f"params.{name} must be {declared.type}, got {value!r}")
    if declared.choices is not None and value not in declared.choices:
        raise _wrong_params(f"params.{name} must be one of {', '.join(declared.choices)}, got {value!r}")
    if (declared.min is not None and value < declared.min) or (declared.max is not None and value > declared.max):
        raise _wrong_params(f"params.{name} must lie in [{declared.min}, {declared.max}], got {value!r}")
    return float(value) if declared.type == "float" else value


def _wrong_params(message: str) -> Refused:
    return Refused("invalid_request", message, reason="params")


def _seed(body: Mapping[str, Any]) -> int | None:
    seed = body.get("seed")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise Refused("invalid_request", f"seed must be a whole number, got {seed!r}")
    return seed


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise Refused("invalid_request", f"{key} must be text, got {value!r}")
    return value


def _instruction(body: Mapping[str, Any]) -> str | None:
    observation = body.get("observation")
    if isinstance(observation, Mapping) and isinstance(observation.get("instruction"), str):
        return str(observation["instruction"])
    return _text(body, "instruction")
