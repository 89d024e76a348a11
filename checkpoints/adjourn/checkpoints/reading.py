"""From rows to checkpoints. Every row that is read is checked; a damaged one raises `StoredDataError`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite
from sqlalchemy.engine import Connection

from adjourn.checkpoints import statements
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.message_rows import MessageRow, Mould, mould_of
from adjourn.checkpoints.placing import hash_of_value
from adjourn.checkpoints.stored_json import Ranges, expand, is_ranges, stored_object
from adjourn.checkpoints.thread_memory import Reference, ThreadMemory

GAP = 64  # rows between two ranges that are read along, rather than with a query of their own


class CheckpointRow(NamedTuple):
    """A checkpoint with its thread and namespace, as `statements.CHECKPOINT_COLUMNS`."""

    thread: int
    thread_id: str
    generation: int
    namespace: int
    ns: str
    checkpoint_id: str
    parent_id: str | None
    ts: str
    channels: str
    channel_versions: str
    versions_seen: str
    metadata: str
    rest: str | None

    @property
    def key(self) -> str:
        """Names the row in errors."""
        return f"{self.thread_id} {self.ns!r} {self.checkpoint_id}"


class ThreadReader:
    """Reads the rows of one thread in one transaction, each at most once.

    Given a memory, it is told which messages and values are stored where.
    """

    def __init__(
        self, connection: Connection, thread: int, codec: Codec, memory: ThreadMemory | None = None
    ) -> None:
        self._connection = connection
        self._thread = thread
        self._codec = codec
        self._memory = memory
        self._messages: dict[int, MessageRow] = {}
        self._values: dict[int, str] = {}
        self.read_messages = 0  # how many messages were given out

    def messages(self, ranges: Ranges) -> list[BaseMessage]:
        """The messages of these ranges, in order; new objects at each call."""
        self._check(ranges)
        for first, last in _missing(ranges, self._messages):
            values = {"thread": self._thread, "first": first, "last": last}
            for row in statements.read_messages.rows(self._connection, values):
                self._messages[row[0]] = MessageRow._make(row[1:])
        found = [self._message(seq) for seq in expand(ranges)]
        self.read_messages += len(found)
        return found

    def parts(self, ranges: Ranges) -> list[Any]:
        """The values of these ranges of `channel_values`, in order."""
        self._check(ranges)
        for first, last in _missing(ranges, self._values):
            values = {"thread": self._thread, "first": first, "last": last}
            for seq, text, row_hash in statements.read_values.rows(self._connection, values):
                self._keep_value(seq, text, row_hash)
        return [self._value(seq) for seq in expand(ranges)]

    def _check(self, ranges: Ranges) -> None:
        if not is_ranges(ranges):
            raise StoredDataError(
                "checkpoints", f"thread {self._thread}", "a reference is no pairs of numbers"
            )

    def _message(self, seq: int) -> BaseMessage:
        row = self._messages.get(seq)
        if row is None:
            raise StoredDataError("messages", self._key(seq), "a checkpoint refers to it, and it is missing")
        if self._memory is None:
            return mould_of(row, self._codec, self._key(seq)).cast()
        mould = self._mould(seq, row, self._memory)
        message = mould.cast()
        fields = mould.fields if mould.is_whole and mould.is_lasting else None
        self._memory.remember_message(message, seq, row.hash, fields)
        return message

    def _mould(self, seq: int, row: MessageRow, memory: ThreadMemory) -> Mould:
        """The mould of a row. One that was read before, and is as it was then, was checked then."""
        known = memory.moulds.get(seq)
        if known is not None and known[0] == row:
            return known[1]
        mould = mould_of(row, self._codec, self._key(seq))
        if mould.is_lasting:
            memory.moulds[seq] = (row, mould)
        return mould

    def _keep_value(self, seq: int, text: str, row_hash: str) -> None:
        if hash_of_value(text) != row_hash:
            raise StoredDataError("channel_values", self._key(seq), "the row does not fit its hash")
        self._values[seq] = text
        if self._memory is not None:
            self._memory.value_hashes[row_hash] = seq

    def _value(self, seq: int) -> Any:
        text = self._values.get(seq)
        if text is None:
            raise StoredDataError(
                "channel_values", self._key(seq), "a checkpoint refers to it, and it is missing"
            )
        return self.decode(text, "channel_values", self._key(seq))

    def _key(self, seq: int) -> str:
        return f"thread {self._thread} seq {seq}"

    def decode(self, text: str, table: str, key: str) -> Any:
        """The value of a text; an error names the row that it stands in."""
        try:
            return self._codec.decode(text, self)
        except ValueError as error:
            raise StoredDataError(table, key, f"the row does not decode ({error})") from error

    def channel(self, reference: Reference, key: str) -> Any:
        """The value of a reference."""
        if type(reference) is list:
            return self.messages(reference)
        if type(reference) is int:
            return self.parts([[reference, reference]])[0]
        if type(reference) is dict and "v" in reference:
            try:
                return self._codec.unpack(reference["v"], self)
            except ValueError as error:
                raise StoredDataError("checkpoints", key, f"a channel does not decode ({error})") from error
        raise StoredDataError("checkpoints", key, "a channel is no reference")

    def channels(self, row: CheckpointRow) -> dict[str, Any]:
        """The values of a checkpoint's channels."""
        references = self.references(row.channels, row.key)
        return {name: self.channel(reference, row.key) for name, reference in references.items()}

    def references(self, text: str, key: str) -> dict[str, Reference]:
        """The `channels` column, parsed."""
        return stored_object("checkpoints", key, text)

    def object(self, text: str, key: str) -> Any:
        """The value of a column of `checkpoints` that holds an object."""
        value = self.decode(text, "checkpoints", key)
        if not isinstance(value, dict):
            raise StoredDataError("checkpoints", key, "a column holds no object")
        return value

    def checkpoint(self, row: CheckpointRow) -> Checkpoint:
        """The checkpoint of a row, with the values of its channels."""
        checkpoint: dict[str, Any] = {
            "v": 1,
            "ts": row.ts,
            "id": row.checkpoint_id,
            "channel_values": self.channels(row),
            "channel_versions": self.object(row.channel_versions, row.key),
            "versions_seen": self.object(row.versions_seen, row.key),
            "updated_channels": None,
        }
        if row.rest is not None:
            checkpoint |= self.object(row.rest, row.key)
        return checkpoint  # type: ignore[return-value]

    def writes(
        self, namespace: int, checkpoint_id: str, only: Sequence[str] | None = None
    ) -> list[PendingWrite]:
        """The pending writes of a checkpoint, in the order in which LangGraph applies them.

        `only`: those of these channels; None: all.
        """
        values = {"namespace": namespace, "checkpoint_id": checkpoint_id}
        rows = statements.read_writes.rows(self._connection, values)
        return [
            (task, channel, self.decode(text, "checkpoint_writes", f"{checkpoint_id} {task} {idx}"))
            for task, channel, text, idx in rows
            if only is None or channel in only
        ]

    def checkpoint_tuple(self, row: CheckpointRow) -> CheckpointTuple:
        """Everything about a checkpoint, as LangGraph wants it."""
        return CheckpointTuple(
            config=_config(row, row.checkpoint_id),
            checkpoint=self.checkpoint(row),
            metadata=self.object(row.metadata, row.key),
            parent_config=_config(row, row.parent_id) if row.parent_id else None,
            pending_writes=self.writes(row.namespace, row.checkpoint_id),
        )


def _config(row: CheckpointRow, checkpoint_id: str) -> Any:
    where = {"thread_id": row.thread_id, "checkpoint_ns": row.ns, "checkpoint_id": checkpoint_id}
    return {"configurable": where}


def _missing(ranges: Ranges, known: dict[int, Any]) -> Ranges:
    """What of these ranges is not known yet, with small gaps closed."""
    wanted: Ranges = []
    for first, last in sorted(ranges):
        if first in known and last in known and all(seq in known for seq in range(first, last + 1)):
            continue
        if wanted and first <= wanted[-1][1] + GAP:
            wanted[-1][1] = max(wanted[-1][1], last)
        else:
            wanted.append([first, last])
    return wanted
