"""Camera frames to the JPEG or PNG that travels. Pillow and numpy are imported when a frame needs them, not before."""

from __future__ import annotations

import base64
import io
from typing import Any

from sequence_ai._errors import InvalidRequest

DEFAULT_JPEG_QUALITY = 95
_LONG_EDGE_PX = 640
_DEPTH_MAX_MM = 65_535
_PER_UNIT_MM = {"m": 1000.0, "mm": 1.0}


def encode(frame: Any, *, quality: int = DEFAULT_JPEG_QUALITY) -> str:
    """A camera frame as base64 JPEG. Hand it the native frame.

    A PIL image or a uint8 RGB array (height, width, 3), grey and RGBA too, is made RGB and scaled so that its long edge
    is at most 640 px (aspect kept, never enlarged). `str` passes through as base64; `bytes` are an encoded image.
    Raises InvalidRequest on an array that is no such frame, ImportError without Pillow.
    """
    return _text(encoded(frame, quality=quality))


def encoded(frame: Any, *, quality: int = DEFAULT_JPEG_QUALITY) -> str | bytes:
    """A camera frame as `encode` writes it, before base64: an ImageFrame takes either, and each encoding its own."""
    if isinstance(frame, (str, bytes, bytearray, memoryview)):
        return frame if isinstance(frame, (str, bytes)) else bytes(frame)
    image = _image(frame).convert("RGB")
    long_edge = max(image.size)
    if long_edge > _LONG_EDGE_PX:
        size = tuple(max(1, round(side * _LONG_EDGE_PX / long_edge)) for side in image.size)
        image = image.resize(size, pillow().LANCZOS)
    return _written(image, "JPEG", quality=quality)


def encode_depth(depth_map: Any, *, unit: str = "m") -> str:
    """A (height, width) depth map as a lossless 16-bit PNG of millimetres: 0 is no reading, 65 535 the most.

    `unit` is what the map is in: "m" or "mm". Infinite and undefined readings become 0. `str` and `bytes` pass through.
    """
    return _text(encoded_depth(depth_map, unit=unit))


def encoded_depth(depth_map: Any, *, unit: str = "m") -> str | bytes:
    """A depth map as `encode_depth` writes it, before base64."""
    if isinstance(depth_map, (str, bytes, bytearray, memoryview)):
        return depth_map if isinstance(depth_map, (str, bytes)) else bytes(depth_map)
    if unit not in _PER_UNIT_MM:
        raise InvalidRequest(f"depth_unit {unit!r} is unknown: give one of {sorted(_PER_UNIT_MM)}")
    image_module = pillow()
    import numpy as np  # noqa: PLC0415  a robot that sends encoded frames needs no numpy

    readings = np.asarray(depth_map, dtype=np.float64)
    if readings.ndim != 2 or not readings.size:
        raise InvalidRequest(f"a depth map has the shape (height, width), not {readings.shape}")
    with np.errstate(invalid="ignore"):
        millimetres = np.rint(readings * _PER_UNIT_MM[unit])
    millimetres[~np.isfinite(millimetres)] = 0
    return _written(image_module.fromarray(np.clip(millimetres, 0, _DEPTH_MAX_MM).astype(np.uint16)), "PNG")


def pillow() -> Any:
    """The module PIL.Image. Raises ImportError naming the extra that brings it."""
    try:
        from PIL import Image  # noqa: PLC0415  the same for Pillow
    except ImportError as missing:
        raise ImportError('camera frames need Pillow: pip install "sequence-ai[image]"') from missing
    return Image


def _image(frame: Any) -> Any:
    image_module = pillow()
    if isinstance(frame, image_module.Image):
        return frame
    if not hasattr(frame, "__array__"):
        raise InvalidRequest(
            f"a frame cannot be a {type(frame).__name__}: give a numpy array, a PIL image, encoded bytes or base64 text"
        )
    import numpy as np  # noqa: PLC0415  a robot that sends encoded frames needs no numpy

    pixels = np.ascontiguousarray(frame)
    grey = pixels.ndim == 2
    coloured = pixels.ndim == 3 and pixels.shape[2] in (1, 3, 4)
    if pixels.dtype != np.uint8 or not (grey or coloured) or not pixels.size:
        raise InvalidRequest(
            f"a frame of shape {pixels.shape} and dtype {pixels.dtype} is not an image: give uint8 RGB of shape "
            "(height, width, 3), values 0 to 255"
        )
    return image_module.fromarray(pixels[:, :, 0] if coloured and pixels.shape[2] == 1 else pixels)


def _written(image: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def _text(frame: str | bytes) -> str:
    return frame if isinstance(frame, str) else base64.b64encode(frame).decode("ascii")
