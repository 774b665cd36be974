"""Templates: the shipped policies, benchmarks and adapters, listed and handed out as archives."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from runner.errors import Refused
from runner.gateway.deps import PASSER_BY
from seq import templates

VERSION = "v1"
"""A platform ships one version of each template, as stable."""

router = APIRouter(dependencies=[PASSER_BY])


@router.get("/v1/templates")
def ls() -> dict[str, Any]:
    """Needs no key."""
    return {"data": [{"name": found.name, "kind": found.kind, "stable": VERSION} for found in templates.templates()]}


@router.get("/v1/templates/{name}/code")
def code(name: str, ref: str = "stable") -> Response:
    """The files of a template as a gzip tar; needs no key."""
    names = sorted(found.name for found in templates.templates())
    if name not in names:
        raise Refused("not_found", f"no template named {name!r}", hint=f"there are: {', '.join(names)}")
    if ref not in {"stable", VERSION}:
        raise Refused("not_found", f"{name} has no version {ref!r}", hint=f"there is: stable, which is {VERSION}")
    return Response(templates.archive(name), media_type="application/gzip", headers={"X-Template-Version": VERSION})
