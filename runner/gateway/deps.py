"""What a route may ask for: the context, who is calling, which page."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from runner.context import Context
from runner.gateway.auth import Caller, bearer, identify, require_full
from runner.gateway.pages import Page, PageQuery, page

__all__ = ["ActCaller", "Caller", "Ctx", "FullCaller", "Page", "PageQuery", "Token", "context", "page"]


def context(request: Request) -> Context:
    """The platform's context."""
    made: Context = request.app.state.context
    return made


Ctx = Annotated[Context, Depends(context)]


def any_caller(request: Request, ctx: Ctx) -> Caller:
    """The owner of any valid key."""
    caller = identify(ctx.store, request.headers.get("authorization"))
    request.state.key_id = caller.key_id
    return caller


ActCaller = Annotated[Caller, Depends(any_caller)]


def full_caller(caller: ActCaller) -> Caller:
    """The owner of a full key; other keys are `forbidden`."""
    return require_full(caller)


FullCaller = Annotated[Caller, Depends(full_caller)]


def token(request: Request) -> str:
    """The bearer token of one of the platform's own processes, unchecked: compare its hash with the row's."""
    return bearer(request.headers.get("authorization"))


Token = Annotated[str, Depends(token)]
