"""The schema's history, applied by Alembic. `python -m runner.store.migrations MESSAGE` writes the next step."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

FOLDER = Path(__file__).parent


def upgrade(connection: Connection) -> None:
    """Apply every step that is missing, inside the connection's transaction."""
    command.upgrade(config(connection), "head")


def config(connection: Connection) -> Config:
    """Alembic's configuration for this folder and one open connection."""
    made = Config(attributes={"connection": connection})
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return made
