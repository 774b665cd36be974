"""The store's engine: sessions that read, sessions that write, and the schema. The one place that knows SQLite."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

from runner.store.migrations import upgrade

BUSY_TIMEOUT_S = 30
_WRITES = "seq_writes"


class Store:
    """Rows behind a database URL. Sessions are short: no network and no cluster call inside one.

    What a session returned stays readable after it ends.
    """

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        # SQLite's writers poll for their turn, and whoever sleeps longest starves: on a slow disk for many seconds.
        self._turn = threading.RLock() if self._engine.dialect.name == "sqlite" else nullcontext()
        readers = self._engine.execution_options(postgresql_readonly=True)
        writers = self._engine.execution_options(**{_WRITES: True})
        self._read = sessionmaker(readers, expire_on_commit=False)
        self._write = sessionmaker(writers, expire_on_commit=False)

    def migrate(self) -> None:
        """Bring the schema to this version's; a schema that is there already is left alone."""
        with self._write.begin() as session:
            upgrade(session.connection())

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A consistent view; a write in it is refused by the database."""
        with self._read() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that holds the right to write from its start: commits at exit, rolls back on an exception."""
        with self._turn, self._write.begin() as session:
            yield session

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def _engine(url: str) -> Engine:
    # Parameters hold hashes and sealed secrets: they must not reach an exception's text, which is logged.
    engine = create_engine(url, hide_parameters=True, pool_size=8, max_overflow=64)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver would open transactions late and by itself; `_begin_sqlite` does it instead.
    connection.isolation_level = None
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_S * 1000:.0f}", "journal_mode=WAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    """Writers take the lock at once, since a reader that turns writer may be refused without a wait."""
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if writes else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
