"""Whether the gateway answers, and which start of it does."""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter, Request

router = APIRouter()


@router.get("/healthz")
def health(request: Request) -> dict[str, Any]:
    """Needs no key and touches nothing."""
    return {"status": "ok", "pid": os.getpid(), "instance": request.app.state.instance}
