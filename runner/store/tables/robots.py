"""Robots at a deployment's door: those that hold a slot, and those that wait for one."""

from __future__ import annotations

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from runner.store.tables._base import Base


class Robot(Base):
    """One session. With `worker_id` it holds a slot there until `until`, since `began`; without, it waits.

    `since` is its arrival, which is its turn; `due` is when it asks again; `queued` since when no worker is on its way.
    """

    __tablename__ = "robots"

    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id", ondelete="CASCADE"), primary_key=True)
    session: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str | None] = mapped_column(index=True)
    since: Mapped[float]
    began: Mapped[float | None]
    until: Mapped[float | None]
    due: Mapped[float | None]
    queued: Mapped[float | None]
