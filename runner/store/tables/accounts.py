"""Accounts and the keys that open them."""

from __future__ import annotations

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Account(Base):
    """Who owns things. The first account may make others."""

    __tablename__ = "accounts"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    first: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[float]


class Key(Base):
    """A key, stored as its SHA-256. Kind `full`; `act`, bound to one deployment; `eval`, an instance's for one eval."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    kind: Mapped[str]
    hash: Mapped[str] = mapped_column(unique=True)
    shown: Mapped[str]
    deployment_id: Mapped[str | None] = mapped_column(ForeignKey("deployments.id", ondelete="CASCADE"))
    eval_id: Mapped[str | None] = mapped_column(ForeignKey("evals.id", ondelete="CASCADE"))
    created_at: Mapped[float]
