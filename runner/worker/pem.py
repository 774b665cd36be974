"""A worker's certificate and key as files, for as long as it takes to read them: TLS takes them in no other way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def files(cert: str, key: str) -> Iterator[tuple[str, str]]:
    """Owner-only files with the certificate and the key; gone after the block."""
    with tempfile.TemporaryDirectory(prefix="seq-") as folder:
        yield _private(folder, "cert.pem", cert), _private(folder, "key.pem", key)


def _private(folder: str, name: str, text: str) -> str:
    path = Path(folder) / name
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return str(path)
