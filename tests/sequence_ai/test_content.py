"""Blocks of a chat message: pictures and cached text (sdk.md 9)."""

import base64

import numpy as np
import pytest
from PIL import Image

from sequence_ai import InvalidRequest, cached, image

HEADS = {
    "png": b"\x89PNG\r\n\x1a\nrest",
    "jpeg": b"\xff\xd8\xff\xe0rest",
    "gif": b"GIF89arest",
    "webp": b"RIFF\x00\x00\x00\x00WEBPrest",
}


def uri(kind, raw):
    """The inline form of these bytes."""
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_encoded_pictures_travel_untouched(tmp_path, kind):
    """Bytes, a path, its text, base64 text and a data URI all become the same block, whatever the file is called."""
    raw = HEADS[kind]
    path = tmp_path / "picture.bin"
    path.write_bytes(raw)
    text = base64.b64encode(raw).decode()
    wrong_type = uri(kind, raw).replace(kind, "x")
    expected = {"type": "image_url", "image_url": {"url": uri(kind, raw)}}
    for source in (raw, bytearray(raw), path, str(path), text, f"{text[:8]}\n{text[8:]}", uri(kind, raw), wrong_type):
        assert image(source) == expected


def test_base64_that_looks_like_a_path_is_a_picture():
    """A JPEG's base64 begins with a slash, and is not taken for a file."""
    text = base64.b64encode(HEADS["jpeg"]).decode()
    assert text.startswith("/")
    assert image(text)["image_url"]["url"] == uri("jpeg", HEADS["jpeg"])


@pytest.mark.parametrize("source", [np.zeros((4, 6, 3), np.uint8), Image.new("RGBA", (6, 4))])
def test_pixels_are_encoded(source):
    """An array and a PIL image become a JPEG of their size."""
    url = image(source)["image_url"]["url"]
    assert url.startswith("data:image/jpeg;base64,")
    raw = base64.b64decode(url.partition(",")[2])
    assert raw.startswith(b"\xff\xd8\xff")


def test_detail_is_passed_on():
    """`detail` stands in the block only when it is given."""
    assert image(HEADS["png"], detail="low")["image_url"]["detail"] == "low"
    assert "detail" not in image(HEADS["png"])["image_url"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (b"BM-a-bitmap", "no image"),
        (b"", "no image"),
        ("https://example.org/cup.png", "not fetched"),
        ("data:image/png,plain", "data URI"),
        ("data:text/plain;base64,aGVsbG8=", "no image"),
        ("no/such/cup.png", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        ("nul\x00", "cannot be read"),
        (7, "frame"),
        (np.zeros((4, 6, 3), float), "float64"),
    ],
)
def test_what_is_no_picture_is_refused(source, told):
    """Anything else is InvalidRequest and says what would be right; long input is not repeated whole."""
    with pytest.raises(InvalidRequest, match=told) as refused:
        image(source)
    assert len(str(refused.value)) < 400


def test_a_folder_and_a_text_file_are_no_pictures(tmp_path):
    """A path is read, and what it holds decides."""
    (tmp_path / "cup.png").write_text("hello")
    for path in (tmp_path, tmp_path / "cup.png"):
        with pytest.raises(InvalidRequest, match="PNG, JPEG, WebP or GIF"):
            image(path)


def test_cached_text_carries_the_marker():
    """The marker's time to live is sent only when one is given."""
    assert cached("rules") == {"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}
    assert cached("rules", ttl="1h")["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert cached("rules", ttl="5m")["cache_control"]["ttl"] == "5m"


def test_cached_refuses_another_time_and_what_is_no_text():
    """Only 5m and 1h are times; only text can be cached."""
    with pytest.raises(InvalidRequest, match="5m"):
        cached("rules", ttl="2h")
    with pytest.raises(InvalidRequest, match="text"):
        cached("")
