"""Adapters and their versions: content, by hash."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Adapter(Base):
    """A name an account registered an adapter under."""

    __tablename__ = "adapters"
    __table_args__ = (UniqueConstraint("account_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    handler_ref: Mapped[str]
    latest: Mapped[int]
    created_at: Mapped[float]


class AdapterVersion(Base):
    """One content of an adapter; the same bytes are the same version."""

    __tablename__ = "adapter_versions"
    __table_args__ = (UniqueConstraint("adapter_id", "number"), UniqueConstraint("adapter_id", "sha256"))

    id: Mapped[str] = mapped_column(primary_key=True)
    adapter_id: Mapped[str] = mapped_column(ForeignKey("adapters.id", ondelete="CASCADE"), index=True)
    number: Mapped[int]
    sha256: Mapped[str]
    class_name: Mapped[str]
    handler_ref: Mapped[str]
    source: Mapped[str] = mapped_column(Text)
    transforms: Mapped[list[Any]]
    policy_io: Mapped[str]
    params: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[float]
