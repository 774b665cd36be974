"""The code a declaration travels with: a deterministic gzip tar, checked by hash where it is unpacked."""

from __future__ import annotations

from typing import Literal

from seq.contract._model import Strict

MAX_BUNDLE_BYTES = 8 * 1024 * 1024
MAX_RAW_BYTES = 64 * 1024 * 1024


class CodeBundle(Strict):
    """`data` is base64 of a gzip tar of regular files; `sha256` is of the decoded gzip bytes."""

    format: Literal["tar.gz"] = "tar.gz"
    data: str
    sha256: str
