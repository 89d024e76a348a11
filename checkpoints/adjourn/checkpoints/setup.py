"""Creates what is missing in a database, and refuses one that a newer version wrote."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.ddl import sqlite_statements
from adjourn.checkpoints.errors import SchemaVersionError, StoreError
from adjourn.checkpoints.run_schema import runs
from adjourn.checkpoints.schema import schema_version
from adjourn.checkpoints.views import create_views

VERSION = 1  # of the tables; one more with each migration
LOCK = 6_420_901_177  # names the lock under which PostgreSQL and MySQL create; any number does
LOCK_TIMEOUT_S = 60

TABLES = runs.metadata  # of the saver and of the runtime: each module adds its tables when it is imported


def prepare(database: Database) -> None:
    """Create tables and views if they are missing, in one transaction.

    Safe when several processes open a new database at once: one creates, the others wait and find it done.
    Raises `SchemaVersionError` when the database is newer than this program; then nothing was touched.
    Raises `StoreError` when the database holds tables of these names that are not Adjourn's.
    """
    database.write_unprepared(_prepare)


def _prepare(connection: Connection) -> None:
    # A query for one row first: most openings find everything done and need no lock.
    found = _version(connection)
    if found is None:
        _lock(connection)
        found = _version(connection)
    if found is not None and found > VERSION:
        raise SchemaVersionError(found, VERSION)
    if found is None:
        _create(connection)


def _version(connection: Connection) -> int | None:
    if not sa.inspect(connection).has_table(schema_version.name):
        return None
    version: int | None = connection.execute(sa.select(schema_version.c.version)).scalar()
    return version


def _lock(connection: Connection) -> None:
    """Wait until no other process creates. SQLite needs nothing: a writing transaction is alone."""
    name = connection.dialect.name
    if name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    elif name in ("mysql", "mariadb"):
        connection.execute(sa.select(sa.func.get_lock(str(LOCK), LOCK_TIMEOUT_S)))


def _create(connection: Connection) -> None:
    present = set(sa.inspect(connection).get_table_names())
    if foreign := sorted(present & set(TABLES.tables)):
        raise StoreError(
            f"the database holds tables that are not Adjourn's: {', '.join(foreign)}; name another database"
        )
    if connection.dialect.name == "sqlite":
        for statement in sqlite_statements(TABLES):
            connection.exec_driver_sql(statement)
    else:
        TABLES.create_all(connection)
    create_views(connection)
    row = {"id": 1, "version": VERSION, "updated_at": now()}
    connection.execute(schema_version.insert().values(row))
