"""What a route may ask for: the context, who is calling, which page."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from runner.context import Context
from runner.errors import Refused
from runner.gateway.auth import Caller, bearer, identify, require_full
from runner.gateway.pages import Page, PageQuery, page
from runner.gateway.rate import Rates

__all__ = [
    "PASSER_BY",
    "ActCaller",
    "Caller",
    "Ctx",
    "FullCaller",
    "Page",
    "PageQuery",
    "Token",
    "context",
    "page",
]


def context(request: Request) -> Context:
    """The platform's context."""
    made: Context = request.app.state.context
    return made


Ctx = Annotated[Context, Depends(context)]


def passer_by(request: Request, ctx: Ctx) -> None:
    """Anyone, as often as one address may ask without a key."""
    host = request.client.host if request.client else "unknown"
    _rates(request).by_address(host, ctx.clock.monotonic())


PASSER_BY = Depends(passer_by)
"""For routers that need no key."""


def any_caller(request: Request, ctx: Ctx) -> Caller:
    """The owner of any valid key, as often as it may ask; an eval's instances, whose number is ours, as they like."""
    try:
        caller = identify(ctx.store, request.headers.get("authorization"))
    except Refused:
        passer_by(request, ctx)
        raise
    request.state.key_id = caller.key_id
    if caller.kind != "eval":
        _rates(request).by_key(caller.key_id, request.url.path, ctx.clock.monotonic())
    return caller


def _rates(request: Request) -> Rates:
    made: Rates = request.app.state.rates
    return made


ActCaller = Annotated[Caller, Depends(any_caller)]


def full_caller(caller: ActCaller) -> Caller:
    """The owner of a full key; other keys are `forbidden`."""
    return require_full(caller)


FullCaller = Annotated[Caller, Depends(full_caller)]


def token(request: Request) -> str:
    """The bearer token of one of the platform's own processes, unchecked: compare its hash with the row's."""
    return bearer(request.headers.get("authorization"))


Token = Annotated[str, Depends(token)]
