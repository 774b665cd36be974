"""`seq.adapter_source`: a registered adapter's file, exactly as it was registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seq._writing import writing
from seq.api import Api, connect, named
from seq.contract.adapters import content_hash
from sequence_ai import InternalError, InvalidRequest


def adapter_source(
    name: str,
    version: int | None = None,
    *,
    path: str | Path | None = None,
    force: bool = False,
    api_key: str | None = None,
    base_url: str | None = None,
) -> str:
    """The text of an adapter's version (the newest unless given), checked by its hash, and written to `path` if given.

    Raises InvalidRequest when `path` cannot be written, or a different file lies there and `force` is not set.
    """
    with connect(api_key, base_url) as api:
        found = fetch(api, name, version)
    if path is not None:
        write(Path(path), found["source"], force=force)
    return str(found["source"])


def fetch(api: Api, name: str, version: int | None) -> dict[str, Any]:
    """`{name, version, class_name, handler_ref, source, sha256}`; raises InternalError when the text was changed."""
    found = api.get(f"/v1/adapters/{named(name)}/source", version=version)
    if content_hash(found["class_name"], found["source"]) != found["sha256"]:
        raise InternalError(
            f"the source of {name}@v{found['version']} is not what its sha256 says: nothing was written",
            code="internal",
        )
    return found


def write(path: Path, source: str, *, force: bool) -> None:
    """Write `source` byte for byte; a different file there stays unless `force`."""
    data = source.encode()
    with writing(path):
        if path.exists() and not force and path.read_bytes() != data:
            raise InvalidRequest(
                f"{path} exists and is different; it was left as it is",
                code="invalid_request",
                hint="--force replaces it",
            )
        path.write_bytes(data)
