"""Parts of a chat message beside plain text: pictures, and text to be kept in the provider's cache."""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path
from typing import Any

from sequence_ai._asking import one_of
from sequence_ai._encode import encode
from sequence_ai._errors import InvalidRequest

_TTLS = ("5m", "1h")
_DATA_URI = re.compile(r"data:[^,]*;base64,", re.IGNORECASE)
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))
_WANTED = "give a PNG, JPEG, WebP or GIF as a path, bytes, base64 text or a data URI, or a PIL image or uint8 array"


def image(source: Any, *, detail: str | None = None) -> dict[str, Any]:
    """An image block of a chat message, its bytes inline: nothing is fetched by anybody.

    `source` is a path, encoded bytes, base64 text, a `data:` URI, a PIL image or a uint8 RGB array; the last two are
    encoded as a camera frame is (`encode`: JPEG, long edge at most 640 px), all others travel untouched. `detail` is
    passed on to the model ("low", "high", "auto"). Raises InvalidRequest on what is no PNG, JPEG, WebP or GIF.
    """
    raw = _bytes_of(source)
    kind = _kind(raw)
    if kind is None:
        raise _no_image("these bytes are no image that a model reads")
    url = f"data:image/{kind};base64,{base64.b64encode(raw).decode('ascii')}"
    block: dict[str, Any] = {"url": url}
    if detail is not None:
        block["detail"] = detail
    return {"type": "image_url", "image_url": block}


def cached(text: str, *, ttl: str | None = None) -> dict[str, Any]:
    """A text block up to which the provider keeps the prompt, so that a later call with the same start costs less.

    `ttl` is "5m", "1h" or None for the provider's own. Raises InvalidRequest on another value and on empty text.
    """
    one_of("ttl", ttl, _TTLS)
    if not isinstance(text, str) or not text:
        raise InvalidRequest(f"cached() takes text, not {text!r}", code="invalid_request")
    marker = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
    return {"type": "text", "text": text, "cache_control": marker}


def _bytes_of(source: Any) -> bytes:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, os.PathLike):
        return _file(Path(source))
    if isinstance(source, str):
        return _text_bytes(source)
    return base64.b64decode(encode(source))


def _text_bytes(source: str) -> bytes:
    """Base64 or a data URI by what it decodes to, since base64 of a JPEG (`/9j/...`) looks like a path; else a file."""
    if source.startswith(("http://", "https://")):
        raise _no_image(f"{source[:80]!r} is a link, and links are not fetched")
    header = _DATA_URI.match(source)
    decoded = _decoded(source[header.end() :] if header else source)
    if decoded is not None and (header or _kind(decoded)):
        return decoded
    if source.startswith("data:"):
        raise _no_image(f"{source[:40]!r} is no data URI with base64 content")
    return _file(Path(source))


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):  # not base64: it may be a path
        return None


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as wrong:
        raise _no_image(f"{str(path)[:80]!r} cannot be read ({_reason(wrong)})") from wrong


def _reason(wrong: Exception) -> str:
    return (wrong.strerror if isinstance(wrong, OSError) else None) or str(wrong)


def _kind(raw: bytes) -> str | None:
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "webp"
    return next((kind for magic, kind in _MAGIC if raw.startswith(magic)), None)


def _no_image(what: str) -> InvalidRequest:
    return InvalidRequest(f"{what}: {_WANTED}", code="invalid_request")
