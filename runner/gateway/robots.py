"""The robots connected to this gateway, kept with the application."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from runner.fleet.sessions import Sessions


def robots(request: Request) -> Sessions:
    """The application's one `Sessions`; the first who asks makes it, in one step that two threads cannot both take."""
    kept: Sessions = request.app.state._state.setdefault("robots", Sessions())  # noqa: SLF001
    return kept


Robots = Annotated[Sessions, Depends(robots)]
