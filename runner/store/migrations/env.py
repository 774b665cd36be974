"""What Alembic runs: the steps, on the connection that `runner.store.migrations` hands over."""

from __future__ import annotations

from alembic import context

from runner.store.tables import Base

# Batch mode, since SQLite cannot alter a column in place.
context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
