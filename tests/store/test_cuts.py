"""A creation or an upgrade that is cut off behind any of its statements is brought to its end by the next opening (C-94).

MariaDB commits each change of a table by itself, so the next opening finds what was done up to the cut. The connection
is closed as the operating system closes that of a killed process; `ADJOURN_CUTS=1` cuts a creation behind every statement.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from store.engines import Engines
from store.every_view import VIEWS
from store.processes import put_once
from store.stored_graphs import config, put, scalar, values_of
from store.test_migrations import NOW, know, shape

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import SchemaVersionError
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.views import drop_views

STRIDE = int(os.environ.get("ADJOURN_CUTS", "11"))  # statements between two cuts of a creation
LOOKS = ("SELECT", "SHOW", "DESCRIBE", "PRAGMA", "COMMIT")


class Cut(Exception):
    """The process is gone."""


def opened(url: str, cut_behind: int | None = None) -> bool:
    """Open a database; its connection breaks behind so many statements that change something. False: it did not come so far."""
    database, changes = Database(url), 0

    def behind(connection: sa.Connection, _cursor: object, statement: str, *_: object) -> None:
        nonlocal changes
        if statement.lstrip().startswith(LOOKS):
            return
        changes += 1
        if changes == cut_behind:
            driver: Any = connection.connection.driver_connection
            if connection.dialect.name == "postgresql":
                driver.pgconn.finish()
            elif connection.dialect.name != "sqlite":  # where the transaction is the process's own
                driver._force_close()
            raise Cut

    event.listen(database.engine, "after_cursor_execute", behind)
    try:
        database.setup()
    except Cut:
        return True
    finally:
        database.close()
    return False


def cut_at_all(url: str, stride: int = 1) -> int:
    """Open a database again and again, each time cut a little later, until it is opened. How often that was."""
    times = 0
    while opened(url, 1 + times * stride):
        times += 1
    return times


@pytest.fixture(params=["postgresql", "mariadb", "file"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def whole(servers: Engines, engine: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What a database is that was created in one go."""
    database = Database(servers.new(engine, tmp_path))
    yield shape(database)
    database.close()


def shape_of(url: str) -> dict[str, Any]:
    database = Database(url)
    try:
        names = database.read(lambda connection: sa.inspect(connection).get_view_names())
        assert sorted(names) == sorted(VIEWS)
        return shape(database)
    finally:
        database.close()


def test_c94_a_creation_that_is_cut_again_and_again_comes_to_its_end(
    servers: Engines, engine: str, whole: dict[str, Any], tmp_path: Path
) -> None:
    url = servers.new(engine, tmp_path)
    assert cut_at_all(url, STRIDE) >= 40 // STRIDE
    assert shape_of(url) == whole
    with SQLAlchemySaver(url) as saver:
        assert values_of(saver, put(saver, config(), {"a": 1})) == {"a": 1}


def columns(connection: sa.Connection, table: str) -> set[str]:
    return {one["name"] for one in sa.inspect(connection).get_columns(table)}


def run(connection: sa.Connection, *statements: str) -> None:
    for one in statements:
        connection.exec_driver_sql(one)


def add_a_title(connection: sa.Connection) -> None:
    """A column, and an index over it."""
    if "title" not in columns(connection, "threads"):
        run(connection, "ALTER TABLE threads ADD COLUMN title VARCHAR(255)")
    run(connection, "UPDATE threads SET title = thread_id WHERE title IS NULL")
    if "ix_threads_title" not in {one["name"] for one in sa.inspect(connection).get_indexes("threads")}:
        run(connection, "CREATE INDEX ix_threads_title ON threads (title)")


def split_it(connection: sa.Connection) -> None:
    """A table of its own, rows that go over, and a column that goes."""
    if not sa.inspect(connection).has_table("titles"):
        run(connection, "CREATE TABLE titles (thread_id VARCHAR(255) PRIMARY KEY, title VARCHAR(255))")
    if "title" in columns(connection, "threads"):
        new = "WHERE NOT EXISTS (SELECT 1 FROM titles t WHERE t.thread_id = threads.thread_id)"
        run(connection, f"INSERT INTO titles SELECT thread_id, title FROM threads {new}")
        if "ix_threads_title" in {one["name"] for one in sa.inspect(connection).get_indexes("threads")}:
            on = "" if connection.dialect.name != "mysql" else " ON threads"
            run(connection, f"DROP INDEX ix_threads_title{on}")
        run(connection, "ALTER TABLE threads DROP COLUMN title")


