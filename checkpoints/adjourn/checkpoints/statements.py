"""Pure: what is sent to the database for the checkpoint tables.

Each statement is built once, and compiled once per dialect; no value is ever part of its text (C-84).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql import bindparam as bind

from adjourn.checkpoints.compiled import Statement
from adjourn.checkpoints.schema import (
    channel_values,
    checkpoint_tree,
    checkpoint_writes,
    checkpoints,
    messages,
    namespaces,
    threads,
)

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def _always(statement: sa.ClauseElement) -> Statement:
    return Statement(lambda _dialect: statement)


def _numbered(insert: sa.Insert, number: sa.Column[int]) -> Statement:
    """An INSERT of one row that the database numbers: see `Statement.insert_one`."""
    return Statement(lambda dialect: insert.returning(number) if dialect == "postgresql" else insert)


def _insert(table: sa.Table, *, on_conflict: str = "fail") -> Statement:
    """An INSERT of all columns. `on_conflict`: `fail`, `keep` the old row, or `replace` it."""

    def build(dialect: str) -> sa.ClauseElement:
        if on_conflict == "fail":
            return table.insert()
        keys = [column.name for column in table.primary_key]
        others = [column.name for column in table.columns if column.name not in keys]
        if dialect in ("mysql", "mariadb"):
            from sqlalchemy.dialects import mysql  # here, as in `_upsert`: see `schema.py`

            insert = mysql.insert(table)
            # MySQL has no DO NOTHING but IGNORE, which also hides other errors: set the key to itself
            kept = {keys[0]: table.c[keys[0]]}
            return insert.on_duplicate_key_update(
                kept if on_conflict == "keep" else {name: insert.inserted[name] for name in others}
            )
        upsert = _upsert(table, dialect)
        if on_conflict == "keep":
            return upsert.on_conflict_do_nothing(index_elements=keys)
        return upsert.on_conflict_do_update(
            index_elements=keys, set_={name: upsert.excluded[name] for name in others}
        )

    return Statement(build)


def _upsert(table: sa.Table, dialect: str) -> "sqlite.Insert | postgresql.Insert":
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


# Threads and namespaces

find_thread = _always(
    sa.select(threads.c.id, threads.c.generation).where(threads.c.thread_id == bind("thread_id"))
)
find_namespaces = _always(
    sa.select(namespaces.c.ns, namespaces.c.id).where(namespaces.c.thread == bind("thread"))
)
insert_thread = _numbered(
    threads.insert().values(
        thread_id=bind("thread_id"), generation=0, created_at=bind("moment"), updated_at=bind("moment")
    ),
    threads.c.id,
)
insert_namespace = _numbered(
    namespaces.insert().values(thread=bind("thread"), ns=bind("ns")), namespaces.c.id
)
touch_thread = _always(
    threads.update()
    .where(threads.c.id == bind("thread"), threads.c.generation == bind("generation_known"))
    .values(updated_at=bind("moment"))
)
_IS_NEWER = sa.func.coalesce(threads.c.checkpoint_id, sa.literal_column("''")) <= bind("newest")
hold_thread = _always(
    threads.update()
    .where(threads.c.id == bind("thread"), threads.c.generation == bind("generation_known"))
    .values(generation=threads.c.generation)
)
advance_thread = _always(
    threads.update()
    .where(threads.c.id == bind("thread"), threads.c.generation == bind("generation_known"))
    .values(
        step=sa.case((_IS_NEWER, bind("newest_step")), else_=threads.c.step),  # before checkpoint_id: MySQL
        checkpoint_id=sa.case((_IS_NEWER, bind("newest")), else_=threads.c.checkpoint_id),
    )
)
know_generation = _always(
    sa.select(threads.c.id)
    .where(threads.c.id == bind("thread"), threads.c.generation == bind("generation_known"))
    .with_for_update(read=True)  # who waited for another row in this statement looks again
)

# Rows of a thread

insert_message = _insert(messages)
insert_channel_value = _insert(channel_values)
last_message = _always(sa.select(sa.func.max(messages.c.seq)).where(messages.c.thread == bind("thread")))
last_value = _always(
    sa.select(sa.func.max(channel_values.c.seq)).where(channel_values.c.thread == bind("thread"))
)
last_message_between = _always(
    sa.select(sa.func.max(messages.c.seq)).where(
        messages.c.thread == bind("thread"), messages.c.seq.between(bind("first"), bind("last"))
    )
)
last_value_between = _always(
    sa.select(sa.func.max(channel_values.c.seq)).where(
        channel_values.c.thread == bind("thread"), channel_values.c.seq.between(bind("first"), bind("last"))
    )
)
read_messages = _always(
    sa.select(
        messages.c.seq,
        messages.c.message_id,
        messages.c.role,
        messages.c.name,
        messages.c.content,
        messages.c.tool_call_id,
        messages.c.tool_calls,
        messages.c.rest,
        messages.c.hash,
    )
    .where(messages.c.thread == bind("thread"), messages.c.seq.between(bind("first"), bind("last")))
    .order_by(messages.c.seq)
)
read_values = _always(
    sa.select(channel_values.c.seq, channel_values.c.value, channel_values.c.hash)
    .where(
        channel_values.c.thread == bind("thread"), channel_values.c.seq.between(bind("first"), bind("last"))
    )
    .order_by(channel_values.c.seq)
)

# Checkpoints and writes

put_checkpoint = _insert(checkpoints, on_conflict="replace")
keep_write = _insert(checkpoint_writes, on_conflict="keep")
replace_write = _insert(checkpoint_writes, on_conflict="replace")
read_writes = _always(
    sa.select(
        checkpoint_writes.c.task_id,
        checkpoint_writes.c.channel,
        checkpoint_writes.c.value,
        checkpoint_writes.c.idx,
    )
    .where(
        checkpoint_writes.c.namespace == bind("namespace"),
        checkpoint_writes.c.checkpoint_id == bind("checkpoint_id"),
    )
    .order_by(checkpoint_writes.c.task_path, checkpoint_writes.c.task_id, checkpoint_writes.c.idx)
)

CHECKPOINT_COLUMNS = (
    threads.c.id,
    threads.c.thread_id,
    threads.c.generation,
    namespaces.c.id,
    namespaces.c.ns,
    checkpoints.c.checkpoint_id,
    checkpoints.c.parent_id,
    checkpoints.c.ts,
    checkpoints.c.channels,
    checkpoints.c.channel_versions,
    checkpoints.c.versions_seen,
    checkpoints.c.metadata,
    checkpoints.c.rest,
)
_of_namespace = (
    sa.select(*CHECKPOINT_COLUMNS)
    .select_from(checkpoint_tree)
    .where(threads.c.thread_id == bind("thread_id"), namespaces.c.ns == bind("ns"))
)
newest_checkpoint = _always(_of_namespace.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
one_checkpoint = _always(_of_namespace.where(checkpoints.c.checkpoint_id == bind("checkpoint_id")))
read_refs = _always(
    sa.select(checkpoints.c.channels, checkpoints.c.channel_versions, checkpoints.c.parent_id).where(
        checkpoints.c.namespace == bind("namespace"), checkpoints.c.checkpoint_id == bind("checkpoint_id")
    )
)


def list_checkpoints(
    *,
    thread_id: str | None,
    ns: str | None,
    checkpoint_id: str | None,
    before: str | None,
    columns: Mapping[str, Any],
    behind: tuple[str, int] | None,
    limit: int,
) -> sa.Select[*tuple[Any, ...]]:
    """Checkpoints, newest first, at most `limit`. `None`: not restricted by it.

    `before`: older than this checkpoint id. `columns`: values that columns of `checkpoints` must have.
    `behind`: go on behind this (checkpoint id, namespace), which was the last row of the page before.
    """
    query = sa.select(*CHECKPOINT_COLUMNS).select_from(checkpoint_tree)
    if thread_id is not None:
        query = query.where(threads.c.thread_id == thread_id)
    if ns is not None:
        query = query.where(namespaces.c.ns == ns)
    if checkpoint_id is not None:
        query = query.where(checkpoints.c.checkpoint_id == checkpoint_id)
    if before is not None:
        query = query.where(checkpoints.c.checkpoint_id < before)
    for name, value in columns.items():
        query = query.where(checkpoints.c[name] == value)
    if behind is not None:
        last_id, last_namespace = behind
        older = checkpoints.c.checkpoint_id < last_id
        beside = sa.and_(checkpoints.c.checkpoint_id == last_id, checkpoints.c.namespace < last_namespace)
        query = query.where(sa.or_(older, beside))
    return query.order_by(checkpoints.c.checkpoint_id.desc(), checkpoints.c.namespace.desc()).limit(limit)
