"""What the robots of the bench see: two cameras' JPEGs of chosen weight, seven joints and a gripper."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

VIEWS = ("front", "wrist")
# What a frame weighs so that a whole act in JSON, base64 and all, is of the size it is named by; and its picture.
FRAMES = {"3 kB": (64, 0), "15 kB": (224, 5_800), "150 kB": (640, 57_500)}


def write(folder: Path, seed: int = 0) -> Path:
    """All sizes in one file, as the drivers read it."""
    path = folder / "observations.json"
    path.write_text(json.dumps({name: _observation(width, weight, seed) for name, (width, weight) in FRAMES.items()}))
    return path


def frame_bytes(size: str) -> int:
    """What the frames of one observation weigh together."""
    return len(VIEWS) * max(FRAMES[size][1], 1)


def _observation(width: int, weight: int, seed: int) -> dict[str, object]:
    frames = {view: _jpeg(width, weight, seed + number) for number, view in enumerate(VIEWS)}
    return {
        "frames": {view: base64.b64encode(frame).decode() for view, frame in frames.items()},
        "joints": [0.123456789] * 7,
        "gripper": [0.5],
        "instruction": "hold still",
    }


def _jpeg(width: int, weight: int, seed: int) -> bytes:
    """The picture with the finest noise that stays within `weight` bytes (its plainest one where none does)."""
    best = _noise(width, 2, seed)
    for grain in range(3, width):
        made = _noise(width, grain, seed)
        if len(made) > weight:
            break
        best = made
    return best


def _noise(width: int, grain: int, seed: int) -> bytes:
    height = width * 3 // 4
    noise = np.random.default_rng(seed).integers(0, 256, (grain, grain, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((width, height), Image.Resampling.BILINEAR).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
