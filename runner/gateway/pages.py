"""Lists in pages: which part was asked for, and how a part is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from runner.errors import Refused

_MARK = "o"


@dataclass(frozen=True)
class Page:
    """`limit` rows from row `offset` on."""

    limit: int
    offset: int


def asked(limit: Annotated[int, Query(ge=1, le=200)] = 50, cursor: Annotated[str | None, Query()] = None) -> Page:
    """The page a request asks for by `limit` and an earlier answer's `next_cursor`."""
    return Page(limit, _offset(cursor) if cursor else 0)


PageQuery = Annotated[Page, Depends(asked)]


def page(rows_key: str, items: Sequence[Any], total: int, offset: int, limit: int) -> dict[str, Any]:
    """The answer of a listing: `items` are the rows from `offset` on, at most `limit`, out of `total`."""
    after = offset + len(items)
    more = bool(items) and len(items) >= limit and after < total
    return {rows_key: list(items), "total": total, "offset": offset, "next_cursor": f"{_MARK}{after}" if more else None}


def _offset(cursor: str) -> int:
    digits = cursor.removeprefix(_MARK)
    if not (cursor.startswith(_MARK) and digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise Refused("invalid_request", f"cursor {cursor[:40]!r} is none this platform gave out", hint="start without")
    return int(digits)
