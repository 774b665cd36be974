"""The store's sessions, pragmas and schema, on a real SQLite file."""

from __future__ import annotations

import io
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError, OperationalError

from runner.store.db import Store
from runner.store.migrations import FOLDER
from runner.store.queries import episodes
from runner.store.tables import Account, Base, Key


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path / 'store.db'}")
    made.migrate()
    yield made
    made.close()


def account(name: str) -> Account:
    return Account(id=name, name=name, first=False, created_at=0.0)


def test_the_migrated_schema_is_the_one_the_tables_declare(store):
    """After `migrate`, Alembic finds nothing to change between the database and the tables."""
    with store.read() as session:
        context = MigrationContext.configure(session.connection(), opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []


def test_migrating_again_keeps_the_rows(store):
    """A schema that is there is left alone, with what it holds."""
    with store.write() as session:
        session.add(account("a"))
    store.migrate()
    with store.read() as session:
        assert session.get(Account, "a") is not None


@pytest.mark.parametrize(("pragma", "value"), [("journal_mode", "wal"), ("foreign_keys", 1), ("busy_timeout", 30_000)])
def test_every_connection_has_the_pragmas(store, pragma, value):
    """Write-ahead log, foreign keys and a busy timeout hold in readers and writers, also in several at once."""
    with store.read() as one, store.read() as two, store.write() as three:
        assert {session.execute(text(f"PRAGMA {pragma}")).scalar() for session in (one, two, three)} == {value}


def test_writers_have_their_turn_in_the_order_of_their_asking(store):
    """Nobody is passed by more than a few: SQLite's own waiting would let one starve while others write again."""
    writers = range(24)
    began = threading.Barrier(len(writers))
    written: list[int] = []

    def write(number: int) -> None:
        began.wait(10)
        for _ in range(6):
            with store.write() as session:
                session.connection()
                written.append(number)
                time.sleep(0.02)
            time.sleep(0.05)

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(write, writers))
    turns = [[0, *(at for at, who in enumerate(written) if who == number)] for number in writers]
    waits = [later - earlier for mine in turns for earlier, later in itertools.pairwise(mine)]
    assert max(waits) <= 2 * len(turns)


def test_a_write_inside_a_write_is_an_error_and_no_deadlock(store, monkeypatch):
    """It could never have its turn: the database says so once its patience has ended."""
    monkeypatch.setattr("runner.store.db.BUSY_TIMEOUT_S", 0.1)
    other = Store(str(store._engine.url))
    with other.write() as outer:
        outer.connection()
        with pytest.raises(OperationalError, match="locked"), other.write() as inner:
            inner.connection()
    other.close()


def test_a_missing_parent_is_refused(store):
    """Foreign keys are enforced."""
    key = Key(id="k", account_id="nobody", name="", kind="full", hash="h", shown="s", created_at=0.0)
    with pytest.raises(IntegrityError), store.write() as session:
        session.add(key)


def test_a_write_is_undone_by_an_exception(store):
    """A transaction that ends in an exception leaves nothing."""

    def fail_halfway() -> None:
        with store.write() as session:
            session.add(account("a"))
            session.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    with store.read() as session:
        assert session.get(Account, "a") is None


def test_a_read_session_cannot_write(store):
    """A write in a reader is an error rather than lost."""
    with store.read() as session:
        session.add(account("a"))
        with pytest.raises(OperationalError, match="readonly"):
            session.flush()
    with store.write() as session:
        session.add(account("a"))


def test_a_reader_keeps_its_view_while_another_writes(store):
    """What a session reads does not change under it, and a writer does not wait for readers."""
    with store.read() as session:
        assert session.query(Account).count() == 0
        with store.write() as writer:
            writer.add(account("a"))
        assert session.query(Account).count() == 0


def test_rows_stay_readable_after_their_session(store):
    """Rows returned from a read or a committed write can be used afterwards."""
    with store.write() as session:
        written = account("a")
        session.add(written)
    with store.read() as session:
        found = session.get(Account, "a")
    assert (written.name, found.name) == ("a", "a")


def test_concurrent_writers_wait_for_each_other(store):
    """Read-then-write transactions from many threads all succeed, and none overwrites another's count."""
    with store.write() as session:
        session.add(account("a"))

    def count(_: int) -> None:
        with store.write() as session:
            row = session.get(Account, "a")
            row.created_at += 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(count, range(200)))
    with store.read() as session:
        assert session.get(Account, "a").created_at == 200


def test_an_error_does_not_tell_the_values(store):
    """The text of a database error, which is logged, holds no row's values."""
    with store.write() as session:
        session.add(account("tell-no-one"))
    with pytest.raises(IntegrityError) as caught, store.write() as session:
        session.add(Account(id="other", name="tell-no-one", first=False, created_at=0.0))
    assert "tell-no-one" not in str(caught.value)


def test_the_migrations_speak_postgresql():
    """Every step renders as PostgreSQL, so that another database stays a URL away."""
    written = io.StringIO()
    context = MigrationContext.configure(dialect_name="postgresql", opts={"as_sql": True, "output_buffer": written})
    steps = [step.module for step in ScriptDirectory(str(FOLDER)).walk_revisions()]
    with Operations.context(context):
        for step in reversed(steps):
            step.upgrade()
    assert all(f"CREATE TABLE {table}" in written.getvalue() for table in Base.metadata.tables)
    assert "DOUBLE PRECISION" in written.getvalue()


def test_played_episodes_are_found_in_postgresql_too():
    """The one query into a JSON column renders as PostgreSQL."""
    query = episodes._last_played("eval").compile(dialect=postgresql.dialect())
    assert "->>" in str(query)
