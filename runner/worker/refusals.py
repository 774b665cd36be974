"""What the worker itself refuses, said alike at its door and on a copy's socket. Pure."""

from __future__ import annotations

import json

from runner.errors import Refused


def written(refused: Refused, request_id: str | None) -> bytes:
    """A refusal as it crosses: JSON, whatever the act came in."""
    return json.dumps(refused.body(request_id).wire(), default=str).encode()


def ending() -> Refused:
    """No new act is taken any more."""
    return Refused("unavailable", "this worker is ending; connect again", retry_after_s=1, reason="draining")


def too_long(limit_s: float, *, ended: bool) -> Refused:
    """An inference took over `timeouts.request`, and may still run."""
    told = "" if ended else "; it is still running"
    return Refused("timeout", f"infer took over {limit_s:g} s (timeouts.request){told}")


def broken(error: Exception) -> Refused:
    """The worker's own code failed."""
    return Refused("internal", f"the worker itself failed: {type(error).__name__}")
