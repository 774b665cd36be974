"""Telling a webhook: JSON, signed, to https, or to plain http on the platform's own machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from typing import Any

import httpx

from runner.errors import Refused

LIMIT_S = 10.0
SIGNATURE = "X-Seq-Signature"


def check(url: str) -> None:
    """Raise Refused for an address that nothing may be posted to."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as wrong:
        raise Refused("invalid_request", f"the webhook {url!r} is no address: {wrong}") from None
    if not address.host or (address.scheme != "https" and not (address.scheme == "http" and _is_here(address.host))):
        raise Refused("invalid_request", f"the webhook {url!r} must be an https address (http only on this machine)")
    if address.userinfo:
        raise Refused("invalid_request", "a webhook's address must not hold a password; check its signature instead")


def post(url: str, secret: str, body: dict[str, Any]) -> str | None:
    """Post it once; why it was not taken, None where it was.

    The header X-Seq-Signature is `sha256=` and the hex HMAC-SHA256 of the body under the secret.
    """
    content = json.dumps(body).encode()
    signature = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", SIGNATURE: f"sha256={signature}"}
    try:
        answer = httpx.post(url, content=content, headers=headers, timeout=LIMIT_S, follow_redirects=False)
    except httpx.HTTPError as failed:
        return f"{type(failed).__name__}: {failed}"
    return None if answer.is_success else f"it answered {answer.status_code}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
