"""JSON that carries arrays: `{"__nd__": [dtype, shape, base64]}`, little-endian, C order. Plain data, never code."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

_KINDS = "biuf"


def dumps(value: Any) -> bytes:
    """`value` as UTF-8 JSON; numpy arrays and scalars (bool, int, float) become tagged or plain values.

    Raises TypeError on anything that is not plain data, ValueError on NaN or infinity outside an array.
    """
    return json.dumps(value, default=_encode, allow_nan=False, separators=(",", ":")).encode()


def loads(body: bytes | str) -> Any:
    """The value `dumps` wrote; raises ValueError on malformed JSON or a malformed array."""
    return json.loads(body, object_hook=_decode)


def decode(value: Any) -> Any:
    """A parsed JSON value with its tagged arrays made arrays."""
    if isinstance(value, dict):
        return _decode({key: decode(item) for key, item in value.items()})
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value


def encode(value: Any) -> Any:
    """A value with its numpy arrays and scalars made JSON values: the inverse of `decode`."""
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return _encode(value)


def _encode(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.generic):
            return value.item()
        if isinstance(value, numpy.ndarray) and value.dtype.kind in _KINDS:
            little = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            return {"__nd__": [little.dtype.str, list(value.shape), base64.b64encode(little.tobytes()).decode()]}
    raise TypeError(
        f"a {type(value).__name__} cannot cross the wire; send numbers, strings, lists, dicts or numeric arrays"
    )


def _decode(item: dict[str, Any]) -> Any:
    if set(item) != {"__nd__"}:
        return item
    import numpy as np  # noqa: PLC0415  importing the contract must not load numpy

    try:
        dtype_text, shape, data = item["__nd__"]
        dtype = np.dtype(dtype_text)
        if dtype.kind not in _KINDS:
            raise ValueError(f"dtype {dtype_text!r} is not numeric")
        return np.frombuffer(base64.b64decode(data, validate=True), dtype=dtype).reshape(shape).copy()
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"malformed array: {wrong}") from wrong
