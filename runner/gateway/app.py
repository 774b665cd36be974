"""The gateway: one HTTP application over the platform's context."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from fastapi import FastAPI

from runner.context import Context
from runner.gateway import errors
from runner.gateway.rate import Rates
from runner.gateway.requests import Requests

ROUTERS = (
    "health",
    "status",
    "keys",
    "account",
    "pricing",
    "models",
    "chat",
    "templates",
    "volumes",
    "secrets",
    "deployments",
    "scaling",
    "usage",
    "act",
    "benchmarks",
    "internal_workers",
    "evals",
    "adapters",
    "internal_instances",
    "internal_evals",
)
"""The modules of `runner.gateway.routers`, each with a `router`."""


def create_app(ctx: Context, routers: Iterable[str] = ROUTERS, *, instance: str | None = None) -> FastAPI:
    """The application; `instance` is the random id by which `/healthz` tells this start of the platform from others.

    Tests of one part pass the routers they need.
    """
    # No redirects to other spellings of a path: the published clients do not follow them.
    app = FastAPI(title="sequence-ai", openapi_url=None, redirect_slashes=False)
    app.state.context = ctx
    app.state.instance = instance or ctx.new_id()
    app.state.started_at = ctx.clock.now()
    app.state.rates = Rates(ctx.settings.rate_per_s)
    app.add_middleware(Requests, ctx=ctx)
    errors.install(app)
    for name in routers:
        app.include_router(import_module(f"runner.gateway.routers.{name}").router)
    return app
