"""The price list, for anyone."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.gateway.deps import PASSER_BY
from runner.pricing import price_list

router = APIRouter(dependencies=[PASSER_BY])


@router.get("/v1/pricing")
def pricing() -> dict[str, Any]:
    """Needs no key."""
    return price_list()
