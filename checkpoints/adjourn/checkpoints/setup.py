"""Creates what is missing in a database, and refuses one that a newer version wrote."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from adjourn.checkpoints import run_schema  # noqa: F401 - its tables are part of the metadata
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.errors import SchemaVersionError
from adjourn.checkpoints.schema import metadata, schema_version

VERSION = 1  # of the tables; one more with each migration


def prepare(database: Database) -> None:
    """Create tables and views if they are missing, in one transaction.

    Safe when several processes open a new database at once: one creates, the others wait and find it done.
    Raises `SchemaVersionError` when the database is newer than this program; then nothing was touched.
    """
    database.write_unprepared(_prepare)


def _prepare(connection: Connection) -> None:
    found = _version(connection)
    if found is not None and found > VERSION:
        raise SchemaVersionError(found, VERSION)
    if found == VERSION:
        return
    metadata.create_all(connection)
    row = {"id": 1, "version": VERSION, "updated_at": now()}
    connection.execute(schema_version.insert().values(row))


def _version(connection: Connection) -> int | None:
    if not sa.inspect(connection).has_table("schema_version"):
        return None
    return connection.execute(sa.select(schema_version.c.version)).scalar()
