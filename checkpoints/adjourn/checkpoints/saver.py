"""`SQLAlchemySaver`: LangGraph's saver contract over the checkpoint tables.

A drop-in for any LangGraph graph. Each message is stored once, however many checkpoints hold it; every other
value once per change. One put is one transaction, one put_writes another; async methods run the same
transactions on the database's worker threads.
"""

import sys
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from sqlalchemy.engine import Connection

from adjourn.checkpoints import statements, thread_ops
from adjourn.checkpoints.checkpoint_lists import Page, read_page
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.compiled import in_one_go
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.delta_history import read_delta_history
from adjourn.checkpoints.hooks import Fence, Held, Ride, hooks_of
from adjourn.checkpoints.put_rows import CheckpointPut, Where, WritesPut
from adjourn.checkpoints.reading import CheckpointRow, ThreadReader
from adjourn.checkpoints.riding import Riders, may_ride
from adjourn.checkpoints.thread_memory import Head, Memories, ThreadMemory
from adjourn.checkpoints.thread_rows import know_thread
from adjourn.checkpoints.writing import Writer

PAGE = 50  # checkpoints that `list` reads at a time


class SQLAlchemySaver(BaseCheckpointSaver[int]):
    """Stores checkpoints in SQLite, PostgreSQL or MariaDB.

    `database`: a `Database`, or the URL of one, which the saver then closes in `close`.
    `types`: classes that may be restored from the database (dataclasses, pydantic models, named tuples,
    enums), and state schemas whose annotations name such classes. Others come back as plain data.

    Safe to use from many threads and by many processes at once. A put that fails leaves nothing behind.
    """

    def __init__(self, database: Database | str, *, types: Iterable[Any] = ()) -> None:
        self.codec = Codec(types)
        super().__init__(serde=self.codec)
        self._owns_database = isinstance(database, str)
        self.database = Database(database) if isinstance(database, str) else database
        self._memories = Memories()
        self._writer = Writer(self.database, self.codec, self._memories)

    def register(self, *schemas: Any) -> None:
        """Let loading restore these classes, and those that their annotations name."""
        self.codec.registry.register(*schemas)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "SQLAlchemySaver":
        """Register classes that LangGraph found in a graph's own schemas, as (module, name).

        Called by LangGraph when a graph is compiled, if `LANGGRAPH_STRICT_MSGPACK` is set. Nothing is
        imported: a class that the graph names is there.
        """
        for module, name, *_ in extra_allowlist:
            found = getattr(sys.modules.get(module), name, None)
            if isinstance(found, type):
                self.register(found)
        return self

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Versions are counted; those that another saver wrote as text are counted on as text."""
        if isinstance(current, str):  # 00000000000000000000000000000002.0.4837
            return f"{int(current.partition('.')[0]) + 1:032}.0"
        return super().get_next_version(current, channel)

    def setup(self) -> None:
        """Create the tables. Called by the first transaction anyhow."""
        self.database.setup()

    def close(self) -> None:
        """Close the database, if the saver opened it."""
        if self._owns_database:
            self.database.close()

    def __enter__(self) -> "SQLAlchemySaver":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> "SQLAlchemySaver":
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the newest of its thread and namespace; None without one.

        Raises `StoredDataError` when a row is damaged.
        """
        where = Where.of(config)
        memory = self._memories.of(where.thread_id)
        with memory.lock:
            try:
                return self.database.read(lambda connection: self._read_tuple(connection, where, memory))
            except BaseException:
                memory.forget()
                raise

    def _read_tuple(
        self, connection: Connection, where: Where, memory: ThreadMemory
    ) -> CheckpointTuple | None:
        query = statements.one_checkpoint if where.checkpoint_id else statements.newest_checkpoint
        with in_one_go(connection):  # with the BEGIN
            asked = query.ask_rows(connection, where.values)
        found = asked()
        if not found:
            return None
        row = CheckpointRow(*found[0])
        know_thread(connection, memory, row.thread, row.generation)
        reader = ThreadReader(connection, row.thread, self.codec, memory)
        result = reader.checkpoint_tuple(row)
        head = Head(result.checkpoint["channel_versions"], reader.references(row.channels, row.key))
        memory.remember_head(row.ns, row.checkpoint_id, head)
        memory.let_go(reader.read_messages)
        return result

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first. `filter`: metadata that must be equal. `limit` None: all."""
        page = _first_page(config, filter, before, limit)
        while page is not None:
            found, page = self.database.read(partial(read_page, page=page, codec=self.codec))
            yield from found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What `channels` received on the way to a checkpoint: see the base class."""
        where = Where.of(config)
        return self.database.read(
            partial(read_delta_history, where=where.values, channels=channels, codec=self.codec)
        )

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint behind the one that `config` names, and return its config.

        Raises what the fence and the outbox raise; then nothing is stored.
        """
        stored, ride = self._put(config, checkpoint, metadata, new_versions)
        if ride is not None:
            ride.committed()
        return stored

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[RunnableConfig, Ride | None]:
        where = Where.of(config)
        fence, outbox = hooks_of(config)
        told = get_checkpoint_metadata(config, metadata)
        put = CheckpointPut(where, checkpoint, told, new_versions, outbox is not None and outbox.frozen)
        ride = self._writer.put(put, fence, outbox)
        named = {"thread_id": where.thread_id, "checkpoint_ns": where.ns, "checkpoint_id": checkpoint["id"]}
        return {"configurable": named}, ride

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, with the put that follows at once or by itself; it is stored on return.

        Storing a task's writes again changes nothing, except for errors, interrupts and answers, which are
        replaced.
        """
        fence, outbox = hooks_of(config)
        put = WritesPut.of(config, writes, task_id, task_path, outbox)
        work = partial(put.send, codec=self.codec)
        if outbox is not None and outbox.hold(work):
            return
        riders = self._riders(fence, put)
        if riders is None or not riders.carry(work):
            self._writer.writes(fence, put.where.thread_id, [work])

    def _riders(self, fence: Fence | None, put: WritesPut) -> Riders | None:
        """Those who wait for the next put of this thread, if these writes may join them."""
        if fence is not None or not may_ride(put.writes, put.task_path):
            return None  # another owner's put would not ask this one's fence
        return self._memories.of(put.where.thread_id).riders

    def store_held(self, config: RunnableConfig, held: Sequence[Held]) -> None:
        """Store writes that no put came for: the graph stopped at an interrupt, or failed."""
        if held:
            self._writer.writes(hooks_of(config)[0], Where.of(config).thread_id, held)

    # Whole threads

    def delete_thread(self, thread_id: str) -> None:
        """Take away a thread with everything in it. No such thread: nothing happens."""
        self._writer.change_threads(
            [thread_id], partial(thread_ops.delete_threads, thread_ids=[str(thread_id)])
        )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history. No such thread: nothing happens.

        Raises `UsageError` when the target exists.
        """
        work = partial(thread_ops.copy_thread, source=str(source_thread_id), target=str(target_thread_id))
        self._writer.change_threads([target_thread_id], work)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Take away old checkpoints: `keep_latest` keeps the newest of each namespace, and what a
        DeltaChannel needs to rebuild it; `delete` keeps nothing. Raises `UsageError` for another strategy."""
        work = thread_ops.pruning(strategy)
        for thread_id in thread_ids:
            self._writer.change_threads([thread_id], partial(work, thread_ids=[str(thread_id)]))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Take away the checkpoints with these run ids in their metadata, except those that a DeltaChannel
        of a checkpoint that stays needs."""
        names = [str(run_id) for run_id in run_ids]
        thread_ids = self.database.read(partial(thread_ops.threads_of_runs, run_ids=names))
        for thread_id in thread_ids:
            work = partial(thread_ops.delete_runs, thread_id=thread_id, run_ids=names)
            self._writer.change_threads([thread_id], work)

    # The same, for async callers

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple`, on a worker thread."""
        return await self.database.arun(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, a page at a time on a worker thread."""
        page = _first_page(config, filter, before, limit)
        while page is not None:
            found, page = await self.database.aread(partial(read_page, page=page, codec=self.codec))
            for item in found:
                yield item

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history`, on a worker thread."""
        work = partial(self.get_delta_channel_history, config=config, channels=channels)
        return await self.database.arun(work)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put`, for an event loop. A cancelled caller does not stop it: the outbox hears of the COMMIT."""
        work = partial(self._put, config, checkpoint, metadata, new_versions)
        return (await self.database.soon(work, writes=True, short=True, then=_tell))[0]

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes`, on a worker thread."""
        fence, outbox = hooks_of(config)
        put = WritesPut.of(config, writes, task_id, task_path, outbox)
        work = partial(put.send, codec=self.codec)
        if outbox is not None and outbox.hold(work):
            return
        store = partial(self._writer.writes, fence, put.where.thread_id, [work])
        riders = self._riders(fence, put)
        if riders is None or not await riders.acarry(work, partial(self.database.begin, store)):
            await self.database.arun(store, writes=True)

    async def astore_held(self, config: RunnableConfig, held: Sequence[Held]) -> None:
        """`store_held`, on a worker thread."""
        await self.database.arun(partial(self.store_held, config, held), writes=True)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, on a worker thread."""
        await self.database.arun(partial(self.delete_thread, thread_id), writes=True)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread`, on a worker thread."""
        await self.database.arun(partial(self.copy_thread, source_thread_id, target_thread_id), writes=True)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune`, on a worker thread."""
        await self.database.arun(partial(self.prune, thread_ids, strategy=strategy), writes=True)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs`, on a worker thread."""
        await self.database.arun(partial(self.delete_for_runs, run_ids), writes=True)


def _first_page(
    config: RunnableConfig | None,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Page | None:
    named = config.get("configurable", {}) if config else {}
    thread_id = named.get("thread_id")
    return Page(
        thread_id=None if thread_id is None else str(thread_id),
        ns=named.get("checkpoint_ns"),
        checkpoint_id=named.get("checkpoint_id") or None,
        before=before.get("configurable", {}).get("checkpoint_id") if before else None,
        filter=filter or {},
        left=limit,
        size=PAGE if limit is None else max(1, min(PAGE, limit)),
    )


def _tell(stored: tuple[RunnableConfig, Ride | None]) -> None:
    _, ride = stored
    if ride is not None:
        ride.committed()
