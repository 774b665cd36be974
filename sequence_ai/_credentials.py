"""Which gateway to talk to, and with which key."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sequence_ai._errors import AuthError, InvalidRequest, SequencesError

DEFAULT_BASE_URL = "https://api.generalsequences.com"


@dataclass(frozen=True)
class Credentials:
    """A gateway's address without a trailing slash, and the key for it (None only where none is needed)."""

    base_url: str
    api_key: str | None = field(repr=False)


def resolve(
    api_key: str | None,
    base_url: str | None,
    *,
    key_needed: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Credentials:
    """The argument, else SEQUENCES_API_KEY / SEQUENCES_BASE_URL, else the local platform's own files under SEQ_HOME.

    The local key is used only when the address comes from there too: a key never goes to an address it was not made
    for. Raises AuthError when a key is needed and there is none, InvalidRequest on an address that is not one.
    """
    env = os.environ if environ is None else environ
    key = _clean(api_key or env.get("SEQUENCES_API_KEY"))
    address = base_url or env.get("SEQUENCES_BASE_URL", "").strip()
    if address:
        return _checked(address, key, key_needed, "set SEQUENCES_API_KEY (or api_key=) to a key of that platform")
    home = Path(env.get("SEQ_HOME") or "~/.sequence-ai").expanduser()
    local = _local_address(home)
    if local is not None:
        return _checked(local, key or _local_key(home), key_needed, "`seq up` writes it anew; or set SEQUENCES_API_KEY")
    remedy = "start a platform on this machine with `seq up`, or set SEQUENCES_API_KEY and SEQUENCES_BASE_URL"
    return _checked(DEFAULT_BASE_URL, key, key_needed, remedy)


def _checked(address: str, key: str | None, key_needed: bool, remedy: str) -> Credentials:
    if address == "mock" or address.startswith("mock:"):
        raise InvalidRequest(
            f"base_url {address!r} asks for an offline platform, which this client does not have: "
            "start a real one on this machine with `seq up`, or test with sequence_ai.testing.FakePlatform"
        )
    if not address.startswith(("http://", "https://")):
        raise InvalidRequest(f"base_url {address!r} is not an address: it must begin with http:// or https://")
    if key is None and key_needed:
        raise AuthError(f"there is no API key for {address}: {remedy}", code="unauthenticated")
    return Credentials(address.rstrip("/"), key)


def _clean(key: str | None) -> str | None:
    text = (key or "").strip()
    if not text.isascii() or not text.isprintable():
        raise AuthError("the API key holds characters that no key has: copy it again", code="unauthenticated")
    return text or None


def _local_address(home: Path) -> str | None:
    path = home / "platform.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as wrong:
        raise SequencesError(f"{path} cannot be read ({wrong}): `seq up` writes it anew") from wrong
    address = found.get("url") if isinstance(found, dict) else None
    if not isinstance(address, str) or not address:
        raise SequencesError(f"{path} names no url: `seq up` writes it anew")
    return address


def _local_key(home: Path) -> str | None:
    path = home / "api_key"
    try:
        return _clean(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as wrong:
        raise AuthError(f"{path} cannot be read ({wrong}): it belongs to the user who ran `seq up`") from wrong
