"""Files of the platform by key, in a folder or an object store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fsspec.core import url_to_fs


class Blobs:
    """Bytes under keys such as `bundles/<sha256>.tar.gz`, below one fsspec URL.

    A key is one or more names with `/` between them; anything else raises ValueError.
    """

    def __init__(self, url: str) -> None:
        self._files, self._root = url_to_fs(url)
        self._local = "file" in self._protocols()

    def put(self, key: str, data: bytes) -> None:
        """Keep `data`; a reader sees all of it or what was there before."""
        path = self._path(key)
        if self._local:
            _replace(Path(path), data)
        else:
            self._files.pipe_file(path, data)

    def get(self, key: str) -> bytes:
        """What was put; raises FileNotFoundError."""
        content: bytes = self._files.cat_file(self._path(key))
        return content

    def exists(self, key: str) -> bool:
        """Whether something lies under exactly this key."""
        return bool(self._files.isfile(self._path(key)))

    def size(self, prefix: str) -> int:
        """Bytes under a key or below it; 0 where there is nothing."""
        path = self._path(prefix)
        return int(self._files.du(path)) if self._files.exists(path) else 0

    def folder(self, key: str) -> Path:
        """A directory that processes write into, made on demand; raises ValueError where blobs are no local files."""
        if not self._local:
            raise ValueError(f"blobs at {self._root} are no local folder; processes cannot write into {key!r}")
        path = Path(self._path(key))
        path.mkdir(parents=True, exist_ok=True)
        return path

    def delete(self, prefix: str) -> None:
        """Remove what lies under a key and below it; nothing there is not an error."""
        path = self._path(prefix)
        if self._files.exists(path):
            self._files.rm(path, recursive=True)

    def _path(self, key: str) -> str:
        if any(part in {"", ".", ".."} for part in key.split("/")):
            raise ValueError(f"{key!r} is no blob key; a key is names with / between them")
        return f"{self._root}/{key}"

    def _protocols(self) -> tuple[str, ...]:
        protocol = self._files.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".put-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
