"""What is done to whole threads: delete, copy, prune. Each function is one transaction's work.

Messages and values have no owner among the checkpoints: they are taken away when no checkpoint and no write
of the thread refers to them any more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult

from adjourn.checkpoints.compiled import Statement
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import StoredDataError, UsageError
from adjourn.checkpoints.schema import (
    channel_values,
    checkpoint_tree,
    checkpoint_writes,
    checkpoints,
    messages,
    namespaces,
    threads,
)
from adjourn.checkpoints.stored_json import TAG, Json, expand, is_ranges, stored_object, stored_tree

Item = TypeVar("Item")

BATCH = 500  # values in one IN (...): SQLite takes 999 at most where it was built long ago


def hold(connection: Connection, thread_id: str) -> None:
    """Keep a thread from being pruned, or from getting a run, until the transaction ends.

    On SQLite a writer is alone anyhow. A thread without a row has nothing that could be pruned.
    """
    if connection.dialect.name != "sqlite":
        _hold.ask(connection, {"of_thread": thread_id})


_hold = Statement(
    lambda _: (
        sa.select(threads.c.id).where(threads.c.thread_id == sa.bindparam("of_thread")).with_for_update()
    )
)


def has_checkpoints(connection: Connection, thread_id: str) -> bool:
    """Whether anything of a thread was stored."""
    return _has_checkpoints.first(connection, {"of_thread": thread_id}) is not None


_has_checkpoints = Statement(
    lambda _: (
        sa.select(checkpoints.c.checkpoint_id)
        .select_from(checkpoint_tree)
        .where(threads.c.thread_id == sa.bindparam("of_thread"))
        .limit(1)
    )
)


def delete_threads(connection: Connection, thread_ids: Sequence[str]) -> None:
    """Take away threads; their rows in the other tables go with them."""
    connection.execute(threads.delete().where(threads.c.thread_id.in_(thread_ids)))


def copy_thread(connection: Connection, source: str, target: str, *, up_to: str | None = None) -> None:
    """Copy a thread's rows. References are numbers within a thread, so they are copied as they are.

    `up_to`: the last checkpoint that is copied; what was written behind it is not. None: all.
    """
    taken = sa.select(threads.c.id).where(threads.c.thread_id == target)
    if connection.execute(taken).first() is not None:
        raise UsageError(f"thread {target!r} exists already; copy to a thread that does not")
    held = sa.select(threads).where(threads.c.thread_id == source).with_for_update()  # nobody prunes it now
    found = connection.execute(held).mappings().first()
    if found is None:
        return
    row = {**found, "thread_id": target, "updated_at": now()}
    old = row.pop("id")
    new = _made_id(connection.execute(threads.insert().values(row)))
    for table in (messages, channel_values):
        _copy_rows(connection, table, "thread", old, new)
    older: sa.ColumnElement[bool] = sa.true()
    behind: sa.ColumnElement[bool] = sa.true()
    if up_to is not None:
        older, behind = checkpoints.c.checkpoint_id <= up_to, checkpoint_writes.c.checkpoint_id < up_to
    for namespace, ns in _namespaces(connection, old):
        made = _made_id(connection.execute(namespaces.insert().values(thread=new, ns=ns)))
        _copy_rows(connection, checkpoints, "namespace", namespace, made, which=older)
        _copy_rows(connection, checkpoint_writes, "namespace", namespace, made, which=behind)
    if up_to is not None:
        _drop_unused(connection, new)
        _name_newest(connection, new)


def _made_id(result: CursorResult[Any]) -> int:
    """The id that an INSERT of one row gave it."""
    key = result.inserted_primary_key
    if key is None:
        raise AssertionError("an INSERT of one row gives its key")
    return int(key[0])


def _copy_rows(
    connection: Connection,
    table: sa.Table,
    owner: str,
    old: int,
    new: int,
    *,
    which: sa.ColumnElement[bool] | None = None,
) -> None:
    names = [column.name for column in table.columns]
    rows = sa.select(*(sa.literal(new) if name == owner else table.c[name] for name in names))
    wanted = sa.and_(table.c[owner] == old, sa.true() if which is None else which)
    connection.execute(table.insert().from_select(names, rows.where(wanted)))


def _namespaces(connection: Connection, thread: int) -> list[tuple[int, str]]:
    query = sa.select(namespaces.c.id, namespaces.c.ns).where(namespaces.c.thread == thread)
    return [(row.id, row.ns) for row in connection.execute(query)]


def pruning(strategy: str) -> Callable[..., None]:
    """The work of a strategy. Raises `UsageError` for an unknown one."""
    if strategy == "keep_latest":
        return keep_latest
    if strategy == "delete":
        return delete_threads
    raise UsageError(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")


def keep_latest(connection: Connection, thread_ids: Sequence[str]) -> None:
    """Take away all but the newest checkpoint of each namespace, and what its DeltaChannels need."""
    for thread_id in thread_ids:
        shrink(connection, thread_id, lambda rows: {max(rows)} if rows else set())


def threads_of_runs(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """The threads that hold checkpoints of these runs."""
    found: list[str] = []
    for batch in batches(run_ids):
        query = (
            sa.select(threads.c.thread_id).select_from(checkpoint_tree).where(checkpoints.c.run_id.in_(batch))
        )
        found += connection.execute(query.distinct()).scalars()
    return list(dict.fromkeys(found))


def delete_runs(connection: Connection, thread_id: str, run_ids: Sequence[str]) -> None:
    """Take the checkpoints of these runs out of a thread."""
    unwanted = set(run_ids)
    shrink(
        connection, thread_id, lambda rows: {key for key, row in rows.items() if row.run_id not in unwanted}
    )


Rows = dict[str, Any]  # checkpoint id -> its row, of one namespace


def shrink(connection: Connection, thread_id: str, wanted: Callable[[Rows], set[str]]) -> None:
    """Keep the checkpoints that `wanted` names, and what they need; void every process's memory."""
    hold(connection, thread_id)  # else another process could store a reference to a row that goes here
    thread = connection.execute(sa.select(threads.c.id).where(threads.c.thread_id == thread_id)).scalar()
    if thread is None:
        return
    grown = threads.update().where(threads.c.id == thread).values(generation=threads.c.generation + 1)
    connection.execute(grown)
    for namespace, _ns in _namespaces(connection, thread):
        _shrink_namespace(connection, namespace, wanted)
    _drop_unused(connection, thread)
    _name_newest(connection, thread)


