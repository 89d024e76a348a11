"""The tables, as SQLAlchemy Core. Each constraint and index carries one line of reason.

Times are ISO 8601 text in UTC with microseconds and a `Z`, so that they sort as text on every database
and read without a tool. JSON is kept as text, exactly as written: `jsonb` would reorder and round it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


# SQLAlchemy's types and options for one database come with all that it knows about that database: a tenth of a second for
# each that a process does not use. So MySQL's type is named here, and PostgreSQL's options are added when it makes tables.


class _LongText(Text):
    """MySQL's type for more than 64 KB."""

    __visit_name__ = "LONGTEXT"

    def __init__(self, *, charset: str | None = None, collation: str | None = None) -> None:
        super().__init__(collation=collation)
        self.charset = charset


@event.listens_for(metadata, "before_create")
def _partial_on_postgresql(_target: MetaData, connection: Any, **_settings: Any) -> None:
    """Make each index that is partial on SQLite partial on PostgreSQL too."""
    if connection.dialect.name != "postgresql":
        return
    for index in (one for table in metadata.tables.values() for one in table.indexes):
        where = index.dialect_options["sqlite"]["where"]
        if where is not None:
            index.dialect_kwargs["postgresql_where"] = where


PADDED = "utf8mb4_bin"  # of MySQL: exact, but for blanks at the end
_EXACT_ON_MYSQL: list[String] = []  # types whose collation is named when the server is known


def _exact(plain: String, on_mysql: String, on_postgresql: String) -> TypeEngine[str]:
    """Text that is compared and sorted byte by byte.

    MySQL would take `a` for `A` and `a ` for `a`, and PostgreSQL would sort by the rules of a language; ids are exact, and
    LangGraph's order is that of the characters.
    """
    _EXACT_ON_MYSQL.append(on_mysql)
    return plain.with_variant(on_mysql, "mysql", "mariadb").with_variant(on_postgresql, "postgresql")


def _exact_up_to(length: int) -> TypeEngine[str]:
    return _exact(String(length), String(length, collation=PADDED), String(length, collation="C"))


def exact_collation(dialect: Any) -> str:
    """The collation of a MySQL or MariaDB server by which no two texts are equal. An old MySQL has none, and drops blanks at
    the end."""
    if dialect.is_mariadb:
        return "utf8mb4_nopad_bin"
    return "utf8mb4_0900_bin" if (dialect.server_version_info or ()) >= (8, 0, 17) else PADDED


@event.listens_for(metadata, "before_create")
def _exact_on_mysql(_target: MetaData, connection: Any, **_settings: Any) -> None:
    if connection.dialect.name in ("mysql", "mariadb"):
        for one in _EXACT_ON_MYSQL:
            one.collation = exact_collation(connection.dialect)


ID = _exact_up_to(255)
WORD = _exact_up_to(32)
TIME = String(27)  # 2026-11-29T22:33:01.123456Z
# MySQL's TEXT ends at 64 KB, and its character set is the database's unless it is named
LONG = Text().with_variant(_LongText(charset="utf8mb4"), "mysql", "mariadb")
# Nested subgraphs add about 50 characters a level; 700 are the most that MySQL can index in utf8mb4.
NS = _exact_up_to(700)
# as exact as ID, of any length
PATH = _exact(Text(), _LongText(collation=PADDED), Text(collation="C"))
NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows only in a column typed INTEGER


def one_of(column: str, words: Iterable[StrEnum]) -> CheckConstraint:
    """A CHECK that `column` holds one of the words of an enum (or NULL)."""
    listed = ", ".join(f"'{word.value}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


threads = Table(
    "threads",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("thread_id", ID, nullable=False, comment="the name that callers use"),
    Column("checkpoint_id", ID, comment="newest checkpoint of the root namespace"),
    Column("step", Integer, comment="its step; -1 is the input"),
    Column(
        "generation", Integer, nullable=False, comment="grows when rows are taken away: caches are then void"
    ),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False, comment="of the last checkpoint, to a second"),
    UniqueConstraint("thread_id"),  # two processes that open one thread meet in one row
    Index("ix_threads_updated_at", "updated_at"),  # the newest threads, without reading any checkpoint
    comment="a conversation; whether it waits for people is told by v_threads",
    sqlite_autoincrement=True,  # the id of a deleted thread never names another one
)

