"""Times as they cross the wire."""

from __future__ import annotations

from datetime import datetime, timezone


def iso(seconds: float) -> str:
    """Epoch seconds as ISO-8601 in UTC, to the millisecond, with a `Z`."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
