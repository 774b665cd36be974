"""Values to bytes and back: JSON and MessagePack. Plain data in either, never code.

Both carry the same values and differ in two places: an encoded image is base64 text in JSON and raw bytes in
MessagePack, and so are the bytes of an array, `{"__nd__": [dtype, shape, data]}`, little-endian, C order.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any, TypeGuard

JSON, MSGPACK = "json", "msgpack"
ENCODINGS = (JSON, MSGPACK)
CONTENT_TYPES = {JSON: "application/json", MSGPACK: "application/msgpack"}

_BUFFER_BYTES = 4096
_KINDS = "biuf"
_DTYPE = re.compile(r"[<>|=]?[biuf]\d{1,2}")
# What a body may hold besides raw bytes: some bytes of MessagePack can claim far more memory than they take.
_MOST_ITEMS = 1 << 20
_MOST_VALUES = 1 << 22
_MOST_LEVELS = 100
_SCALARS = frozenset((str, int, bool, type(None)))


def dumps(value: Any, encoding: str = JSON, *, plain: bool = False) -> bytes:
    """`value` as bytes; numpy arrays and scalars (bool, int, float) become tagged or plain values.

    `plain`: the caller made sure that it is plain data and arrays, with text for keys and finite numbers, so nobody
    looks again.
    Raises TypeError on anything that is not plain data, ValueError on NaN or infinity outside an array.
    """
    if encoding == JSON:
        return json.dumps(value, default=_encode, allow_nan=False, separators=(",", ":")).encode()
    import msgpack  # noqa: PLC0415  where only JSON is spoken it may be missing

    value = value if plain else _packable(value)
    # The usual 256 kB to begin with take longer to get, at every act, than all the writing.
    packed: bytes = msgpack.packb(value, default=_tagged, unicode_errors="surrogatepass", buf_size=_BUFFER_BYTES)
    return packed


def joined(parts: Mapping[str, bytes], encoding: str) -> bytes:
    """The object of these members, each written by `dumps` already."""
    if encoding == JSON:
        return b"{" + b",".join(b'"' + name.encode() + b'":' + part for name, part in parts.items()) + b"}"
    return b"".join([_map_head(len(parts)), *(half for name in parts for half in (_packed_name(name), parts[name]))])


def are_floats(value: Any) -> TypeGuard[list[float]]:
    """Whether it is a list of finite floats alone, which long lists nearly always are: told without a look at each.

    False where a sum of them would be infinite, too: who wants to know then looks at each.
    """
    if type(value) is not list or not value or type(value[0]) is not float:
        return False
    return len(set(map(type, value))) == 1 and math.isfinite(sum(value))


def loads(body: bytes | str) -> Any:
    """The value `dumps` wrote as JSON; raises ValueError on malformed JSON or a malformed array."""
    return json.loads(body, object_hook=_decode)


def parse(body: bytes | memoryview, encoding: str = JSON) -> Any:
    """The plain value of bytes that nobody vouches for, its arrays still tagged.

    Raises ValueError on malformed bytes, NaN or infinity, too many levels, and on what only MessagePack can say: raw
    bytes that are neither a frame's `data` nor an array's, extension types, keys that are no text.
    """
    try:
        value = json.loads(bytes(body), parse_constant=_no_constant) if encoding == JSON else unpack(body)
        _check(value, 0)
    except RecursionError:
        raise ValueError(f"it nests more than {_MOST_LEVELS} levels") from None
    except MemoryError:
        raise ValueError("it claims more memory than there is") from None
    return value


def unpack(body: bytes | memoryview) -> Any:
    """What MessagePack says, held only to what it may claim of memory: for a line whose other end wrote it by `dumps`.

    Raises ValueError on malformed bytes.
    """
    import msgpack  # noqa: PLC0415  as above

    left = [_MOST_VALUES]

    def counted(made: Any) -> Any:
        left[0] -= 1 + len(made)
        if left[0] < 0:
            raise ValueError(f"it holds more than {_MOST_VALUES} values; send arrays as __nd__")
        return made

    most = min(len(body), _MOST_ITEMS)
    # A value takes a byte at least, and is counted twice at most: in itself and in what holds it.
    hook = counted if 2 * len(body) > _MOST_VALUES else None
    try:
        return msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=True,
            unicode_errors="surrogatepass",
            max_ext_len=0,
            ext_hook=_no_extension,
            max_array_len=most,
            max_map_len=most,
            object_hook=hook,
            list_hook=hook,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as wrong:
        raise ValueError(str(wrong) or type(wrong).__name__) from None


def decode(value: Any) -> Any:
    """A parsed value with its tagged arrays made arrays; raises ValueError on a malformed one."""
    if isinstance(value, dict):
        return _decode(value) if "__nd__" in value else {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return value if are_floats(value) else [decode(item) for item in value]
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
    return _numpy_value(value, lambda raw: base64.b64encode(raw).decode())


def _tagged(value: Any) -> Any:
    return _numpy_value(value, bytes)


def _numpy_value(value: Any, write: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.generic):
            return value.item()
        if isinstance(value, numpy.ndarray) and value.dtype.kind in _KINDS:
            little = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            return {"__nd__": [little.dtype.str, list(value.shape), write(little.tobytes())]}
    raise TypeError(
        f"a {type(value).__name__} cannot cross the wire; send numbers, strings, lists, dicts or numeric arrays"
    )


def _decode(item: dict[str, Any]) -> Any:
    if set(item) != {"__nd__"}:
        return item
    import numpy as np  # noqa: PLC0415  importing the contract must not load numpy

    try:
        dtype, shape, data = item["__nd__"]
        if not (isinstance(dtype, str) and _DTYPE.fullmatch(dtype)):
            raise ValueError(f"dtype {dtype!r} is not numeric")
        raw = data if isinstance(data, bytes) else base64.b64decode(data, validate=True)
        return np.frombuffer(raw, dtype=np.dtype(dtype)).reshape(shape).copy()
    except (TypeError, ValueError, OverflowError) as wrong:
        raise ValueError(f"malformed array: {wrong}") from wrong


class _Raw(bytes):
    """An array's bytes on their way into MessagePack; bytes of a caller's own are refused, as JSON refuses them."""


@functools.cache
def _map_head(members: int) -> bytes:
    import msgpack  # noqa: PLC0415  as above

    head: bytes = msgpack.Packer().pack_map_header(members)
    return head


@functools.cache
def _packed_name(name: str) -> bytes:
    """For names of our own, of which there are few."""
    return dumps(name, MSGPACK)


def _packable(value: Any) -> Any:
    """What MessagePack is to write so that it reads as the JSON of `value` would."""
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _no_constant(str(value))
    if isinstance(value, (list, tuple)):
        return value if are_floats(value) else [_packable(item) for item in value]
    if isinstance(value, dict):
        return {
            key if type(key) is str else key_text(key): item if type(item) in _SCALARS else _packable(item)
            for key, item in value.items()
        }
    if isinstance(value, _Raw):
        return bytes(value)
    return _packable(_numpy_value(value, _Raw))


def key_text(key: Any) -> str:
    """A key as JSON writes it: always text. Raises TypeError on what cannot be one, ValueError on NaN or infinity."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key, allow_nan=False)
    raise TypeError(f"keys must be str, int, float, bool or None, not {type(key).__name__}")


def _no_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code} is no plain data")


def _check(value: Any, level: int) -> None:
    kind = type(value)
    if kind is float and not math.isfinite(value):
        _no_constant(str(value))
    if kind is bytes:
        raise ValueError("raw bytes may only be a frame's data or an array's")
    if kind is not list and kind is not dict:
        return
    if level == _MOST_LEVELS:
        raise RecursionError
    if kind is list:
        for item in () if are_floats(value) else value:
            _check(item, level + 1)
        return
    for name, item in value.items():
        if type(name) is not str:
            raise ValueError(f"the key {name!r} is no text")
        if type(item) in _SCALARS or (type(item) is bytes and name == "data" and "view" in value):
            continue
        _check(item[:2] if name == "__nd__" and _holds_raw(value) else item, level + 1)


def _holds_raw(value: dict[str, Any]) -> bool:
    array = value["__nd__"]
    return len(value) == 1 and type(array) is list and len(array) == 3 and type(array[2]) is bytes


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