def _shrink_namespace(connection: Connection, namespace: int, wanted: Callable[[Rows], set[str]]) -> None:
    query = sa.select(
        checkpoints.c.checkpoint_id,
        checkpoints.c.parent_id,
        checkpoints.c.run_id,
        checkpoints.c.ts,
        checkpoints.c.channels,
        checkpoints.c.metadata,
    ).where(checkpoints.c.namespace == namespace)
    rows: Rows = {row.checkpoint_id: row for row in connection.execute(query)}
    kept = wanted(rows)
    for checkpoint_id in list(kept):
        kept |= _delta_ancestors(rows, checkpoint_id)
    gone = [checkpoint_id for checkpoint_id in rows if checkpoint_id not in kept]
    for batch in batches(gone):
        for table in (checkpoint_writes, checkpoints):
            here = sa.and_(table.c.namespace == namespace, table.c.checkpoint_id.in_(batch))
            connection.execute(table.delete().where(here))


def _delta_ancestors(rows: Rows, checkpoint_id: str) -> set[str]:
    """The ancestors back to the nearest stored value of each DeltaChannel of a checkpoint."""
    row = rows[checkpoint_id]
    counters = (
        stored_object("checkpoints", checkpoint_id, row.metadata).get("counters_since_delta_snapshot") or {}
    )
    open_channels = set(counters) - set(stored_object("checkpoints", checkpoint_id, row.channels))
    needed: set[str] = set()
    while open_channels and (row := rows.get(row.parent_id)) and row.checkpoint_id not in needed:
        needed.add(row.checkpoint_id)
        open_channels -= set(stored_object("checkpoints", row.checkpoint_id, row.channels))
    return needed


