"""Keys and accounts, as their owner sees them: a key's text is shown once, at creation."""

from __future__ import annotations

from typing import Literal

from seq.contract._model import Strict
from seq.contract.names import DeploymentName


class KeyRequest(Strict):
    """`POST /v1/keys`: a full key, an act key of `deployment`, or (first account only) another account's first key."""

    name: str = ""
    deployment: str | None = None
    account: DeploymentName | None = None


class KeyRow(Strict):
    """A key as listed: `key` is its shown form, `prefix…last4`."""

    id: str
    name: str
    key: str
    kind: Literal["full", "act"]
    deployment: str | None = None
    created_at: str


class KeyCreated(KeyRow):
    """The answer to a creation: the only time `secret`, the whole key, is shown."""

    secret: str
    account: str
