"""JSON and MessagePack carry the same values, and both ends read and write each alike.

The golden bodies `*.msgpack` hold what the `*.json` of the same name holds, with images and arrays as raw bytes.
"""

import base64
import contextlib
import json
import math
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seq.contract import codec
from sequence_ai import ImageFrame, InvalidRequest, Observation, Proprioception, _codec, _wire

GOLDEN = Path(__file__).parent / "golden"
ENCODINGS = [codec.JSON, codec.MSGPACK]
both_encodings = pytest.mark.parametrize("encoding", ENCODINGS)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
).filter(lambda value: "__nd__" not in repr(value))
numeric = arrays.arrays(
    st.sampled_from(["bool", "int8", "uint16", "int64", "float16", "float32", "float64", ">f4", ">i2"]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


def same(one, other):
    """Equal to the bit, numbers by kind too: what `infer` and an eval's table see."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.tobytes() == other.tobytes() and one.shape == other.shape
    if isinstance(one, (list, dict)):
        items = zip(one.items(), other.items(), strict=True) if isinstance(one, dict) else zip(one, other, strict=True)
        return type(one) is type(other) and all(
            (a[0] == b[0] and same(a[1], b[1])) if isinstance(one, dict) else same(a, b) for a, b in items
        )
    return type(one) is type(other) and (one, str(one)) == (other, str(other))


@both_encodings
@given(value=plain)
def test_plain_values_survive_from_the_client_to_the_worker(encoding, value):
    """What a client writes is what a worker reads, in either encoding."""
    assert same(codec.decode(codec.parse(_codec.dumps(value, encoding), encoding)), value)


@both_encodings
@given(value=plain)
def test_plain_values_survive_from_the_worker_to_the_client(encoding, value):
    """What a worker writes is what a client reads, in either encoding."""
    assert same(_codec.loads(codec.dumps(value, encoding), codec.CONTENT_TYPES[encoding]), value)


@both_encodings
@given(array=numeric)
def test_arrays_survive_with_their_type_and_shape(encoding, array):
    """An array, NaN and infinity in it too, arrives bit for bit, little-endian and writable, both ways."""
    little = array.astype(array.dtype.newbyteorder("<"))
    for written, read in (
        (_codec.dumps({"a": [array]}, encoding), lambda raw: codec.decode(codec.parse(raw, encoding))),
        (
            codec.dumps({"a": [array]}, encoding),
            lambda raw: _codec.loads(raw, codec.CONTENT_TYPES[encoding]),
        ),
    ):
        arrived = read(written)["a"][0]
        assert same(arrived, little)
        assert arrived.dtype == little.dtype
        assert arrived.flags.writeable


@both_encodings
def test_unusual_values_are_written_alike(encoding):
    """Tuples, numpy scalars and keys that are no text are what JSON makes of them, in either encoding."""
    value = {1: (np.float32(0.5), np.int16(3)), None: np.bool_(True), 2.5: {True: "x"}}
    wanted = {"1": [0.5, 3], "null": True, "2.5": {"true": "x"}}
    assert codec.parse(_codec.dumps(value, encoding), encoding) == wanted
    assert codec.parse(codec.dumps(value, encoding), encoding) == wanted


@both_encodings
@pytest.mark.parametrize(
    "value", [math.nan, [math.inf], {"a": -math.inf}, np.float64("nan"), b"raw", {"a": {1, 2}}, {(1,): 2}, 1j]
)
def test_what_is_no_plain_data_is_not_written(encoding, value):
    """NaN, infinity, bytes, sets and objects are refused by both sides, in either encoding."""
    with pytest.raises(InvalidRequest, match="cannot be sent"):
        _codec.dumps(value, encoding)
    with pytest.raises((TypeError, ValueError)):
        codec.dumps(value, encoding)


@both_encodings
def test_a_golden_act_is_written_alike(encoding):
    """An observation is sent as exactly the golden act of that encoding, and read to the same values."""
    body = json.loads((GOLDEN / "act_request_robot_arm.json").read_text())
    seen = body["observation"]
    for as_bytes in (False, True):
        frames = [frame | ({"data": base64.b64decode(frame["data"])} if as_bytes else {}) for frame in seen["images"]]
        observation = Observation(
            [ImageFrame(**frame) for frame in frames],
            Proprioception(**seen["proprioception"]),
            seen["instruction"],
            seen["state"],
        )
        sent = {**body, "observation": _wire.observation_body(observation, encoding)}
        assert codec.parse(_wire.dumps(sent, encoding), encoding) == golden("act_request_robot_arm", encoding)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.msgpack")), ids=lambda path: path.stem)
def test_golden_bodies_hold_the_same_in_either_encoding(path):
    """Every MessagePack body is read by both sides to what the JSON beside it says."""
    raw, text = path.read_bytes(), path.with_suffix(".json").read_bytes()
    assert as_json(codec.parse(raw, "msgpack")) == json.loads(text)
    assert same(codec.decode(with_text(codec.parse(raw, "msgpack"))), codec.loads(text))
    assert same(with_text(_codec.loads(raw, "application/msgpack")), _codec.loads(text))


@both_encodings
def test_a_golden_act_with_an_array_is_written_alike(encoding):
    """Both sides write an opaque act, an array in it, as the golden one."""
    value = codec.loads((GOLDEN / "act_request_opaque.json").read_bytes())
    for written in (_codec.dumps(value, encoding), codec.dumps(value, encoding)):
        assert codec.parse(written, encoding) == golden("act_request_opaque", encoding)


@settings(max_examples=300)
@given(raw=st.binary(max_size=200))
def test_no_bytes_crash_a_reader(raw):
    """Whatever arrives is read as plain data or refused with a ValueError, by both sides."""
    for read in (
        lambda: codec.decode(codec.parse(raw, "msgpack")),
        lambda: codec.decode(codec.parse(raw, "json")),
        lambda: _codec.loads(raw, "application/msgpack"),
        lambda: _codec.loads(raw),
    ):
        with contextlib.suppress(ValueError):
            read()


@pytest.mark.parametrize(
    "raw",
    [
        b"\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\xd4\x05a",  # an extension
        b"\xc7\x00\x05",  # an empty one
        b"\x81\x01\x02",  # a key that is a number
        b"\xdd\xff\xff\xff\xff",  # four billion items claimed
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 5000,  # nesting
        b"\xc1",
        b"\x01\x02",  # more than one value
        b"\x80\x04\x95\x10",  # the head of a pickle
    ],
)
def test_crafted_messages_are_refused(raw):
    """Extensions, keys that are no text, claims and nesting beyond the limits are a ValueError on both sides."""
    with pytest.raises(ValueError, match=r"."):
        codec.parse(raw, "msgpack")
    with pytest.raises(ValueError, match=r"."):
        _codec.loads(raw, "application/msgpack")


@both_encodings
@pytest.mark.parametrize("at", [0, 1, 7])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, b"raw"])
def test_one_bad_item_in_a_list_of_numbers_is_found(encoding, at, bad):
    """Wherever it stands, and on the way in as on the way out."""
    numbers = [0.5] * 8
    numbers[at] = bad
    with pytest.raises((TypeError, ValueError)):
        codec.dumps({"a": numbers}, encoding)
    raw = msgpack.packb({"a": numbers}) if encoding == "msgpack" else json.dumps({"a": numbers}, default=str).encode()
    if bad != b"raw" or encoding == "msgpack":
        with pytest.raises(ValueError, match=r"."):
            codec.parse(raw, encoding)


@both_encodings
def test_numbers_whose_sum_is_infinite_are_finite(encoding):
    """What is looked at together is not mistaken for what it adds up to."""
    value = {"a": [1.7e308, 1.7e308], "b": [-1.7e308, -1.7e308, 1.0]}
    assert codec.parse(codec.dumps(value, encoding), encoding) == value


@pytest.mark.parametrize(("lists", "taken"), [(3, True), (5, False)])
def test_a_body_may_hold_so_many_values_and_no_more(lists, taken):
    """A body of few bytes that makes more values than four million is refused while it is read."""
    raw = bytes([0x90 | lists]) + (b"\xdd" + (1 << 20).to_bytes(4, "big") + b"\xc0" * (1 << 20)) * lists
    if taken:
        assert codec.parse(raw, "msgpack") == [[None] * (1 << 20)] * lists
    else:
        with pytest.raises(ValueError, match="more than 4194304 values"):
            codec.parse(raw, "msgpack")


def test_what_is_known_to_be_plain_is_written_alike():
    """Without a look at it the bytes are the same, in either encoding."""
    value = {"steps": [{"index": 0, "values": [0.5, -1.0]}], "robot": "r", "n": None, "ok": True}
    for encoding in ENCODINGS:
        assert codec.dumps(value, encoding, plain=True) == codec.dumps(value, encoding)


def golden(name, encoding):
    """The golden body as `codec.parse` reads it."""
    path = GOLDEN / (name + (".json" if encoding == "json" else ".msgpack"))
    return codec.parse(path.read_bytes(), encoding)


def as_json(value):
    """Raw bytes as the base64 they are in JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def with_text(value):
    """Frames' raw bytes as base64, arrays left alone."""
    if isinstance(value, dict) and "__nd__" not in value:
        return {
            key: as_json(item) if key == "data" and "view" in value else with_text(item) for key, item in value.items()
        }
    return [with_text(item) for item in value] if isinstance(value, list) else value
