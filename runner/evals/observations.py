"""Whether a benchmark's first observation, as its registration described it, fits what a policy reads. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seq.contract.robot import ObservationContract

Description = dict[str, Any]
KEYWORDS = {"joint_positions": "joints"}  # what `sequence_ai.observation` calls it


def misfits(contract: ObservationContract | None, shown: Description | None) -> list[str]:
    """What a policy reads and the observation lacks or has in another size; nothing where either is not known.

    Only what an act is sure to be refused for: lengths that the description leaves open are not judged.
    """
    fields = (shown or {}).get("dict")
    if contract is None or fields is None:
        return []
    if "images" not in fields:
        return [f"it has no images (its keys: {', '.join(fields)}), so it is no robot-arm observation"]
    if "dict" not in fields["images"]:
        return []  # an observation as it crosses the wire: the worker's own check is the one that knows
    proprio = {KEYWORDS.get(name, name): length for name, length in contract.proprio.items()}
    return [*_cameras(contract, fields["images"]["dict"]), *_vectors(proprio, fields), *_states(contract, fields)]


def _cameras(contract: ObservationContract, there: Description) -> Iterator[str]:
    for name, camera in contract.cameras.items():
        if name not in there:
            yield f"camera {name} is not among its images ({', '.join(there) or 'it has none'})"
        elif (dims := there[name].get("array")) and dims[:2] != [camera.height, camera.width]:
            yield f"camera {name} is {dims[1]}x{dims[0]} and the policy reads {camera.width}x{camera.height}"


def _states(contract: ObservationContract, fields: Description) -> Iterator[str]:
    yield from _vectors(contract.state, fields.get("state", {}).get("dict", {}), "state ")


def _vectors(declared: dict[str, int], there: Description, what: str = "") -> Iterator[str]:
    for name, length in declared.items():
        if name not in there:
            yield f"{what}{name} is not in it"
        elif (known := _length(there[name])) is not None and known != length:
            yield f"{what}{name} has {known} numbers and the policy reads {length}"


def _length(shown: Description) -> int | None:
    if "array" in shown:
        dims: list[int] = shown["array"]
        return dims[0] if len(dims) == 1 else None
    length: int | None = shown.get("len")
    return length
