"""All episodes of an eval: in the details document where it holds them all, else page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
Page = Callable[["str | None"], Json]


def listed(details: Json) -> list[Json] | None:
    """The rows in the details document; None where it does not hold them all."""
    found = list(details.get("episodes") or [])
    total = details.get("episodes_total")
    if total is None:
        total = (details.get("progress") or {}).get("total")
    return found if total is None or len(found) >= total else None


def episode_rows(details: Json, page: Page) -> Iterator[Json]:
    """Every row, in the platform's order; `page` gets a cursor (None: the first page) and returns that page's body."""
    found = listed(details)
    if found is not None:
        yield from found
        return
    cursor = None
    while True:
        body = page(cursor)
        yield from body.get("episodes") or body.get("data") or []
        cursor = body.get("next_cursor")
        if not cursor:
            return
