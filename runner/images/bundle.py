"""Code bundles: checked when they arrive, unpacked once by content."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Protocol

from runner.errors import Refused
from runner.settings import Settings
from seq.contract.code import MAX_BUNDLE_BYTES, MAX_RAW_BYTES, CodeBundle

MAX_FILES = 10_000


class Reads(Protocol):
    """What unpacking asks of the blobs."""

    def get(self, key: str) -> bytes:
        """The bytes under a key."""


def blob_key(sha256: str) -> str:
    """Where a bundle lies among the blobs."""
    return f"bundles/{sha256}.tar.gz"


def check_bundle(bundle: CodeBundle) -> bytes:
    """The bundle's bytes, once hash, sizes and every member hold; raises Refused otherwise."""
    data = _decoded(bundle)
    if len(data) > MAX_BUNDLE_BYTES:
        raise Refused(
            "payload_too_large",
            f"the code bundle has {len(data)} bytes compressed; at most {MAX_BUNDLE_BYTES} are taken",
            hint="weights and data go into a volume, never into the code",
        )
    if hashlib.sha256(data).hexdigest() != bundle.sha256.lower():
        raise Refused(
            "invalid_request", "code.sha256 is not the hash of code.data: the bundle was damaged; send it again"
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            _check_members(archive)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise Refused("invalid_request", f"code.data is not a gzip tar: {error}") from None
    return data


def _decoded(bundle: CodeBundle) -> bytes:
    try:
        return base64.b64decode(bundle.data, validate=True)
    except binascii.Error as error:
        raise Refused("invalid_request", f"code.data is not base64: {error}") from None


def _check_members(archive: tarfile.TarFile) -> None:
    total = 0
    for count, member in enumerate(archive, start=1):
        path = PurePosixPath(member.name)
        if not (member.isreg() or member.isdir()):
            raise Refused("invalid_request", f"the code bundle holds {member.name!r}, which is not a regular file")
        if path.is_absolute() or ".." in path.parts or "\\" in member.name:
            raise Refused("invalid_request", f"the code bundle holds {member.name!r}, which lies outside of it")
        total += member.size
        if total > MAX_RAW_BYTES or count > MAX_FILES:
            raise Refused(
                "payload_too_large",
                f"the code bundle unpacks to more than {MAX_RAW_BYTES} bytes or {MAX_FILES} files",
            )


def unpack(settings: Settings, blobs: Reads, sha256: str | None) -> Path:
    """The folder with the bundle's files, unpacked on first use; without a bundle (installed code) an empty folder."""
    target = settings.code / (sha256 or "none")
    if target.is_dir():
        return target
    settings.code.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=settings.code))
    try:
        if sha256 is not None:
            _extract(blobs.get(blob_key(sha256)), scratch)
        scratch.chmod(0o755)
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # another thread may have been first, which is as good
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _extract(data: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        _check_members(archive)
        archive.extractall(folder, filter="data")
