"""A declaration as it is read back: labelled lines, and the body without what nobody reads. Pure."""

from __future__ import annotations

from typing import Any

from seq.contract.adapters import AdapterRegisterRequest
from seq.requests import Request
from seq.validate import Echo, Line


def echo_lines(echo: Echo) -> list[str]:
    """The lines of `seq validate`."""
    return [_shown(line) for line in echo.lines]


def body_of(request: Request) -> dict[str, Any]:
    """The request's body; an adapter's without its source."""
    hidden = {"source"} if isinstance(request, AdapterRegisterRequest) else set()
    return {key: value for key, value in request.wire().items() if key not in hidden}


def _shown(line: Line) -> str:
    if line.depth == 0:
        return f"{line.label:<11} {line.text}"
    return f"  {line.label:<17} {line.text}" if line.depth == 1 else f"{'':14}{line.text}"
