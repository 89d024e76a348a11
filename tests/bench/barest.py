"""How fast a saver could be: one that keeps nothing, and the barest one that keeps what this store keeps.

The first is LangGraph's own time. The second runs the same inserts into the same tables, in one transaction a superstep,
for the one graph of the benchmark: no check that a message was changed, no value but that graph's, no second thread or
process, no fence, no waiting until what a task wrote is stored. What lies between it and this store is the price of those.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from sides import Side, file_bytes

from adjourn.checkpoints.database import Database

_ROWS = {  # table -> its columns that are filled
    "threads": "thread_id, generation, created_at, updated_at",
    "namespaces": "thread, ns",
    "messages": "thread, seq, message_id, role, content, hash",
    "checkpoint_writes": "namespace, checkpoint_id, task_id, idx, task_path, channel, value",
    "checkpoints": "namespace, checkpoint_id, parent_id, ts, source, step, channels, channel_versions, versions_seen, metadata",
}
_INSERTS = {
    table: f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in columns.split(','))})"
    for table, columns in _ROWS.items()
}


class Nothing(BaseCheckpointSaver[int]):
    """Keeps nothing."""

    def get_tuple(self, config: RunnableConfig) -> None:
        """There is nothing."""

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Say that it is kept."""
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Nothing."""


class Barest(Nothing):
    """Keeps one thread of the graph `chat`, from its beginning on."""

    def __init__(self, path: Path, synchronous: str) -> None:
        super().__init__()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._insert("threads", ("t", 0, "", ""))
        self._insert("namespaces", (1, ""))
        self._lock = threading.Lock()
        self._numbers: dict[str | None, int] = {}
        self._waiting: list[tuple[Any, ...]] = []

    def _insert(self, table: str, row: tuple[Any, ...]) -> None:
        self._connection.execute(_INSERTS[table], row)

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """A checkpoint, and what was written since the last one."""
        parent = config["configurable"].get("checkpoint_id")
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            waiting, self._waiting = self._waiting, []
            for row in waiting:
                self._insert("checkpoint_writes", (*row[:-1], self._text(row[-1])))
            values = {name: self._text(value) for name, value in checkpoint["channel_values"].items()}
            step = metadata["step"]
            self._connection.execute(
                "UPDATE threads SET checkpoint_id = ?, step = ? WHERE id = 1", (checkpoint["id"], step)
            )
            told = (
                orjson.dumps(one).decode()
                for one in (values, checkpoint["channel_versions"], checkpoint["versions_seen"], metadata)
            )
            known = (1, checkpoint["id"], parent, checkpoint["ts"], metadata["source"], step)
            self._insert("checkpoints", (*known, *told))
            self._connection.commit()
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """To be stored with the next checkpoint."""
        checkpoint_id = config["configurable"]["checkpoint_id"]
        for number, (channel, value) in enumerate(writes):
            self._waiting.append((1, checkpoint_id, task_id, number, task_path, channel, value))

    def _text(self, value: Any) -> str:
        """A list of messages as the range of its numbers, anything else as JSON."""
        if not (isinstance(value, list) and value and isinstance(value[0], BaseMessage)):
            return orjson.dumps(value, default=str).decode()
        newest = self._numbers.get(value[-1].id)
        if newest is None:
            newest = self._numbers[value[-1].id] = len(self._numbers) + 1
            content: Any = value[-1].content
            mark = blake2b(content.encode(), digest_size=16).hexdigest()
            self._insert("messages", (1, newest, value[-1].id, value[-1].type, content, mark))
        return f"[[{newest - len(value) + 1},{newest}]]"

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def nothing() -> Side:
    """A saver that keeps nothing."""

    @contextmanager
    def opened() -> Iterator[Any]:
        yield Nothing()

    return Side(opened, _sync_only, lambda: 0)


def barest(path: Path, synchronous: str) -> Side:
    """The barest saver over a new file."""
    database = Database(f"sqlite:///{path}")
    database.setup()
    database.close()

    @contextmanager
    def opened() -> Iterator[Any]:
        saver = Barest(path, synchronous)
        try:
            yield saver
        finally:
            saver.close()

    return Side(opened, _sync_only, lambda: file_bytes(path))


def _sync_only() -> AbstractAsyncContextManager[Any]:
    raise NotImplementedError("measured through the sync methods")
