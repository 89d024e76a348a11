"""Threads of LangGraph's own SqliteSaver and PostgresSaver, brought over into this store.

Their rows are read by their own savers, which must be installed, but with the strict list of types: a row
that names any other class comes back as plain data, and nothing is imported or run by its name (C-71).
The old database is opened for reading and stays as it is.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError

from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.errors import StoreError, UsageError
from adjourn.checkpoints.put_rows import CheckpointPut, Where, WritesPut
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.schema import threads
from adjourn.checkpoints.servers import shown_url
from adjourn.checkpoints.thread_memory import ThreadMemory

Theirs = BaseCheckpointSaver[Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """One thread that was brought over, and how many checkpoints it has."""

    thread_id: str
    checkpoints: int


@contextmanager
def old_store(url: str) -> Iterator[Theirs]:
    """The official saver over the database at `url`: `sqlite:///FILE` or `postgresql://...`.

    Raises `UsageError` for another URL or a file that is not there, `StoreError` when the package of that saver
    is not installed or the database holds no checkpoints of LangGraph.
    """
    opener = _opener(url)
    try:
        with opener() as saver:
            next(saver.list(None, limit=1), None)  # a database without their tables says so here
            yield saver
    except ImportError as error:
        package = (
            "langgraph-checkpoint-sqlite" if url.startswith("sqlite") else "langgraph-checkpoint-postgres"
        )
        raise StoreError(f"reading {shown_url(url)} needs {package}: pip install {package}") from error


def import_threads(
    old: Theirs, saver: SQLAlchemySaver, thread_ids: Sequence[str] | None = None
) -> Iterator[Imported]:
    """Bring threads over, each in one transaction with all its namespaces, checkpoints, forks and writes.

    `thread_ids` None: all that this store does not have yet, so that a second call does the rest. Raises `UsageError`
    for a thread that the old store does not have, and for one that this store has already: that one was not touched,
    and the threads before it have been brought over.
    """
    for thread_id in _missing(old, saver) if thread_ids is None else thread_ids:
        names = _names(old, thread_id)
        if not names:
            raise UsageError(f"the old store has no thread {thread_id!r}")
        work = partial(_store, thread_id=thread_id, old=old, names=names, codec=saver.codec)
        saver.database.write(work)
        yield Imported(thread_id, len(names))


def _opener(url: str) -> Callable[[], Any]:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError(
            f"--from {shown_url(url)!r} is no database URL; write one like sqlite:///old.db"
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database:
        if not Path(parsed.database).is_file():
            raise UsageError(f"there is no file {parsed.database} to import from")
        return partial(_sqlite, Path(parsed.database).absolute())
    if backend == "postgresql":
        return partial(_postgres, parsed.set(drivername="postgresql").render_as_string(hide_password=False))
    raise UsageError(
        f"threads are imported from sqlite:///FILE and postgresql://..., not from {shown_url(url)}"
    )


def _strict() -> JsonPlusSerializer:
    return JsonPlusSerializer(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)


@contextmanager
def _sqlite(file: Path) -> Iterator[Theirs]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    uri = f"{file.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
        try:
            yield SqliteSaver(connection, serde=_strict())
        except sqlite3.Error as error:
            raise StoreError(f"{file} holds no checkpoints of LangGraph's SqliteSaver: {error}") from error


@contextmanager
def _postgres(url: str) -> Iterator[Theirs]:
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    try:
        # as PostgresSaver opens its own
        options: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        with psycopg.connect(url, **options) as opened:
            connection: Any = opened
            connection.read_only = True
            yield PostgresSaver(connection, serde=_strict())
    except psycopg.Error as error:
        shown = shown_url(url)
        raise StoreError(f"{shown} holds no checkpoints of LangGraph's PostgresSaver: {error}") from error


def _missing(old: Theirs, saver: SQLAlchemySaver) -> list[str]:
    """The threads of the old store that this one does not have, the one that was used longest ago first."""
    newest_first = (one.config["configurable"]["thread_id"] for one in old.list(None))
    here = saver.database.read(lambda c: set(c.execute(sa.select(threads.c.thread_id)).scalars()))
    return [one for one in dict.fromkeys(newest_first) if one not in here][::-1]


def _names(old: Theirs, thread_id: str) -> list[RunnableConfig]:
    """The configs of a thread's checkpoints, oldest first: a parent comes before its children."""
    found = [one.config for one in old.list({"configurable": {"thread_id": thread_id}})]
    return sorted(found, key=lambda config: config["configurable"]["checkpoint_id"])


def _store(
    connection: Connection, thread_id: str, old: Theirs, names: Sequence[RunnableConfig], codec: Codec
) -> None:
    taken = sa.select(threads.c.id).where(threads.c.thread_id == thread_id)
    if connection.execute(taken).first() is not None:
        raise UsageError(f"thread {thread_id!r} exists in this store already; nothing of it was imported")
    memory = ThreadMemory()
    versions: dict[str, Any] = {}
    for name in names:
        found = old.get_tuple(name)
        if found is not None:  # it may have been deleted in the meantime
            _store_checkpoint(connection, memory, found, versions, codec)
            versions[_key(found.config)] = found.checkpoint["channel_versions"]


def _renumbered(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the versions of its channels as numbers, which this saver counts on from.

    Theirs are texts: the number, a dot, and random digits that tell forks apart. Ours needs no such digits.
    """
    seen = {node: _numbers(versions) for node, versions in checkpoint["versions_seen"].items()}
    return {**checkpoint, "channel_versions": _numbers(checkpoint["channel_versions"]), "versions_seen": seen}


def _numbers(versions: ChannelVersions) -> ChannelVersions:
    return {
        channel: int(version.split(".")[0]) if isinstance(version, str) else version
        for channel, version in versions.items()
    }


def _key(config: RunnableConfig | None) -> str:
    named = config["configurable"] if config else {}
    return f"{named.get('checkpoint_ns', '')} {named.get('checkpoint_id')}"


def _store_checkpoint(
    connection: Connection,
    memory: ThreadMemory,
    found: CheckpointTuple,
    versions: dict[str, Any],
    codec: Codec,
) -> None:
    """Store a checkpoint behind its parent, and what was written behind it, in the order they are given."""
    here = Where.of(found.config)
    parent = Where.of(found.parent_config).checkpoint_id if found.parent_config else None
    before = versions.get(_key(found.parent_config), {})
    changed = {
        channel: version
        for channel, version in found.checkpoint["channel_versions"].items()
        if before.get(channel) != version
    }
    behind = Where(here.thread_id, here.ns, parent)
    CheckpointPut(behind, _renumbered(found.checkpoint), found.metadata, changed).store(
        connection, memory, codec
    )
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in found.pending_writes or ():
        tasks.setdefault(task_id, []).append((channel, value))
    for place, (task_id, writes) in enumerate(tasks.items()):
        # their savers keep the task's path to themselves: a number keeps its order
        WritesPut(here, writes, task_id, f"{place:06}").store(connection, memory, codec)
