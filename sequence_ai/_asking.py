"""One question to the gateway, asked on a connection of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sequence_ai._credentials import Credentials, resolve
from sequence_ai._errors import InvalidRequest
from sequence_ai._transport import Link, current_edge

TIMEOUT_S = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}")


@contextmanager
def gateway(credentials: Credentials) -> Iterator[Link]:
    """A link to the gateway until the block ends."""
    link = current_edge().open(credentials.base_url, credentials.api_key)
    try:
        yield link
    finally:
        link.close()


def read(
    path: str,
    api_key: str | None,
    base_url: str | None,
    *,
    key_needed: bool = True,
    query: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The JSON object at `path`. Raises AuthError when a key is needed and there is none."""
    with gateway(resolve(api_key, base_url, key_needed=key_needed)) as link:
        return link.resend_if_dropped("GET", path, query=query, timeout_s=TIMEOUT_S).body


def in_path(name: Any) -> str:
    """`name` as one part of a URL path. Raises InvalidRequest, before anything is sent, on what no object is named."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a name: it begins with a letter or digit, then come letters, digits and . _ - : ~, at "
            "most 128 in all",
            code="invalid_request",
        )
    return name


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a value that is neither None nor one of the known words."""
    if value is not None and value not in known:
        raise InvalidRequest(f"{name} is {value!r}: give one of {list(known)}", code="invalid_request")


def checked_timeout(timeout_s: float | None, usual_s: float) -> float:
    """`timeout_s`, or `usual_s` where it is None. Raises InvalidRequest when it is not above 0."""
    if timeout_s is None:
        return usual_s
    if not timeout_s > 0:
        raise InvalidRequest(f"timeout_s is {timeout_s!r}: it must be above 0", code="invalid_request")
    return timeout_s
