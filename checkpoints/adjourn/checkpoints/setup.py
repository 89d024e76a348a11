"""Creates what is missing in a database, upgrades an older one, and refuses one that a newer version wrote."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.ddl import sqlite_statements
from adjourn.checkpoints.errors import SchemaVersionError, StoreError
from adjourn.checkpoints.migrations import MIGRATIONS
from adjourn.checkpoints.run_schema import runs
from adjourn.checkpoints.schema import schema_version
from adjourn.checkpoints.views import create_views, drop_views

VERSION = 1 + len(MIGRATIONS)  # of the tables, as this program makes them
LOCK = 6_420_901_177  # names the lock under which PostgreSQL creates and upgrades; any number does
LOCK_TIMEOUT_S = 60
# MySQL commits each change of a table by itself, so that a database there may have been left in the middle of something.
CREATING = 0  # the version of one whose tables are being made
UPGRADING = 1_000_000  # and the version to which its tables are being brought: an older program takes it for a newer one's

TABLES = runs.metadata  # of the saver and of the runtime: each module adds its tables when it is imported


def prepare(database: Database) -> int | None:
    """Create tables and views if they are missing, upgrade older ones, in one transaction (C-94).

    Gives the version that was found; None for a database without tables. Safe when several processes open a
    database at once: one does it, the others wait and find it done.
    Raises `SchemaVersionError` when the database is newer than this program; then nothing was touched.
    Raises `StoreError` when the database holds tables of these names that are not Adjourn's.
    """
    # Most openings find everything done, and wait for nobody who writes.
    found = database.read_unprepared(_version)
    if found == VERSION:
        return found
    if found is not None and found % UPGRADING > VERSION:
        raise SchemaVersionError(found % UPGRADING, VERSION)
    database.write_unprepared(_bring_up)
    return None if found is None else _reached(found) or None


def _reached(found: int) -> int:
    """The version whose tables are all there; 0: those of none."""
    return found - UPGRADING - 1 if found > UPGRADING else found


def _version(connection: Connection) -> int | None:
    if not sa.inspect(connection).has_table(schema_version.name):
        return None
    version: int | None = connection.execute(sa.select(schema_version.c.version)).scalar()
    return version


@contextmanager
def _turn(connection: Connection) -> Iterator[None]:
    """Wait until no other process creates or upgrades. (On SQLite whoever writes is alone.)

    The lock is one of the connection that makes the changes: where its process dies, the server may go on with the
    statement in hand, and the lock holds until that has ended.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    if not _commits_by_itself(connection):
        yield
        return
    name = f"adjourn {connection.engine.url.database}"[:64]  # locks are the server's, not a database's
    if connection.execute(sa.select(sa.func.get_lock(name, LOCK_TIMEOUT_S))).scalar() != 1:
        raise StoreError(
            f"another process has been creating or upgrading this database for {LOCK_TIMEOUT_S} s; "
            "try again when it has ended"
        )
    try:
        yield
        connection.exec_driver_sql("COMMIT")  # or the next one would not find the new version
    finally:
        with suppress(DBAPIError):  # a connection that is lost holds it no more
            connection.execute(sa.select(sa.func.release_lock(name)))


def _bring_up(connection: Connection) -> None:
    """Create or upgrade, unless another process has done so in the meantime."""
    with _turn(connection):
        found = _version(connection)
        if found is None:
            _refuse_foreign(connection)
            _create(connection)
        elif found == CREATING:  # that was cut off, and nothing is stored yet
            drop_views(connection)
            # without the version, what is left when this is cut off would be taken for another program's
            TABLES.drop_all(connection, [one for one in TABLES.sorted_tables if one is not schema_version])
            _create(connection)
        elif _reached(found) < VERSION:  # some of the next version may be there, if it was cut off
            _upgrade(connection, _reached(found))


def _refuse_foreign(connection: Connection) -> None:
    present = set(sa.inspect(connection).get_table_names()) & set(TABLES.tables)
    if _commits_by_itself(connection):
        present -= {schema_version.name}  # without a row: it was just being made when we were cut off
    if present:
        foreign = ", ".join(sorted(present))
        raise StoreError(
            f"the database holds tables that are not Adjourn's: {foreign}; name another database"
        )


def _create(connection: Connection) -> None:
    row = schema_version.insert().values(id=1, version=CREATING, updated_at=now())
    if connection.dialect.name == "sqlite":
        for statement in sqlite_statements(TABLES):
            connection.exec_driver_sql(statement)
        connection.execute(row)
    else:
        schema_version.create(connection, checkfirst=True)
        if _version(connection) is None:
            connection.execute(row)
        TABLES.create_all(connection)
    create_views(connection)
    _set_version(connection, VERSION)


def _commits_by_itself(connection: Connection) -> bool:
    return connection.dialect.name in ("mysql", "mariadb")


def _set_version(connection: Connection, version: int) -> None:
    connection.execute(schema_version.update().values(version=version, updated_at=now()))


def _upgrade(connection: Connection, found: int) -> None:
    for migration in MIGRATIONS:
        if migration.version > found:
            # before anything is changed: a DDL commits it on MySQL
            _set_version(connection, UPGRADING + migration.version)
            drop_views(connection)  # a view would hold fast the columns that it shows
            migration.upgrade(connection)
    create_views(connection)
    _set_version(connection, VERSION)
