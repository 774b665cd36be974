"""Accounts and keys. Keys are looked up, listed and removed by hash, id or name; their text is never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from runner.errors import Refused, no_such
from runner.store.tables import Account, Benchmark, Deployment, Key
from runner.vault import token_hash

KEY_PREFIX = "seq_live_"
LISTED_KINDS = ("full", "act")


@dataclass(frozen=True)
class NewKey:
    """A key about to be stored: a fresh id, its whole text (`seq_live_` + 43 characters) and what it opens."""

    id: str
    text: str
    name: str
    kind: str = "full"
    deployment_id: str | None = None
    eval_id: str | None = None


def shown(key: str) -> str:
    """The form a key is listed in: enough to tell it from others, too little to use it."""
    return f"{KEY_PREFIX}…{key[-4:]}"


def ensure_first(session: Session, key: str, *, account_id: str, key_id: str, now: float) -> Account:
    """The platform's first account, made when there is none, opened by `key` in any case.

    `account_id` and `key_id` are fresh ids, used for what has to be made.
    """
    account = session.scalar(select(Account).where(Account.first))
    if account is None:
        account = _add_account(session, account_id, "first", now, first=True)
    if session.scalar(select(Key.id).where(Key.hash == token_hash(key))) is None:
        add_key(session, account.id, NewKey(key_id, key, "local"), now)
    return account


def add_account(session: Session, account_id: str, name: str, now: float) -> Account:
    """Another account; a taken name is a conflict."""
    if session.scalar(select(Account.id).where(Account.name == name)) is not None:
        raise Refused("conflict", f"an account named {name!r} exists", hint="choose another name")
    return _add_account(session, account_id, name, now)


def add_key(session: Session, account_id: str, new: NewKey, now: float) -> Key:
    """A key of an account, stored hashed."""
    key = Key(
        id=new.id,
        account_id=account_id,
        name=new.name,
        kind=new.kind,
        hash=token_hash(new.text),
        shown=shown(new.text),
        deployment_id=new.deployment_id,
        eval_id=new.eval_id,
        created_at=now,
    )
    session.add(key)
    session.flush()
    return key


def key_owner(session: Session, key: str) -> tuple[Key, Account] | None:
    """The row of a key and the account it opens, or None for a key that does not exist."""
    query = select(Key, Account).join(Account, Key.account_id == Account.id).where(Key.hash == token_hash(key))
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def account_name(session: Session, account_id: str) -> str:
    """The name of an account that exists."""
    return session.scalars(select(Account.name).where(Account.id == account_id)).one()


def listed_keys(session: Session, account_id: str) -> Sequence[tuple[Key, str | None]]:
    """An account's full and act keys, oldest first, each with the name of the deployment it is bound to."""
    query = (
        select(Key, Deployment.name)
        .outerjoin(Deployment, Key.deployment_id == Deployment.id)
        .where(Key.account_id == account_id, Key.kind.in_(LISTED_KINDS))
        .order_by(Key.created_at, Key.id)
    )
    return [(key, deployment) for key, deployment in session.execute(query)]


def deployment_id(session: Session, account_id: str, name: str) -> str:
    """The id of an account's deployment; `not_found` names those there are."""
    rows = session.execute(select(Deployment.name, Deployment.id).where(Deployment.account_id == account_id))
    ids = {row[0]: row[1] for row in rows}
    if name not in ids:
        raise no_such("deployment", name, list(ids))
    return ids[name]


def remove_key(session: Session, account_id: str, ref: str, *, in_use: str) -> Key:
    """Remove the one key that `ref` means: an id, an id's start, a name or a shown form. Returns it as it was.

    Refused: none or several meant, the key `in_use` for this very request, an account's last full key.
    """
    # Locks the account where the database locks rows, so that two removals cannot each leave the other's key.
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    keys = [key for key, _ in listed_keys(session, account_id)]
    key = _meant(keys, ref)
    if key.id == in_use:
        raise Refused("conflict", "this is the key the request was made with", hint="remove it with another key")
    if key.kind == "full" and sum(other.kind == "full" for other in keys) == 1:
        raise Refused("conflict", "this is the account's last full key", hint="create another full key first")
    session.delete(key)
    return key


def count_things(session: Session, account_id: str) -> dict[str, int]:
    """How many policies and benchmarks an account has."""
    policies = select(func.count()).select_from(Deployment).where(Deployment.account_id == account_id)
    benchmarks = select(func.count()).select_from(Benchmark).where(Benchmark.account_id == account_id)
    return {
        "policies": session.scalars(policies).one(),
        "benchmarks": session.scalars(benchmarks).one(),
    }


def _add_account(session: Session, account_id: str, name: str, now: float, *, first: bool = False) -> Account:
    account = Account(id=account_id, name=name, first=first, created_at=now)
    session.add(account)
    session.flush()
    return account


def _meant(keys: list[Key], ref: str) -> Key:
    exact = [key for key in keys if ref == key.id]
    meant = exact or [key for key in keys if ref in {key.name, key.shown} or (ref and key.id.startswith(ref))]
    if not meant:
        raise no_such("key", ref, [key.name or key.shown for key in keys])
    if len(meant) > 1:
        ids = [key.id for key in meant]
        raise Refused("invalid_request", f"{ref!r} means {len(meant)} keys", hint="use an id", keys=ids)
    return meant[0]
