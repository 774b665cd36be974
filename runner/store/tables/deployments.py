"""Deployments and their versions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Deployment(Base):
    """A name an account serves a policy under; `serving` is the version number new sessions get.

    `drive_s` is how long its robots drove lately (a moving mean), which tells those in line how long they will wait;
    `short_since` is since when its first choice of a card could not be had.
    """

    __tablename__ = "deployments"
    __table_args__ = (UniqueConstraint("account_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    handler_ref: Mapped[str]
    serving: Mapped[int | None]
    stopped: Mapped[bool] = mapped_column(default=False)
    drive_s: Mapped[float | None]
    short_since: Mapped[float | None]
    created_at: Mapped[float]


class Version(Base):
    """One submitted build. State `building`, `ready` or `failed`; `request` is its DeploymentRequest, without bundle.

    `bundle` is the SHA-256 under which the code bundle lies in the blobs; `image_hash` names the environment.
    `load_s` is how long the last start took, which tells the next robot how long it will wait.
    """

    __tablename__ = "versions"
    __table_args__ = (UniqueConstraint("deployment_id", "number"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id", ondelete="CASCADE"), index=True)
    number: Mapped[int]
    state: Mapped[str] = mapped_column(index=True)
    request: Mapped[dict[str, Any]]
    bundle: Mapped[str | None]
    image_hash: Mapped[str | None]
    error: Mapped[str | None]
    traceback: Mapped[str | None]
    phases: Mapped[list[Any]] = mapped_column(default=list)
    load_s: Mapped[float | None]
    created_at: Mapped[float]
