"""Keys: made, listed, removed. A key's text is in the answer to its creation and nowhere else."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.context import Context
from runner.errors import Refused
from runner.gateway.deps import Caller, Ctx, FullCaller, PageQuery, page
from runner.store.queries import accounts
from runner.store.tables import Key
from runner.times import iso
from seq.contract.keys import KeyCreated, KeyRequest, KeyRow

router = APIRouter()


@router.post("/v1/keys", status_code=201)
def create(body: KeyRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """A full key, an act key bound to a deployment, or another account with its first full key."""
    if body.account is not None:
        return _create_account(ctx, caller, body.account, body)
    with ctx.store.write() as session:
        bound = accounts.deployment_id(session, caller.account_id, body.deployment) if body.deployment else None
        new = _draw(ctx, body.name or body.deployment or "", kind="act" if bound else "full", deployment_id=bound)
        key = accounts.add_key(session, caller.account_id, new, ctx.clock.now())
        owner = accounts.account_name(session, caller.account_id)
    return _created(key, new, owner, body.deployment)


@router.get("/v1/keys")
def ls(ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """The account's full and act keys, oldest first."""
    with ctx.store.read() as session:
        keys = accounts.listed_keys(session, caller.account_id)
    shown = keys[asked.offset : asked.offset + asked.limit]
    return page("data", [_row(key, bound).wire() for key, bound in shown], len(keys), asked.offset, asked.limit)


@router.delete("/v1/keys/{ref:path}")
def rm(ref: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """`ref` is a key's id, the start of its id, its name or its shown form."""
    with ctx.store.write() as session:
        key = accounts.remove_key(session, caller.account_id, ref, in_use=caller.key_id)
    return {"deleted": key.id, "name": key.name, "key": key.shown}


def _create_account(ctx: Context, caller: Caller, name: str, body: KeyRequest) -> dict[str, Any]:
    if not caller.first:
        raise Refused("forbidden", "only the platform's first account makes other accounts", hint="use its full key")
    if body.deployment is not None:
        raise Refused("invalid_request", "give `account` or `deployment`: a new account has no deployment")
    new = _draw(ctx, body.name or name)
    with ctx.store.write() as session:
        account = accounts.add_account(session, ctx.new_id(), name, ctx.clock.now())
        key = accounts.add_key(session, account.id, new, ctx.clock.now())
    return _created(key, new, name, None)


def _draw(ctx: Context, name: str, *, kind: str = "full", deployment_id: str | None = None) -> accounts.NewKey:
    key_id = ctx.new_id()
    text = accounts.KEY_PREFIX + ctx.new_secret()
    return accounts.NewKey(key_id, text, name or f"key-{key_id[:6]}", kind, deployment_id)


def _row(key: Key, deployment: str | None) -> KeyRow:
    return KeyRow.model_validate(
        {
            "id": key.id,
            "name": key.name,
            "key": key.shown,
            "kind": key.kind,
            "deployment": deployment,
            "created_at": iso(key.created_at),
        }
    )


def _created(key: Key, new: accounts.NewKey, account: str, deployment: str | None) -> dict[str, Any]:
    row = _row(key, deployment).model_dump()
    return KeyCreated(**row, secret=new.text, account=account).wire()
