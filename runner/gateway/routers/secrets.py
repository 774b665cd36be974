"""Secrets: none can be kept yet, and each call says so."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.errors import Refused
from runner.gateway.deps import FullCaller

_LATER = "secrets come with a later version of this platform"

router = APIRouter()


@router.get("/v1/secrets")
def ls(_caller: FullCaller) -> dict[str, Any]:
    """The account's secrets: none."""
    return {"secrets": []}


@router.post("/v1/secrets")
def create(_caller: FullCaller) -> None:
    """Refused without reading the body, which holds values."""
    raise Refused("invalid_request", f"this platform keeps no secrets: {_LATER}", hint="nothing was stored")


@router.delete("/v1/secrets/{name}")
def rm(name: str, _caller: FullCaller) -> None:
    """There is none to remove."""
    raise Refused("not_found", f"no secret named {name!r}: {_LATER}")
