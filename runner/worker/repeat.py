"""Answers by request, so that a request sent twice runs once. Pure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Repeats(Generic[T]):
    """The last `capacity` requests by id and content. Content counts since ids are short and may meet by chance."""

    def __init__(self, capacity: int = 512) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[tuple[str, bytes], T] = OrderedDict()

    def once(self, request_id: str | None, body: bytes, begin: Callable[[], T]) -> T:
        """What `begin` made for this request the first time; without an id every request is a new one."""
        if request_id is None:
            return begin()
        key = (request_id, hashlib.blake2b(body, digest_size=16).digest())
        if key not in self._kept:
            self._kept[key] = begin()
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        return self._kept[key]
