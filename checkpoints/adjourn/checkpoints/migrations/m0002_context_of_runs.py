"""Version 2: a run has a context."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_ADD = {  # a comment in C's form, since SQLite keeps it and writes the rest of the table behind it
    "sqlite": "context TEXT /* what its caller said about it, as JSON, for tools, rules and prompts */",
    "postgresql": "context TEXT",
    "mysql": "context LONGTEXT CHARACTER SET utf8mb4",
    "mariadb": "context LONGTEXT CHARACTER SET utf8mb4",
}


def upgrade(connection: Connection) -> None:
    """Add the column where it is missing."""
    if "context" not in {one["name"] for one in sa.inspect(connection).get_columns("runs")}:
        connection.exec_driver_sql(f"ALTER TABLE runs ADD COLUMN {_ADD[connection.dialect.name]}")
