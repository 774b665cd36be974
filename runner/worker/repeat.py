"""Answers by request, so that a request sent twice runs once. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Key = tuple[str, int]

_SAMPLED_BYTES = 3072  # a multiple of 3, so that base64 of a part is a part of the base64
_SAMPLED_TEXT = _SAMPLED_BYTES // 3 * 4


class Repeats(Generic[T]):
    """The last `capacity` requests by id and content, answers of `most_bytes` in all kept with them.

    Content counts since ids are short and may meet by chance.
    """

    def __init__(self, capacity: int = 512, most_bytes: int = 256 << 20) -> None:
        self._capacity = capacity
        self._most_bytes = most_bytes
        self._kept: dict[Key, T] = {}
        self._sizes: dict[Key, int] = {}
        self._bytes = 0

    def once(self, key: Key | None, begin: Callable[[], T]) -> T:
        """What `begin` made for this request the first time; without a key every request is a new one."""
        if key is None:
            return begin()
        if key not in self._kept:
            self._kept[key] = begin()
            if len(self._kept) > self._capacity:
                self._forget(next(iter(self._kept)))
        return self._kept[key]

    def answered(self, key: Key | None, size: int) -> None:
        """Note how many bytes are kept for a request; the oldest answers make room, never what is still under way."""
        if key is None or key not in self._kept:
            return
        self._sizes[key] = size
        self._bytes += size
        while self._bytes > self._most_bytes and len(self._sizes) > 1:
            self._forget(next(iter(self._sizes)))

    def _forget(self, key: Key) -> None:
        del self._kept[key]
        self._bytes -= self._sizes.pop(key, 0)


def content_of(value: Any) -> int:
    """A number that is equal for one body in either encoding: a frame's bytes count as their base64 text.

    Of a long text only its length and its ends are looked at, since it tells apart what chance has given one id.
    """
    return hash(_hashable(value))


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple([(name, _hashable(item)) for name, item in value.items()])
    if isinstance(value, list):
        return tuple([_hashable(item) for item in value])
    if isinstance(value, bytes):
        return _of_bytes(value)
    if isinstance(value, str) and len(value) > 2 * _SAMPLED_TEXT:
        return (len(value), value[:_SAMPLED_TEXT], value[-_SAMPLED_TEXT:])
    return value  # type: ignore[no-any-return]


def _of_bytes(raw: bytes) -> Hashable:
    """What `_hashable` makes of the base64 text of `raw`."""
    length = (len(raw) + 2) // 3 * 4
    if length <= 2 * _SAMPLED_TEXT:
        return base64.b64encode(raw).decode()
    tail = (length - _SAMPLED_TEXT) // 4 * 3
    return (length, *(base64.b64encode(part).decode() for part in (raw[:_SAMPLED_BYTES], raw[tail:])))
