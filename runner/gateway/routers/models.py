"""The models that the platform serves itself: none yet, which `routers.chat` tells whoever calls one."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from runner.gateway.deps import PASSER_BY

router = APIRouter(dependencies=[PASSER_BY])


@router.get("/v1/models")
def ls(endpoint: Literal["chat", "decide"] | None = None) -> dict[str, Any]:  # noqa: ARG001  checked, then nothing to pick from
    """Needs no key."""
    return {"data": []}
