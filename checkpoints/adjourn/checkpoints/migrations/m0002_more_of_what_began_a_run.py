"""Version 2: a run has a context, and its message may be more than a text."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_LONG = {"mysql": "LONGTEXT CHARACTER SET utf8mb4", "mariadb": "LONGTEXT CHARACTER SET utf8mb4"}


def upgrade(connection: Connection) -> None:
    """Add what is missing."""
    look, long = sa.inspect(connection), _LONG.get(connection.dialect.name, "TEXT")
    known = {one["name"]: one["type"] for one in look.get_columns("runs")}
    # comments in C's form: SQLite keeps them, and writes the rest of the table behind them
    added = {
        "context": f"{long} /* what its caller said about it, as JSON, for tools, rules and prompts */",
        "attached": "INTEGER DEFAULT '0' NOT NULL /* images and files beside the text; `inputs` has all of it */",
    }
    for name, kind in added.items():
        if name not in known:
            connection.exec_driver_sql(f"ALTER TABLE runs ADD COLUMN {name} {kind}")
    if not look.has_table("inputs"):
        run_id = known["id"].compile(dialect=connection.dialect)  # as this database compares ids
        connection.exec_driver_sql(
            f"CREATE TABLE inputs (run_id {run_id} NOT NULL, "
            f"blocks {long} NOT NULL /* the user's message as content blocks, JSON */, "
            "CONSTRAINT pk_inputs PRIMARY KEY (run_id))"
        )
