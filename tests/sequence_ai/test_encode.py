"""Camera frames on their way to the wire and back."""

import base64
import builtins
import io
import pickle

import numpy as np
import pytest
from PIL import Image

from sequence_ai import ImageFrame, InvalidRequest, encode
from sequence_ai._encode import encode_depth


def test_red_stays_red():
    """An RGB array arrives as RGB: the left half red, the right half blue."""
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[:, :32, 0] = pixels[:, 32:, 2] = 255
    seen = ImageFrame("wrist", encode(pixels)).array()
    assert seen.shape == (48, 64, 3)
    assert seen.dtype == np.uint8
    assert seen[24, 8].argmax() == 0
    assert seen[24, 56].argmax() == 2


def test_the_long_edge_is_capped_and_the_aspect_kept():
    """A frame is scaled to 640 px on its long edge, and never enlarged."""
    assert ImageFrame("v", encode(np.zeros((720, 1280, 3), np.uint8))).array().shape == (360, 640, 3)
    assert ImageFrame("v", encode(np.zeros((10, 20, 3), np.uint8))).array().shape == (10, 20, 3)


def test_frames_travel_as_jpeg_of_the_asked_quality():
    """The bytes are a JPEG, smaller at a lower quality."""
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    best, poor = base64.b64decode(encode(noise)), base64.b64decode(encode(noise, quality=20))
    assert Image.open(io.BytesIO(best)).format == "JPEG"
    assert len(poor) < len(best)


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (8, 8, 4)])
def test_grey_and_rgba_become_rgb(shape):
    """Every usual kind of frame is sent as three channels."""
    assert ImageFrame("v", encode(np.full(shape, 200, np.uint8))).array().shape == (8, 8, 3)


def test_a_pillow_image_is_a_frame():
    """A PIL image is taken in any mode."""
    assert ImageFrame("v", encode(Image.new("P", (6, 4)))).array().shape == (4, 6, 3)


def test_what_is_encoded_already_passes_through():
    """Text is sent as it is, bytes only as base64."""
    assert encode("abcd") == "abcd"
    assert encode(b"\xff\xd8") == base64.b64encode(b"\xff\xd8").decode()


@pytest.mark.parametrize(
    "frame", [np.zeros((8, 8, 3)), np.zeros((3, 8, 8), np.uint8), np.zeros((0, 0, 3), np.uint8), [[1, 2]], None]
)
def test_what_is_no_frame_is_refused(frame):
    """Floats, channels first, empty arrays and lists are refused with what would be right."""
    with pytest.raises(InvalidRequest, match="give"):
        encode(frame)


def test_without_pillow_the_extra_is_named(monkeypatch):
    """A robot without Pillow is told which extra brings it, and may still send bytes."""
    real = builtins.__import__

    def without_pillow(name, *args, **kwargs):
        if name == "PIL":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(ImportError, match=r"sequence-ai\[image\]"):
        encode(np.zeros((8, 8, 3), np.uint8))
    assert encode(b"x") == "eA=="


def test_depth_is_exact_in_millimetres():
    """A depth map arrives to the millimetre; no reading is 0, far is clipped, metres and millimetres agree."""
    metres = np.array([[0.0, 1.234], [np.nan, 99.0]])
    for text in (encode_depth(metres), encode_depth(metres * 1000, unit="mm")):
        assert ImageFrame("v", text, kind="depth").array().tolist() == [[0, 1234], [0, 65535]]
    with pytest.raises(InvalidRequest, match="depth_unit"):
        encode_depth(metres, unit="cm")
    with pytest.raises(InvalidRequest, match="height, width"):
        encode_depth(np.zeros((2, 2, 1)))


def test_a_frame_is_one_value_in_three_forms():
    """A frame made from bytes or from text has the same text, bytes and identity, survives pickling, and is frozen."""
    raw = base64.b64decode(encode(np.zeros((4, 4, 3), np.uint8)))
    from_bytes, from_text = ImageFrame("v", raw, 5), ImageFrame("v", base64.b64encode(raw).decode(), 5)
    assert from_bytes == from_text == pickle.loads(pickle.dumps(from_bytes)) == pickle.loads(pickle.dumps(from_text))
    fresh = ImageFrame("v", raw, 5), ImageFrame("v", base64.b64encode(raw).decode(), 5)
    assert [pickle.loads(pickle.dumps(frame)).has_bytes for frame in fresh] == [
        True,
        False,
    ]  # as given: nothing is made
    assert hash(from_bytes) == hash(from_text)
    assert (from_bytes.data, from_text.bytes) == (from_text.data, raw)
    assert from_bytes != ImageFrame("w", raw, 5)
    assert from_text.data not in repr(from_text)
    with pytest.raises(AttributeError):
        from_bytes.view = "other"


def test_a_frame_that_is_no_image_says_whose_it_is():
    """Text that is not base64, or bytes that are no image, are told with the camera's name."""
    with pytest.raises(ValueError, match="'wrist' is not base64"):
        _ = ImageFrame("wrist", "%%%").bytes
    with pytest.raises(ValueError, match="'wrist' is not a JPEG or PNG"):
        ImageFrame("wrist", b"no image").array()