namespaces = Table(
    "namespaces",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("thread", NUMBER, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("ns", NS, nullable=False, comment="'' is the graph itself, others are its subgraphs"),
    UniqueConstraint("thread", "ns"),  # one row per subgraph of a thread
    comment="where in the graph a checkpoint belongs",
    sqlite_autoincrement=True,  # as for threads
)

messages = Table(
    "messages",
    metadata,
    Column("thread", NUMBER, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False, comment="its number; the order is told by checkpoints.channels"),
    Column("message_id", ID),
    Column("role", WORD, nullable=False, comment="user, assistant, tool, system, function, chat or other"),
    Column("name", ID),
    Column("content", LONG, nullable=False, comment="the text; content blocks as JSON"),
    Column("tool_call_id", ID, comment="of a tool message: the call it answers"),
    Column("tool_calls", LONG, comment="of an assistant message: its calls, as JSON"),
    Column("rest", LONG, comment="every other field, as JSON"),
    Column("hash", WORD, nullable=False, comment="of all the columns from message_id to rest"),
    PrimaryKeyConstraint("thread", "seq"),  # checkpoints name messages by seq
    comment="each message once, whatever number of checkpoints holds it",
    sqlite_with_rowid=False,  # the key is the only way in: no second tree
)

channel_values = Table(
    "channel_values",
    metadata,
    Column("thread", NUMBER, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column(
        "seq",
        Integer,
        nullable=False,
        comment="its number, named by checkpoints.channels and by other values",
    ),
    Column("channel", ID, nullable=False, comment="the channel that stored it first"),
    Column("value", LONG, nullable=False, comment='JSON; {"!": type, "v": ...} is what JSON cannot say'),
    Column("hash", WORD, nullable=False, comment="of value"),
    PrimaryKeyConstraint("thread", "seq"),  # checkpoints name values by seq
    comment="every value that is no list of messages, once, and the parts of large ones",
    sqlite_with_rowid=False,  # as for messages
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("namespace", NUMBER, ForeignKey("namespaces.id", ondelete="CASCADE"), nullable=False),
    Column("checkpoint_id", ID, nullable=False, comment="a newer one sorts behind an older one"),
    Column("parent_id", ID, comment="the checkpoint it was made from; forks share one"),
    Column("ts", WORD, nullable=False, comment="ISO 8601, as LangGraph gives it"),
    Column("source", WORD, comment="input, loop, update or fork"),
    Column("step", Integer),
    Column("run_id", ID, comment="LangGraph's run id, where the caller gave one"),
    Column(
        "channels",
        LONG,
        nullable=False,
        comment='per channel: [[first, last], ...] of messages.seq, channel_values.seq, or {"v": value}',
    ),
    Column("channel_versions", LONG, nullable=False, comment="JSON"),
    Column("versions_seen", LONG, nullable=False, comment="JSON"),
    Column("metadata", LONG, nullable=False, comment="JSON"),
    Column("rest", LONG, comment="every other field of the checkpoint, as JSON"),
    PrimaryKeyConstraint("namespace", "checkpoint_id"),  # read newest first
    # the newest of all threads, without reading all: 6 microseconds a put
    Index("ix_checkpoints_checkpoint_id_namespace", "checkpoint_id", "namespace"),
    # delete_for_runs finds its rows without reading all; most rows have no run id
    Index(
        "ix_checkpoints_run_id",
        "run_id",
        sqlite_where=text("run_id IS NOT NULL"),
    ),
    comment="the state after each superstep, as references",
    sqlite_with_rowid=False,  # the key is 36 characters: stored once
)

checkpoint_writes = Table(
    "checkpoint_writes",
    metadata,
    Column("namespace", NUMBER, ForeignKey("namespaces.id", ondelete="CASCADE"), nullable=False),
    # no foreign key to checkpoints: LangGraph may store writes before their checkpoint
    Column("checkpoint_id", ID, nullable=False),
    Column("task_id", ID, nullable=False),
    Column(
        "idx",
        Integer,
        nullable=False,
        comment="position in the task; negative for errors, interrupts, answers",
    ),
    Column(
        "task_path",
        PATH,
        nullable=False,
        comment="LangGraph applies writes in order of (task_path, task_id, idx)",
    ),
    Column("channel", ID, nullable=False),
    Column("value", LONG, nullable=False, comment="JSON, as in channel_values"),
    PrimaryKeyConstraint("namespace", "checkpoint_id", "task_id", "idx"),  # a task writes each position once
    comment="what tasks wrote behind a checkpoint, before the next one took it up",
    sqlite_with_rowid=False,  # as for checkpoints
)

schema_version = Table(
    "schema_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="always 1"),
    Column("version", Integer, nullable=False),
    Column("updated_at", TIME, nullable=False),
    CheckConstraint("id = 1", name="one_row"),  # a database has one version
    comment="the version of these tables; a newer program upgrades, an older one refuses",
)

# Each checkpoint with its namespace and its thread, for statements that look from one to the other.
checkpoint_tree = threads.join(namespaces, namespaces.c.thread == threads.c.id).join(
    checkpoints, checkpoints.c.namespace == namespaces.c.id
)
