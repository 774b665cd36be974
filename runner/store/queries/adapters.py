"""Rows of adapters and their versions. A removed adapter keeps its row, since evals refer to its versions: its name
gets a `~`, which no valid name holds.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from runner.store.tables import Adapter, AdapterVersion


def find(session: Session, account_id: str, name: str) -> Adapter | None:
    """The account's adapter of that name."""
    mine = (Adapter.account_id == account_id, Adapter.name == name, Adapter.name.not_like("%~%"))
    return session.scalars(select(Adapter).where(*mine)).first()


def get(session: Session, adapter_id: str) -> Adapter | None:
    """The adapter with that id, removed or not."""
    return session.get(Adapter, adapter_id)


def of_handler(session: Session, account_id: str, handler_ref: str) -> Adapter | None:
    """The account's adapter that is this `module:Class`."""
    mine = (Adapter.account_id == account_id, Adapter.handler_ref == handler_ref, Adapter.name.not_like("%~%"))
    return session.scalars(select(Adapter).where(*mine).order_by(Adapter.created_at.desc())).first()


def names(session: Session, account_id: str) -> list[str]:
    """The account's adapter names, sorted."""
    mine = (Adapter.account_id == account_id, Adapter.name.not_like("%~%"))
    return list(session.scalars(select(Adapter.name).where(*mine).order_by(Adapter.name)))


def listed(session: Session, account_id: str, offset: int, limit: int) -> tuple[list[Adapter], int]:
    """One page of the account's adapters by name, and how many there are."""
    mine = (Adapter.account_id == account_id, Adapter.name.not_like("%~%"))
    total = session.scalar(select(func.count()).select_from(Adapter).where(*mine)) or 0
    rows = session.scalars(select(Adapter).where(*mine).order_by(Adapter.name).offset(offset).limit(limit))
    return list(rows), total


def add(session: Session, *, adapter_id: str, account_id: str, name: str, handler_ref: str, now: float) -> Adapter:
    """A new adapter without a version."""
    row = Adapter(id=adapter_id, account_id=account_id, name=name, handler_ref=handler_ref, latest=0, created_at=now)
    session.add(row)
    session.flush()
    return row


def add_version(
    session: Session, adapter: Adapter, *, version_id: str, content: dict[str, Any], now: float
) -> AdapterVersion:
    """The adapter's next version; `content` names the remaining columns."""
    adapter.latest += 1
    row = AdapterVersion(id=version_id, adapter_id=adapter.id, number=adapter.latest, created_at=now, **content)
    session.add(row)
    session.flush()
    return row


def versions(session: Session, adapter_id: str) -> list[AdapterVersion]:
    """Every version of an adapter, newest first."""
    query = select(AdapterVersion).where(AdapterVersion.adapter_id == adapter_id)
    return list(session.scalars(query.order_by(AdapterVersion.number.desc())))


def version(session: Session, version_id: str) -> AdapterVersion | None:
    """The version with that id."""
    return session.get(AdapterVersion, version_id)


def remove(adapter: Adapter) -> None:
    """Free the name; the versions stay for the evals that used them."""
    adapter.name = f"{adapter.name}~{adapter.id}"
