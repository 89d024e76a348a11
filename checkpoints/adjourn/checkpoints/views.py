"""The views: the questions that people ask, as `v_...` (C-69, C-70). They are part of the public surface.

`views.sql` holds them in plain SQL, but for the words that each database says in its own way: `@ms(a, b)`,
the milliseconds between two stored times, and `@ranges(column)`, the messages `m` of a checkpoint of thread
`t`, with `@place`, their order, and `@is_ranges(column)`, whether there are any.
"""

import re
from importlib import resources

import sqlalchemy as sa
from sqlalchemy.engine import Connection

# Each word of views.sql, per database. `{0}` and `{1}` are the columns in its brackets.
_WORDS: dict[str, dict[str, str]] = {
    "sqlite": {
        "ms": "CAST(round((julianday({1}) - julianday({0})) * 86400000) AS INTEGER)",
        "ranges": (
            "json_each({0}, '$.messages') r JOIN messages m ON m.thread = t.id"
            " AND m.seq BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')"
        ),
        "place": "r.key, m.seq",
        "is_ranges": "json_type({0}, '$.messages') = 'array'",
    },
    "postgresql": {
        "ms": "CAST(extract(epoch FROM CAST({1} AS timestamptz) - CAST({0} AS timestamptz)) * 1000 AS INTEGER)",
        "ranges": (
            "LATERAL jsonb_array_elements(CASE WHEN jsonb_typeof(CAST({0} AS jsonb) -> 'messages') = 'array'"
            " THEN CAST({0} AS jsonb) -> 'messages' ELSE '[]' END) WITH ORDINALITY AS r (value, place)"
            " JOIN messages m ON m.thread = t.id"
            " AND m.seq BETWEEN CAST(r.value ->> 0 AS INTEGER) AND CAST(r.value ->> 1 AS INTEGER)"
        ),
        "place": "r.place, m.seq",
        "is_ranges": "1 = 1",
    },
    "mysql": {
        "ms": ("CAST(timestampdiff(MICROSECOND, left({0}, 26), left({1}, 26)) / 1000 AS SIGNED)"),
        "ranges": (
            "json_table({0}, '$.messages[*]' COLUMNS (place FOR ORDINALITY, first INT PATH '$[0]', last INT PATH '$[1]')) r"
            " JOIN messages m ON m.thread = t.id AND m.seq BETWEEN r.first AND r.last"
        ),
        "place": "r.place, m.seq",
        "is_ranges": "1 = 1",
    },
}
_WORDS["mariadb"] = _WORDS["mysql"]


def create_views(connection: Connection) -> None:
    """Create every view of `views.sql`."""
    for statement in view_statements(connection.dialect.name):
        if connection.dialect.name != "sqlite":
            # these drivers take % for a placeholder, and a comment may hold one
            connection.exec_driver_sql(statement.replace("%", "%%"))
        else:
            connection.exec_driver_sql(statement)


def drop_views(connection: Connection) -> None:
    """Drop every view, whatever version made it: they hold no data."""
    quote = connection.dialect.identifier_preparer.quote
    for name in sa.inspect(connection).get_view_names():
        if name.startswith("v_"):
            connection.exec_driver_sql(f"DROP VIEW {quote(name)}")


def view_statements(dialect: str) -> list[str]:
    """The CREATE VIEW statements of a database."""
    words = _WORDS[dialect]

    def said(match: re.Match[str]) -> str:
        return words[match[1]].format(*(part.strip() for part in (match[2] or "").split(",")))

    text = re.sub(r"@(\w+)(?:\(([^()]*)\))?", said, _text())
    parts = re.split(r";\s*$", text, flags=re.MULTILINE)
    return [part[part.index("CREATE VIEW") :].strip() for part in parts if "CREATE VIEW" in part]


def _text() -> str:
    return (
        resources.files(__package__ or "adjourn.checkpoints")
        .joinpath("views.sql")
        .read_text(encoding="utf-8")
    )
