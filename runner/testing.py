"""A platform for tests: real store and blobs in a folder, time moved by hand, ids that repeat, work placed nowhere."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from runner.clock import Clock, ManualClock
from runner.cluster.base import Cluster
from runner.cluster.fake import FakeCluster
from runner.context import Context
from runner.gateway.app import ROUTERS, create_app
from runner.settings import Settings
from runner.store.blobs import Blobs
from runner.store.db import Store
from runner.store.queries import accounts
from runner.vault import Vault


def make_context(
    home: Path, *, clock: Clock | None = None, cluster: Cluster | None = None, seed: int = 0, **settings: Any
) -> Context:
    """A context whose files lie below `home`, with the first account and its key; its cluster is a FakeCluster.

    The same seed draws the same ids and secrets; `settings` are fields of `Settings`. Close `context.store` at the end.
    """
    chosen = Settings(home=home, **settings)
    home.mkdir(parents=True, exist_ok=True)
    store = Store(chosen.database)
    store.migrate()
    ctx = Context(
        settings=chosen,
        store=store,
        blobs=Blobs(chosen.blobs),
        cluster=cluster or _joined(),
        clock=clock or ManualClock(),
        vault=Vault(base64.urlsafe_b64encode(_digest("vault", seed))),
        new_id=_drawn("id", seed, lambda digest: digest.hex()[:32]),
        new_secret=_drawn("secret", seed, lambda digest: base64.urlsafe_b64encode(digest).decode().rstrip("=")),
    )
    with store.write() as session:
        ids = {"account_id": ctx.new_id(), "key_id": ctx.new_id()}
        accounts.ensure_first(session, first_key(seed), now=ctx.clock.now(), **ids)
    return ctx


def first_key(seed: int = 0) -> str:
    """The full key of the first account of `make_context(seed=seed)`."""
    return accounts.KEY_PREFIX + base64.urlsafe_b64encode(_digest("first key", seed)).decode().rstrip("=")


def add_account(ctx: Context, name: str) -> str:
    """Make another account; returns its first full key."""
    key = accounts.KEY_PREFIX + ctx.new_secret()
    with ctx.store.write() as session:
        account = accounts.add_account(session, ctx.new_id(), name, ctx.clock.now())
        accounts.add_key(session, account.id, accounts.NewKey(ctx.new_id(), key, name), ctx.clock.now())
    return key


def account_of(ctx: Context, key: str) -> str:
    """The id of the account a key opens."""
    with ctx.store.read() as session:
        owned = accounts.key_owner(session, key)
    if owned is None:
        raise KeyError("no account has this key")
    return owned[1].id


def make_client(ctx: Context, key: str | None = None, *, routers: Iterable[str] = ROUTERS) -> httpx.Client:
    """A client of the gateway in this process; `key` None sends none."""
    return in_process(create_app(ctx, routers), key)


def in_process(app: ASGIApp, token: str | None = None) -> httpx.Client:
    """A client of any ASGI application, no socket between; sends `token` as bearer on every request."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(transport=_InProcess(app), base_url="http://test", headers=headers)


class _InProcess(httpx.BaseTransport):
    def __init__(self, app: ASGIApp) -> None:
        self._asgi = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._asgi.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


def _joined() -> Cluster:
    cluster = FakeCluster()
    cluster.ensure()
    return cluster


def _digest(what: str, seed: int, number: int = 0) -> bytes:
    return hashlib.sha256(f"{what} {seed} {number}".encode()).digest()


def _drawn(what: str, seed: int, form: Callable[[bytes], str]) -> Callable[[], str]:
    number = 0

    def draw() -> str:
        nonlocal number
        number += 1
        return form(_digest(what, seed, number))

    return draw
