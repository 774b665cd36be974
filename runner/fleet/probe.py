"""The one real act of a build: an observation as declared, with nothing in it."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image

from seq.contract.robot import PROPRIO_FIELDS, Camera, ObservationContract

INSTRUCTION = "a synthetic observation: is the policy able to answer?"


def body(model: str, contract: ObservationContract) -> dict[str, Any]:
    """The act's body (wire.md 3.2): black frames of each camera's size, zero vectors, an instruction, a seed."""
    return {"model": model, "observation": observation(contract), "seed": 0, "episode_id": "0" * 32}


def observation(contract: ObservationContract) -> dict[str, Any]:
    """What the contract asks for, all zeros."""
    images = [
        frame
        for view, camera in contract.cameras.items()
        for _ in range(contract.history)
        for frame in _frames(view, camera)
    ]
    proprio: dict[str, Any] = {
        name: [0.0] * contract.proprio[name] if name in contract.proprio else None for name in PROPRIO_FIELDS
    }
    proprio["joint_positions"] = proprio["joint_positions"] or []
    answer: dict[str, Any] = {"images": images, "proprioception": proprio, "instruction": INSTRUCTION}
    if contract.state:
        answer["state"] = {name: [0.0] * length for name, length in contract.state.items()}
    return answer


def _frames(view: str, camera: Camera) -> list[dict[str, Any]]:
    size = (camera.width, camera.height)
    colour = {"view": view, "data": _encoded(Image.new("RGB", size), "JPEG"), "timestamp_ms": None}
    if not camera.depth:
        return [colour]
    depth = {"view": view, "data": _encoded(Image.new("I;16", size), "PNG"), "timestamp_ms": None, "kind": "depth"}
    return [colour, depth]


def _encoded(image: Image.Image, form: str) -> str:
    target = io.BytesIO()
    image.save(target, form)
    return base64.b64encode(target.getvalue()).decode()
