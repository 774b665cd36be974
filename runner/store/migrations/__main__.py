"""Write the next migration: what the tables say and the schema of the steps so far does not."""

from __future__ import annotations

import sys

from alembic import command
from sqlalchemy import create_engine

from runner.store.migrations import FOLDER, config, upgrade


def main(message: str) -> None:
    """Write `versions/NNNN_message.py`; read it before keeping it."""
    number = f"{len(list(FOLDER.glob('versions/*.py'))) + 1:04d}"
    with create_engine("sqlite://").connect() as connection:
        upgrade(connection)
        command.revision(config(connection), message, autogenerate=True, rev_id=number)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
