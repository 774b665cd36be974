"""Who is calling: the account key of a request, looked up by its hash."""

from __future__ import annotations

from dataclasses import dataclass

from runner.errors import Refused
from runner.store.db import Store
from runner.store.queries import accounts

_HINT = "`seq status --env` prints the address and key of the local platform"


@dataclass(frozen=True)
class Caller:
    """Whose request it is. `kind` is `full`, `act` (bound to `deployment_id`) or `eval` (an instance's, for `eval_id`).

    `first` tells the platform's first account, whose full keys may make other accounts.
    """

    account_id: str
    key_id: str
    kind: str
    deployment_id: str | None
    eval_id: str | None
    first: bool


def bearer(authorization: str | None) -> str:
    """The token of an Authorization header; refuses a missing or malformed one as `unauthenticated`."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Refused("unauthenticated", "the request has no `Authorization: Bearer <key>` header", hint=_HINT)
    return token.strip()


def identify(store: Store, authorization: str | None) -> Caller:
    """The caller a header names; refuses an unknown key as `unauthenticated`."""
    token = bearer(authorization)
    with store.read() as session:
        owned = accounts.key_owner(session, token)
    if owned is None:
        raise Refused("unauthenticated", "this platform does not know this key (removed, or another's)", hint=_HINT)
    key, account = owned
    return Caller(account.id, key.id, key.kind, key.deployment_id, key.eval_id, account.first)


def require_full(caller: Caller) -> Caller:
    """Refuse a key that is bound to one deployment or one eval."""
    if caller.kind != "full":
        raise Refused(
            "forbidden",
            f"this is an {caller.kind} key: it may connect to its own deployment and act there, nothing else",
            hint="use a full key of the account",
        )
    return caller
