"""The work of a put's and a put_writes' transaction: which rows they store."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, Checkpoint, CheckpointMetadata
from sqlalchemy.engine import Connection

from adjourn.checkpoints import statements
from adjourn.checkpoints.codec import Codec, is_unicode
from adjourn.checkpoints.compiled import Check
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.hooks import Outbox
from adjourn.checkpoints.placing import Placing, continue_blocks
from adjourn.checkpoints.stored_json import copied, dump, parse
from adjourn.checkpoints.thread_memory import Head, Reference, ThreadMemory
from adjourn.checkpoints.thread_rows import StaleMemory, know_namespace

TOUCH_EVERY_S = 1.0  # threads.updated_at is indexed: moving it with every put costs a fifth of the put

_IN_COLUMNS = frozenset({"id", "ts", "channel_values", "channel_versions", "versions_seen"})


class Where(NamedTuple):
    """Which thread, namespace and checkpoint a config names. `checkpoint_id` None: the newest."""

    thread_id: str
    ns: str
    checkpoint_id: str | None

    @classmethod
    def of(cls, config: RunnableConfig) -> "Where":
        """What a config names. Raises `UsageError` when it names no thread, or one that no database can name."""
        named = config.get("configurable", {})
        thread_id = named.get("thread_id")
        if thread_id is None:
            raise UsageError("a checkpointer needs config={'configurable': {'thread_id': ...}}")
        if not is_unicode(str(thread_id)):
            raise UsageError(f"thread_id {thread_id!r} holds half a character; name the thread otherwise")
        return cls(str(thread_id), named.get("checkpoint_ns") or "", named.get("checkpoint_id") or None)

    @property
    def values(self) -> dict[str, Any]:
        """As values of a statement."""
        return {"thread_id": self.thread_id, "ns": self.ns, "checkpoint_id": self.checkpoint_id}


class CheckpointPut(NamedTuple):
    """A checkpoint to be stored behind the one that `where` names."""

    where: Where
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: ChannelVersions
    frozen: bool = False  # see `Outbox.frozen`

    def store(self, connection: Connection, memory: ThreadMemory, codec: Codec) -> None:
        """Store it. Raises `StaleMemory` or `IntegrityError` when the memory is behind the database."""
        self.send(connection, memory, codec)()

    def send(self, connection: Connection, memory: ThreadMemory, codec: Codec) -> Check:
        """`store`, sent without waiting: the check that it gives raises `StaleMemory` where `store` would."""
        thread, namespace = know_namespace(connection, memory, self.where.thread_id, self.where.ns)
        check = self._touch(connection, memory, thread)
        parent = self._parent(connection, memory, namespace, codec)
        if parent is not None:
            continue_blocks(connection, memory, self.where.ns, parent.references)
        placing = Placing(memory, thread, self.where.ns, codec, frozen=self.frozen)
        references = self._references(placing, parent)
        placing.insert(connection)
        row = self._row(references, codec)
        row["namespace"] = namespace
        statements.put_checkpoint.send(connection, row)
        head = Head(dict(self.checkpoint["channel_versions"]), references)
        memory.remember_head(self.where.ns, self.checkpoint["id"], head)
        memory.let_go()
        return check

    def _touch(self, connection: Connection, memory: ThreadMemory, thread: int) -> Check:
        """Move the thread on. Its row is then held until COMMIT: processes write to a thread in turn."""
        values: dict[str, Any] = {"thread": thread, "generation_known": memory.generation}
        if not self.where.ns:
            newest = {"newest": self.checkpoint["id"], "newest_step": self.metadata.get("step")}
            check = statements.advance_thread.meet(connection, {**values, **newest}, _stale)
        else:
            check = statements.hold_thread.meet(connection, values, _stale)
        if time.monotonic() - memory.touched_at > TOUCH_EVERY_S:
            statements.touch_thread.send(connection, {**values, "moment": now()})
            memory.touched_at = time.monotonic()
        return check

    def _parent(
        self, connection: Connection, memory: ThreadMemory, namespace: int, codec: Codec
    ) -> Head | None:
        """The references of the checkpoint before; None without one."""
        if self.where.checkpoint_id is None:
            return None
        head = memory.heads.get((self.where.ns, self.where.checkpoint_id))
        if head is not None:
            return head
        values = {"namespace": namespace, "checkpoint_id": self.where.checkpoint_id}
        row = statements.read_refs.first(connection, values)
        return Head(codec.decode(row[1]), parse(row[0])) if row else None

    def _references(self, placing: Placing, parent: Head | None) -> dict[str, Reference]:
        """Where each channel's value stands: the parent's place if the channel did not change."""
        versions = self.checkpoint["channel_versions"]
        inherited: Mapping[str, Reference] = {}
        if parent is not None:
            inherited = {
                channel: reference
                for channel, reference in parent.references.items()
                if channel not in self.new_versions and parent.versions.get(channel) == versions.get(channel)
            }
        return {
            channel: inherited[channel] if channel in inherited else placing.reference(channel, value)
            for channel, value in self.checkpoint["channel_values"].items()
        }

    def _row(self, references: dict[str, Reference], codec: Codec) -> dict[str, Any]:
        checkpoint, metadata = self.checkpoint, self.metadata
        run_id = metadata.get("run_id")
        rest = {key: value for key, value in checkpoint.items() if key not in _IN_COLUMNS}
        return {
            "checkpoint_id": checkpoint["id"],
            "parent_id": self.where.checkpoint_id,
            "ts": checkpoint["ts"],
            "source": metadata.get("source"),
            "step": metadata.get("step"),
            "run_id": None if run_id is None else str(run_id)[:255],
            "channels": dump(references),
            "channel_versions": codec.encode(checkpoint["channel_versions"]),
            "versions_seen": codec.encode(checkpoint["versions_seen"]),
            "metadata": codec.encode(metadata),
            "rest": codec.encode(rest),
        }


def _own(value: Any) -> Any:
    """The value in containers of its own. One that holds itself is given back as it is: storing it refuses it."""
    try:
        return copied(value)
    except RecursionError:
        return value


def _stale() -> None:
    raise StaleMemory


class WritesPut(NamedTuple):
    """What a task wrote behind the checkpoint that `where` names."""

    where: Where
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str
    frozen: bool = False  # see `Outbox.frozen`

    @classmethod
    def of(
        cls,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
        outbox: Outbox | None,
    ) -> "WritesPut":
        """What LangGraph hands over. It may be stored a moment later, when the checkpoint comes: a reducer that adds to
        what it is given, in place, adds nothing to it."""
        frozen = outbox is not None and outbox.frozen
        kept = writes if frozen else [(channel, _own(value)) for channel, value in writes]
        return cls(Where.of(config), kept, task_id, task_path, frozen)

    def store(self, connection: Connection, memory: ThreadMemory, codec: Codec) -> None:
        """Store it. Ordinary writes that are stored already stay; errors, interrupts and answers are
        replaced. Raises `StaleMemory` or `IntegrityError` when the memory is behind the database."""
        self.send(connection, memory, codec)()

    def send(self, connection: Connection, memory: ThreadMemory, codec: Codec) -> Check:
        """`store`, sent without waiting: the check that it gives raises `StaleMemory` where `store` would."""
        thread, namespace = know_namespace(connection, memory, self.where.thread_id, self.where.ns)
        if self.where.checkpoint_id and (head := memory.heads.get((self.where.ns, self.where.checkpoint_id))):
            continue_blocks(connection, memory, self.where.ns, head.references)
        placing = Placing(memory, thread, self.where.ns, codec, frozen=self.frozen)
        rows = self._rows(placing, namespace)
        placing.insert(connection)
        keep = [row for row in rows if row["idx"] >= 0]
        if keep:
            statements.keep_write.change_many(connection, keep)
        if len(keep) < len(rows):
            statements.replace_write.change_many(connection, [row for row in rows if row["idx"] < 0])
        if not placing.names_old_rows:
            return lambda: None
        # old rows may be gone by now; new ones cannot, and a new thread has no old ones
        known = {"thread": thread, "generation_known": memory.generation}
        return statements.know_generation.meet(connection, known, _stale)

    def _rows(self, placing: Placing, namespace: int) -> list[dict[str, Any]]:
        return [
            {
                "namespace": namespace,
                "checkpoint_id": self.where.checkpoint_id,
                "task_id": self.task_id,
                "task_path": self.task_path,
                "idx": WRITES_IDX_MAP.get(channel, position),
                "channel": channel,
                "value": placing.text(channel, value),
            }
            for position, (channel, value) in enumerate(self.writes)
        ]
