"""Values to bytes and back: JSON, and MessagePack where both ends have it. Plain data in either, never code.

Both carry the same values and differ in two places: an encoded image is base64 text in JSON and raw bytes in
MessagePack, and so are the bytes of an array, `{"__nd__": [dtype, shape, data]}`, little-endian, C order.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib.util
import json
import math
import re
import sys
from typing import Any

from sequence_ai._errors import InvalidRequest

JSON, MSGPACK = "json", "msgpack"
CONTENT_TYPES = {JSON: "application/json", MSGPACK: "application/msgpack"}

_ARRAY = "__nd__"
_NUMERIC = "biuf"
_DTYPE = re.compile(r"[<>|=]?[biuf]\d{1,2}")
_BUFFER_BYTES = 4096
_MARK = "(an image goes here)"
_MOST_ITEMS = 1 << 20  # a longer list or map is no answer of a policy; it would be an array


class Blob:
    """An encoded image on its way: raw bytes in MessagePack, base64 text in JSON."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def base64(self) -> bytes:
        """The bytes as base64, in ASCII."""
        return binascii.b2a_base64(self.raw, newline=False)


@functools.cache
def has_msgpack() -> bool:
    """MessagePack can be written here: the extra `fast` is installed."""
    return importlib.util.find_spec("msgpack") is not None


def dumps(value: Any, encoding: str = JSON) -> bytes:
    """`value` in the encoding. Numpy scalars travel as numbers, numeric arrays tagged.

    Raises InvalidRequest on NaN or infinity outside an array, and on anything that is not plain data.
    """
    try:
        if encoding == JSON:
            return _spliced(value)
        return _pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise InvalidRequest(f"this cannot be sent: {wrong}") from wrong


def loads(content: bytes, content_type: str = CONTENT_TYPES[JSON]) -> Any:
    """The value that `dumps` wrote, its encoding told by the content type. Raises ValueError on anything else."""
    if content_type.startswith(CONTENT_TYPES[MSGPACK]):
        return _decoded(_unpack(content)) if b"__nd__" in content else _unpack(content)
    # The hook is called for every object, so it is left out of the common answer, which holds no array.
    return json.loads(content, object_hook=_array if b"__nd__" in content else None)


def _spliced(value: Any) -> bytes:
    """JSON whose images are put in as they are: looking through their text for what must be escaped takes longest."""
    blobs: list[Blob] = []

    def mark(item: Any) -> Any:
        if isinstance(item, Blob):
            blobs.append(item)
            return _MARK
        return _numpy_value(item, _base64)

    text = json.dumps(value, default=mark, allow_nan=False, separators=(",", ":")).encode("ascii")
    if not blobs:
        return text
    parts = text.split(f'"{_MARK}"'.encode("ascii"))
    if len(parts) != len(blobs) + 1:  # a text of the caller's own is the mark
        return json.dumps(value, default=_json_value, allow_nan=False, separators=(",", ":")).encode("ascii")
    told = [part for pair in zip(parts, (blob.base64() for blob in blobs)) for part in pair]
    return b'"'.join([*told, parts[-1]])


def _pack(value: Any) -> bytes:
    import msgpack  # noqa: PLC0415  the extra `fast`: a robot without it speaks JSON

    # The usual 256 kB to begin with take longer to get, at every act, than all the writing.
    packed: bytes = msgpack.packb(_plain(value), unicode_errors="surrogatepass", buf_size=_BUFFER_BYTES)
    return packed


def _unpack(content: bytes) -> Any:
    import msgpack  # noqa: PLC0415  the same

    try:
        return msgpack.unpackb(
            content,
            raw=False,
            strict_map_key=True,
            unicode_errors="surrogatepass",
            max_ext_len=0,
            ext_hook=_no_extension,
            max_array_len=min(len(content), _MOST_ITEMS),
            max_map_len=min(len(content), _MOST_ITEMS),
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as wrong:
        raise ValueError(f"not MessagePack: {wrong or type(wrong).__name__}") from wrong


def _no_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code} is no plain data")


def _plain(value: Any) -> Any:
    """What MessagePack is to write so that it reads as the JSON of `value` would."""
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Blob):
        return value.raw
    return _plain(_numpy_value(value, Blob))


def _key(key: Any) -> str:
    """A key as JSON writes it: always text."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key, allow_nan=False)
    raise TypeError(f"keys must be str, int, float, bool or None, not {type(key).__name__}")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number that can be sent")
    return value


def _json_value(value: Any) -> Any:
    if isinstance(value, Blob):
        return value.base64().decode("ascii")
    return _numpy_value(value, _base64)


def _numpy_value(value: Any, write: Any) -> Any:
    # An array can only be here if its owner imported numpy, so looking it up is enough.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in _NUMERIC:
        little = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return {_ARRAY: [little.dtype.str, list(value.shape), write(little.tobytes())]}
    raise TypeError(f"a {type(value).__name__} is not JSON; give numbers, strings, lists, dicts or numeric arrays")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict):
        return _array(value) if set(value) == {_ARRAY} else {key: _decoded(item) for key, item in value.items()}
    return value


def _array(item: dict[str, Any]) -> Any:
    if set(item) != {_ARRAY}:
        return item
    import numpy as np  # noqa: PLC0415  only an answer with an array in it needs numpy

    try:
        text, shape, data = item[_ARRAY]
        if not (isinstance(text, str) and _DTYPE.fullmatch(text)):
            raise ValueError(f"{text!r} is not a numeric dtype")
        raw = data if isinstance(data, bytes) else base64.b64decode(data, validate=True)
        return np.frombuffer(raw, dtype=np.dtype(text)).reshape(shape).copy()
    except (TypeError, ValueError, OverflowError) as wrong:
        raise ValueError(f"malformed array in the answer: {wrong}") from wrong


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