def _drop_unused(connection: Connection, thread: int) -> None:
    """Take away the messages and values that nothing in the thread refers to."""
    values = dict(_values_of(connection, thread))
    used_messages: set[int] = set()
    waiting: list[int] = []
    used_values: set[int] = set()
    for tree in _roots(connection, thread):
        _collect(tree, used_messages, waiting)
    while waiting:
        seq = waiting.pop()
        if seq not in used_values:
            used_values.add(seq)
            if '"!"' in values.get(seq, ""):
                _collect(
                    stored_tree("channel_values", f"thread {thread} seq {seq}", values[seq]),
                    used_messages,
                    waiting,
                )
    known = connection.execute(sa.select(messages.c.seq).where(messages.c.thread == thread)).scalars()
    _delete_rows(connection, messages, thread, (seq for seq in known.all() if seq not in used_messages))
    _delete_rows(connection, channel_values, thread, (seq for seq in values if seq not in used_values))


def _values_of(connection: Connection, thread: int) -> Iterator[tuple[int, str]]:
    query = sa.select(channel_values.c.seq, channel_values.c.value).where(channel_values.c.thread == thread)
    yield from connection.execute(query)


def _roots(connection: Connection, thread: int) -> Iterator[Json]:
    """The trees from which everything else is referred to."""
    for namespace, _ns in _namespaces(connection, thread):
        query = sa.select(
            checkpoints.c.checkpoint_id, checkpoints.c.channels, checkpoints.c.metadata, checkpoints.c.rest
        )
        for key, channels, metadata, rest in connection.execute(
            query.where(checkpoints.c.namespace == namespace)
        ):
            for reference in stored_object("checkpoints", key, channels).values():
                yield _as_tagged(reference)
            yield stored_tree("checkpoints", key, metadata)
            yield stored_tree("checkpoints", key, rest) if rest else None
        writes = sa.select(checkpoint_writes.c.task_id, checkpoint_writes.c.value)
        for key, text in connection.execute(writes.where(checkpoint_writes.c.namespace == namespace)):
            yield stored_tree("checkpoint_writes", key, text)


def _as_tagged(reference: Json) -> Json:
    if type(reference) is list:
        return {TAG: "messages", "v": reference}
    return {TAG: "part", "v": reference} if type(reference) is int else reference


def _collect(tree: Json, used_messages: set[int], used_values: list[int]) -> None:
    """Add the numbers that a tree refers to."""
    if type(tree) is list:
        for member in tree:
            _collect(member, used_messages, used_values)
    elif type(tree) is dict:
        content: Any = tree.get("v")
        match tree.get(TAG):
            case "messages" if is_ranges(content):
                used_messages.update(expand(content))
            case "message" if type(content) is int:
                used_messages.add(content)
            case "part" if type(content) is int:
                used_values.append(content)
            case "parts" if is_ranges(content):
                used_values.extend(expand(content))
            case "messages" | "message" | "part" | "parts" as tag:
                raise StoredDataError("checkpoints", tag, "what it refers to is no number")
            case _:
                _collect(list(tree.values()), used_messages, used_values)


def _delete_rows(connection: Connection, table: sa.Table, thread: int, seqs: Iterable[int]) -> None:
    for batch in batches(list(seqs)):
        connection.execute(table.delete().where(table.c.thread == thread, table.c.seq.in_(batch)))


def _name_newest(connection: Connection, thread: int) -> None:
    """Let the thread name its newest checkpoint again; a thread without any is taken away."""
    tree = namespaces.join(checkpoints, checkpoints.c.namespace == namespaces.c.id)
    here = sa.select(checkpoints.c.checkpoint_id, checkpoints.c.step, namespaces.c.ns)
    rows = connection.execute(here.select_from(tree).where(namespaces.c.thread == thread)).all()
    if not rows:
        connection.execute(threads.delete().where(threads.c.id == thread))
        return
    newest, step = max(((key, step) for key, step, ns in rows if ns == ""), default=(None, None))
    connection.execute(threads.update().where(threads.c.id == thread).values(checkpoint_id=newest, step=step))


def batches(items: Sequence[Item], size: int = BATCH) -> Iterator[Sequence[Item]]:
    """The items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
