"""Opening a database: new, old, foreign, by several processes at once."""

import re
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from store.every_view import VIEWS
from store.processes import put_once, run_all
from store.stored_graphs import config, put, scalar, values_of

from adjourn.checkpoints import setup
from adjourn.checkpoints.database import Database, format_time, now
from adjourn.checkpoints.errors import SchemaVersionError, StoreError, UsageError
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.schema import metadata, schema_version
from adjourn.checkpoints.setup import VERSION


def test_four_processes_that_open_a_new_database_at_once(bare_url: str) -> None:
    run_all(put_once, [(bare_url, str(number)) for number in range(4)])
    with SQLAlchemySaver(bare_url) as saver:
        assert scalar(saver, "SELECT count(*) FROM checkpoints") == 4
        assert scalar(saver, "SELECT sum(version) FROM schema_version") == VERSION


def test_the_database_has_every_table_and_view(database: Database) -> None:
    names = database.read(
        lambda connection: (
            set(sa.inspect(connection).get_table_names()),
            set(sa.inspect(connection).get_view_names()),
        )
    )
    assert names == (set(metadata.tables), set(VIEWS))


def test_whoever_only_reads_opens_a_file_that_another_program_writes(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Database(file_url).setup()
    monkeypatch.setattr("adjourn.checkpoints.database.BUSY_TIMEOUT_MS", 100)
    writer = sqlite3.connect(str(sa.make_url(file_url).database), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")  # and holds it
    reader = Database(file_url)
    assert reader.read(lambda connection: connection.execute(sa.select(schema_version.c.id)).scalar()) == 1
    with pytest.raises(StoreError, match="another program"):
        reader.write(lambda connection: connection.execute(schema_version.delete()))
    reader.close()
    writer.close()


def test_a_newer_database_is_refused_and_not_touched(file_url: str) -> None:
    first = Database(file_url)
    first.write(lambda connection: connection.execute(sa.text("UPDATE schema_version SET version = 99")))
    first.close()
    before = Path(file_url.removeprefix("sqlite:///")).read_bytes()
    second = Database(file_url)
    with pytest.raises(SchemaVersionError, match="upgrade") as caught:
        second.setup()
    assert (caught.value.found, caught.value.known) == (99, VERSION)
    second.close()
    assert Path(file_url.removeprefix("sqlite:///")).read_bytes() == before


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("folder", "it is a directory; name a file in it"),
        ("missing/store.db", "there is no directory"),
        ("text.txt", "no SQLite database; name another file"),
    ],
)
def test_a_file_that_cannot_be_opened_says_what_to_do(tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("hello " * 200)
    database = Database(f"sqlite:///{tmp_path / target}")
    with pytest.raises(StoreError, match=re.escape(message)):
        database.read(lambda _connection: None)
    database.close()


def test_another_programs_tables_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    connection.close()
    database = Database(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="not Adjourn's: checkpoints"):
        database.setup()
    database.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "is not a database URL"),
        ("postgresql://u:p@h/d", r"pip install 'adjourn\[postgres\]'"),
        ("mysql://u:p@h/d", r"pip install 'adjourn\[mysql\]'"),
        ("mariadb://u:p@h/d", r"pip install 'adjourn\[mysql\]'"),
        ("unheard://x", "there is no driver for 'unheard'"),
        ("sqlite+aiosqlite:///x.db", "write the URL as sqlite://"),
        ("postgresql+asyncpg://u:p@h/d", r"write the URL as postgresql\+psycopg://"),
    ],
)
def test_a_url_that_is_not_usable_says_what_to_do(
    url: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("psycopg", "pymysql"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(StoreError, match=message):
        Database(url)


def test_synchronous_has_two_settings() -> None:
    with pytest.raises(StoreError, match="NORMAL"):
        Database("sqlite://", synchronous="OFF")


def test_an_error_rolls_back_and_passes_through(database: Database) -> None:
    insert = sa.text("INSERT INTO audit (run_id, action, at) VALUES ('r', 'a', 't')")

    def work(connection: sa.Connection) -> None:
        connection.execute(insert)
        raise KeyError("mine")

    for synced in (False, True):
        with pytest.raises(KeyError, match="mine"):
            database.write(work, synced=synced)
    count = sa.text("SELECT count(*) FROM audit")
    assert database.read(lambda connection: connection.execute(count).scalar()) == 0
    database.write(lambda connection: connection.execute(insert), synced=True)
    assert database.read(lambda connection: connection.execute(count).scalar()) == 1


def test_a_synced_write_raises_synchronous_for_its_own_commit(file_url: str) -> None:
    database = Database(file_url)
    pragma = sa.text("PRAGMA synchronous")
    during = database.write(lambda connection: connection.execute(pragma).scalar(), synced=True)
    after = database.write(lambda connection: connection.execute(pragma).scalar())
    assert (during, after) == (2, 1)
    database.close()
    database.close()


def test_times_are_text_that_sorts() -> None:
    from datetime import datetime, timedelta, timezone

    moment = datetime(2026, 11, 29, 23, 0, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(moment) == "2026-11-29T22:00:00.000000Z"
    assert len(now()) == 27


def test_the_schema_of_a_file_reads_like_documentation(file_url: str) -> None:
    database = Database(file_url)
    database.setup()
    database.close()
    with sqlite3.connect(file_url.removeprefix("sqlite:///")) as connection:
        schema = "\n".join(
            row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        )
    connection.close()
    assert "CREATE TABLE messages ( -- each message once, whatever number of checkpoints holds it" in schema
    assert "-- The conversation of each thread as it stands now, in order" in schema


@pytest.mark.parametrize("cut_at", ["tables", "views"])
def test_c94_a_creation_that_was_cut_off_is_done_again(
    bare_url: str, cut_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    def cut_after_three(connection: sa.Connection) -> None:
        for name in ("threads", "namespaces", "messages"):
            setup.TABLES.tables[name].create(connection)
        raise KeyboardInterrupt

    with monkeypatch.context() as cutting, closing(Database(bare_url)) as database:
        if cut_at == "views":
            cutting.setattr(setup, "create_views", cut)
        else:
            cutting.setattr(setup, "sqlite_statements", cut)
            cutting.setattr(setup.TABLES, "create_all", cut_after_three)
        with pytest.raises(KeyboardInterrupt):
            database.setup()
    with SQLAlchemySaver(bare_url) as saver:
        assert values_of(saver, put(saver, config(), {"a": 1})) == {"a": 1}
        assert scalar(saver, "SELECT version FROM schema_version") == VERSION


def test_c90_a_process_that_froze_in_a_transaction_does_not_hold_its_row_for_ever(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only PostgreSQL can end it; there, whoever waits for the row gets it."""
    monkeypatch.setattr("adjourn.checkpoints.servers.FROZEN_MS", 200)
    frozen, other = Database(shared_url), Database(shared_url)
    try:
        if frozen.engine.dialect.name != "postgresql":
            pytest.skip("only PostgreSQL ends the transaction of a frozen process")
        frozen.setup()
        with frozen.engine.connect() as connection, suppress(DBAPIError):
            connection.execute(sa.text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
            other.write(lambda one: one.execute(sa.text("SELECT count(*) FROM runs")))
            connection.execute(sa.text("SELECT 1"))
            pytest.fail("the frozen one went on")
    finally:
        frozen.close()
        other.close()


def test_an_error_of_the_database_tells_nothing_of_what_was_stored(database: Database) -> None:
    twice = "INSERT INTO threads (thread_id, generation, created_at, updated_at) VALUES (:said, 0, '', '')"
    database.write(lambda connection: connection.execute(sa.text(twice), {"said": "my secret"}))
    with pytest.raises(DBAPIError) as caught:
        database.write(lambda connection: connection.execute(sa.text(twice), {"said": "my secret"}))
    assert "parameters hidden" in str(caught.value)


def test_a_thread_that_no_database_can_name_is_refused_in_words(database: Database) -> None:
    saver = SQLAlchemySaver(database)
    with pytest.raises(UsageError, match="half a character"):
        put(saver, config("\ud800"), {"a": 1})
    if database.is_sqlite:
        return  # it takes any other name
    with pytest.raises(StoreError, match="at most 255 characters"):
        put(saver, config("x" * 256), {"a": 1})


def test_a_list_by_what_no_row_has_is_empty(database: Database) -> None:
    saver = SQLAlchemySaver(database)
    put(saver, config(), {"a": 1})
    for wanted in ({"source": "a\0"}, {"source": "\ud800"}, {"step": 2**40}, {"step": 2**70}):
        assert list(saver.list(config(), filter=wanted)) == []


def test_a_value_larger_than_mysql_takes_names_the_setting(database: Database) -> None:
    if database.engine.dialect.name not in ("mysql", "mariadb"):
        pytest.skip("the others take it")
    most = database.read(lambda c: c.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one())
    saver = SQLAlchemySaver(database)
    with pytest.raises(StoreError, match="max_allowed_packet"):
        put(saver, config(), {"a": "x" * (most + 1000)})
    put(saver, config(), {"a": "x"})
