"""What SQLite is given to create the tables: with the comments of `schema.py` in them.

SQLite keeps the text of a CREATE as it was given, so `sqlite3 FILE .schema` reads like documentation. Other
databases have comments of their own, which SQLAlchemy writes.
"""

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable


def sqlite_statements(metadata: sa.MetaData) -> Iterator[str]:
    """The CREATE of each table and index, in an order that can be executed."""
    dialect = sqlite.dialect()
    for table in metadata.sorted_tables:
        yield _commented(table, str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield str(CreateIndex(index).compile(dialect=dialect))


def _commented(table: sa.Table, text: str) -> str:
    lines = []
    for line in text.strip().splitlines():
        name = line.split()[0].strip('"') if line.split() else ""
        column = table.columns.get(name)
        if line.startswith("CREATE TABLE") and table.comment:
            lines.append(f"{line.rstrip()} -- {table.comment}")
        elif column is not None and column.comment:
            lines.append(f"{line.rstrip()} -- {column.comment}")
        elif line.strip():
            lines.append(line.rstrip())
    return "\n".join(lines)