@pytest.fixture
def two_migrations(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Called, lets the program know so many of them."""
    return lambda count: know(monkeypatch, *(add_a_title, split_it)[:count])


def test_c94_an_upgrade_that_is_cut_behind_each_statement_goes_on_where_it_was(
    servers: Engines,
    engine: str,
    whole: dict[str, Any],
    tmp_path: Path,
    two_migrations: Callable[[int], None],
) -> None:
    url = servers.new(engine, tmp_path)
    put_once(url, "1")
    two_migrations(2)
    assert cut_at_all(url) > 2 * len(VIEWS)
    found = shape_of(url)
    assert found.pop("titles")
    assert found == whole
    with SQLAlchemySaver(url) as saver:
        assert scalar(saver, "SELECT title FROM titles") == "t"
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}).checkpoint["id"] == "1"
        assert scalar(saver, "SELECT version FROM schema_version") == NOW + 2


def test_c94_a_database_of_version_1_that_is_cut_on_its_way_becomes_what_a_new_one_is(
    servers: Engines, engine: str, whole: dict[str, Any], tmp_path: Path
) -> None:
    url = servers.new(engine, tmp_path)
    put_once(url, "1")
    database = Database(url)

    def back(connection: sa.Connection) -> None:
        drop_views(connection)
        for name in ("context", "attached"):
            run(connection, f"ALTER TABLE runs DROP COLUMN {name}")
        run(connection, "DROP TABLE inputs")
        run(connection, "UPDATE schema_version SET version = 1")

    database.write(back)
    database.close()
    assert cut_at_all(url) > len(VIEWS)
    assert shape_of(url) == whole
    with SQLAlchemySaver(url) as saver:
        assert scalar(saver, "SELECT version FROM schema_version") == NOW


def test_c94_a_program_that_does_not_know_the_version_refuses_a_database_on_its_way_there(
    servers: Engines, tmp_path: Path, two_migrations: Callable[[int], None]
) -> None:
    url = servers.new("mariadb", tmp_path)
    put_once(url, "1")
    two_migrations(1)
    assert opened(url, 3)
    two_migrations(0)
    with pytest.raises(
        SchemaVersionError, match=f"has schema version {NOW + 1}, this program knows up to {NOW}"
    ):
        opened(url)
    two_migrations(1)
    assert not opened(url)
    with SQLAlchemySaver(url) as saver:
        assert scalar(saver, "SELECT title FROM threads") == "t"


def test_c94_the_lock_is_one_of_the_connection_that_makes_the_changes(
    servers: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server goes on with the statement of a client that died: until it has ended, nobody else may begin."""
    url = servers.new("mariadb", tmp_path)
    put_once(url, "1")
    held = []

    def look(connection: sa.Connection) -> None:
        name = f"adjourn {sa.make_url(url).database}"
        who = sa.text("SELECT is_used_lock(:name) = connection_id()")
        held.append(connection.execute(who, {"name": name}).scalar())

    know(monkeypatch, look)
    assert not opened(url)
    assert held == [1]


KILLED = """
import os, signal, sys
from sqlalchemy import event
from adjourn.checkpoints.database import Database

database, changes = Database(sys.argv[1]), 0

@event.listens_for(database.engine, "after_cursor_execute")
def behind(connection, cursor, statement, *more):
    global changes
    changes += statement.lstrip().startswith("CREATE")
    if changes == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

database.setup()
"""


@pytest.mark.parametrize("creates", [1, 14, 40])
def test_c94_a_process_that_is_killed_while_it_creates_leaves_what_the_next_one_completes(
    servers: Engines, engine: str, whole: dict[str, Any], tmp_path: Path, creates: int
) -> None:
    url = servers.new(engine, tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, url, str(creates)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert shape_of(url) == whole
