"""What a DeltaChannel needs: the writes behind each ancestor, back to the nearest stored value."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
from sqlalchemy.engine import Connection

from adjourn.checkpoints import statements
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.reading import CheckpointRow, ThreadReader


def read_delta_history(
    connection: Connection, *, where: Mapping[str, Any], channels: Sequence[str], codec: Codec
) -> dict[str, DeltaChannelHistory]:
    """Per channel: the writes on the way to a checkpoint, oldest first, and the stored value before them.

    `where`: thread_id, ns and checkpoint_id (None: the newest). A chain that runs in a circle ends where it
    meets itself.
    """
    query = statements.one_checkpoint if where["checkpoint_id"] else statements.newest_checkpoint
    found = query.first(connection, where)
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    if found is not None:
        row = CheckpointRow(*found)
        reader = ThreadReader(connection, row.thread, codec)
        for ancestor, references in _ancestors(connection, reader, row):
            wanted = [channel for channel in channels if channel not in seeds]
            if not wanted:
                break
            for write in reversed(reader.writes(row.namespace, ancestor, only=wanted)):
                writes[write[1]].append(write)
            for channel in wanted:
                if channel in references:
                    seeds[channel] = reader.channel(references[channel], row.key)
    return {channel: _entry(channel, writes[channel], seeds) for channel in channels}


def _entry(channel: str, newest_first: list[PendingWrite], seeds: dict[str, Any]) -> DeltaChannelHistory:
    entry: DeltaChannelHistory = {"writes": newest_first[::-1]}
    if channel in seeds:
        entry["seed"] = seeds[channel]
    return entry


def _ancestors(
    connection: Connection, reader: ThreadReader, row: CheckpointRow
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The ancestors of a checkpoint with their references, nearest first."""
    met = {row.checkpoint_id}
    parent = row.parent_id
    while parent and parent not in met:
        met.add(parent)
        values = {"namespace": row.namespace, "checkpoint_id": parent}
        found = statements.read_refs.first(connection, values)
        if found is None:
            return
        yield parent, reader.references(found[0], row.key)
        parent = found[2]
