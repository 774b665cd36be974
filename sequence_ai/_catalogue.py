"""The platform's models by every name a person may use, looked up once per process for each key and address."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sequence_ai._credentials import Credentials
from sequence_ai._errors import InvalidRequest
from sequence_ai._transport import Edge, Link, current_edge
from sequence_ai._types import Model


@dataclass(frozen=True)
class Entry:
    """What to send for a name, and where that model answers ("chat", "decide", or None where it was not told)."""

    id: str
    endpoint: str | None


@dataclass(frozen=True)
class Catalogue:
    """Entries by full id, short id and alias; a model's own name wins over another's alias."""

    entries: Mapping[str, Entry] = field(default_factory=dict)

    @staticmethod
    def of(rows: Iterable[Mapping[str, Any]]) -> Catalogue:
        """The catalogue of the rows of `GET /v1/models`."""
        named: dict[str, Entry] = {}
        rows = list(rows)
        for row in sorted(rows, key=lambda row: bool(row.get("alias_of"))):
            _add(named, row["id"], row.get("endpoint"))
        for row in rows:
            for alias in row.get("aliases") or []:
                # An alias is sent as the full id that it once was: the platform knows what it stands for today.
                full = alias if "/" in alias else row["id"].rpartition("/")[0] + "/" + alias
                _add(named, full.lstrip("/"), row.get("endpoint"))
        return Catalogue(named)

    def resolve(self, name: str, endpoint: str) -> str:
        """The id to send for `name`; one that is not listed is sent as it is, for the platform to answer.

        Raises InvalidRequest when the model answers elsewhere than at `endpoint`.
        """
        entry = self.entries.get(name)
        if entry is None:
            return name
        if entry.endpoint not in (None, endpoint):
            fitting = sorted({_short(e.id) for e in self.entries.values() if e.endpoint == endpoint})
            there = ", ".join(fitting) or "none"
            raise InvalidRequest(
                f"{name!r} answers at {entry.endpoint}, not at {endpoint}; models that do: {there}",
                code="invalid_request",
            )
        return entry.id


_known: weakref.WeakKeyDictionary[Edge, dict[Credentials, Catalogue]] = weakref.WeakKeyDictionary()


def model_id(model: str | Model, endpoint: str, link: Link, asked_by: Credentials, *, timeout_s: float) -> str:
    """The id to send for `model` (a short id, a full id, an alias or a `Model`); raises InvalidRequest on a wrong one.

    The list is read through `link` when this key asks this address for the first time.
    """
    name = model.id if isinstance(model, Model) else model
    if not isinstance(name, str) or not name.strip():
        raise InvalidRequest(
            f"model is {model!r}: give the name of a model (sequence_ai.models(kind='model') lists them)",
            code="invalid_request",
        )
    seen = _known.setdefault(current_edge(), {})
    if asked_by not in seen:
        answer = link.resend_if_dropped("GET", "/v1/models", timeout_s=timeout_s)
        seen[asked_by] = Catalogue.of(answer.body.get("data") or [])
    return seen[asked_by].resolve(name, endpoint)


def _add(named: dict[str, Entry], full: str, endpoint: str | None) -> None:
    for name in (full, _short(full)):
        named.setdefault(name, Entry(full, endpoint))


def _short(full: str) -> str:
    return full.rsplit("/", 1)[-1]
