"""Threads that begin with a state: a copy of another one up to a checkpoint, or a history that somebody brings.

Each function works in the caller's transaction, so that the thread and the run on it are there together or not at all.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import sqlalchemy as sa
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.checkpoint.base.id import uuid6
from sqlalchemy.engine import Connection

from adjourn.checkpoints import flow_rows, statements
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.flow_rows import FlowStepRow
from adjourn.checkpoints.lifecycle import CallState, Effect, FlowStepState, InterruptType
from adjourn.checkpoints.put_rows import CheckpointPut, Where
from adjourn.checkpoints.reading import CheckpointRow, ThreadReader
from adjourn.checkpoints.records import CallRow
from adjourn.checkpoints.run_schema import calls, flow_steps, interrupts, runs
from adjourn.checkpoints.schema import checkpoint_tree, checkpoints, namespaces, threads
from adjourn.checkpoints.thread_memory import Head, ThreadMemory
from adjourn.checkpoints.thread_ops import copy_thread
from adjourn.checkpoints.thread_rows import know_thread

PAGE = 200  # rows looked at in one query for the checkpoints of a run: a few kilobytes each

# a write that was started and has one of these outcomes was in its tool; one that asked in place of acting has not acted
_DONE = (CallState.STARTED, CallState.OK, CallState.FAILED, CallState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class CopiedThread:
    """A thread that was copied up to a checkpoint, in a transaction that has not ended."""

    connection: Connection
    codec: Codec
    memory: ThreadMemory
    found: CheckpointTuple
    thread_id: str

    @property
    def values(self) -> dict[str, Any]:
        """Its state there, by channel."""
        return self.found.checkpoint["channel_values"]

    def go_on_with(self, changes: Mapping[str, Any]) -> None:
        """Store one more checkpoint, with these channels changed: what comes next here is what came next there.

        It has an id of its own, and with it the tasks behind it: what they wrote in the original is not theirs.
        """
        old = self.found.checkpoint
        version = max(map(int, old["channel_versions"].values()), default=0) + 1  # as LangGraph counts them
        new_versions: ChannelVersions = dict.fromkeys(changes, version)
        changed = {
            "id": str(uuid6()),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {**self.values, **changes},
            "channel_versions": {**old["channel_versions"], **new_versions},
            "updated_channels": None,
        }
        step = (self.found.metadata.get("step") or 0) + 1
        metadata = {**self.found.metadata, "source": "fork", "step": step}
        where = Where(self.thread_id, "", old["id"])
        put = CheckpointPut(
            where,
            cast(Checkpoint, {**old, **changed}),
            cast(CheckpointMetadata, metadata),
            new_versions,
        )
        put.store(self.connection, self.memory, self.codec)


def copy_up_to(
    connection: Connection, codec: Codec, source: str, checkpoint_id: str, target: str
) -> CopiedThread | None:
    """Copy a thread up to a checkpoint. None: the source has no such checkpoint (then roll back).

    Raises `UsageError` when the target exists.
    """
    copy_thread(connection, source, target, up_to=checkpoint_id)
    row = statements.one_checkpoint.first(
        connection, {"thread_id": target, "ns": "", "checkpoint_id": checkpoint_id}
    )
    if row is None:
        return None
    found, memory = CheckpointRow(*row), ThreadMemory()
    know_thread(connection, memory, found.thread, found.generation)
    reader = ThreadReader(connection, found.thread, codec, memory)
    stored = reader.checkpoint_tuple(found)
    head = Head(stored.checkpoint["channel_versions"], reader.references(found.channels, found.key))
    memory.remember_head(found.ns, found.checkpoint_id, head)
    return CopiedThread(connection, codec, memory, stored, target)


def seed_thread(connection: Connection, codec: Codec, thread_id: str, values: Mapping[str, Any]) -> None:
    """Make a thread whose only checkpoint holds these values, by channel. Raises `UsageError` when it exists."""
    must_be_new(connection, thread_id)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = dict(values)
    checkpoint["channel_versions"] = dict.fromkeys(values, 1)
    metadata: CheckpointMetadata = {"source": "update", "step": -1, "parents": {}}
    put = CheckpointPut(
        Where(thread_id, "", None), checkpoint, metadata, dict(checkpoint["channel_versions"])
    )
    put.store(connection, ThreadMemory(), codec)


def must_be_new(connection: Connection, thread_id: str) -> None:
    """Raises `UsageError` when there is such a thread, or a run on it."""
    known = [
        sa.select(threads.c.thread_id).where(threads.c.thread_id == thread_id),
        sa.select(runs.c.thread_id).where(runs.c.thread_id == thread_id),
    ]
    if any(connection.execute(one.limit(1)).first() is not None for one in known):
        raise UsageError(f"there is a thread {thread_id!r} already; name one that is new, or none")


def checkpoints_of(
    connection: Connection,
    codec: Codec,
    thread_id: str,
    run_id: str,
    *,
    before: str | None = None,
    limit: int | None = None,
) -> dict[str, int]:
    """The checkpoints of one run, newest first, with LangGraph's number of each: those whose state names the run.

    `before`: only older ones than this checkpoint. `limit` None: all.
    """
    found: dict[str, int] = {}
    readers: dict[int, ThreadReader] = {}
    for thread, checkpoint_id, number, channels in _rows(connection, thread_id, before):
        reader = readers.setdefault(thread, ThreadReader(connection, thread, codec))
        reference = reader.references(channels, checkpoint_id).get("run_id")
        if reference is not None and reader.channel(reference, checkpoint_id) == run_id:
            found[checkpoint_id] = number
        elif found:
            break  # runs of a thread come one after the other: the rest is of older ones
        if len(found) == limit:
            break
    return found


def _rows(connection: Connection, thread_id: str, before: str | None) -> Iterator[tuple[int, str, int, str]]:
    query = (
        sa.select(threads.c.id, checkpoints.c.checkpoint_id, checkpoints.c.step, checkpoints.c.channels)
        .select_from(checkpoint_tree)
        .where(
            threads.c.thread_id == thread_id,
            namespaces.c.ns == "",
            checkpoints.c.source != "input",  # it holds the state before the input: another run's
        )
        .order_by(checkpoints.c.checkpoint_id.desc())
        .limit(PAGE)
    )
    while True:
        page = query if before is None else query.where(checkpoints.c.checkpoint_id < before)
        rows = connection.execute(page).all()
        for row in rows:
            yield row[0], row[1], row[2], row[3]
        if len(rows) < PAGE:
            return
        before = rows[-1][1]


def writes_since(
    connection: Connection, run_id: str, step: int, settled: Sequence[str], *, planned: bool = False
) -> list[CallRow]:
    """The writes that a run, or a run that works for it, has begun after a moment, in their order.

    The moment: in `step`, when the calls `settled` had their final observations. `planned`: also those of that step
    that the run is about to begin.
    """
    after = sa.or_(calls.c.step > step, sa.and_(calls.c.step == step, calls.c.call_id.not_in(settled)))
    in_doubt = sa.exists().where(
        interrupts.c.run_id == calls.c.run_id,
        interrupts.c.step == calls.c.step,
        interrupts.c.call_id == calls.c.call_id,
        interrupts.c.type == InterruptType.OUTCOME_UNKNOWN.value,
    )
    done = calls.c.outcome.in_([one.value for one in _DONE])
    begun = sa.and_(calls.c.started_at.is_not(None), sa.or_(done, in_doubt))
    wanted = sa.or_(begun, calls.c.outcome == CallState.PLANNED.value) if planned else begun
    mine = _writes(connection, sa.and_(calls.c.run_id == run_id, after, wanted))
    theirs = sa.select(runs.c.id).where(
        runs.c.parent_run_id == run_id,
        sa.or_(
            runs.c.parent_step > step,
            sa.and_(runs.c.parent_step == step, runs.c.parent_call_id.not_in(settled)),
        ),
    )
    for child in connection.execute(theirs).scalars().all():
        mine += writes_since(connection, child, -1, ())
    return mine


def _writes(connection: Connection, which: sa.ColumnElement[bool]) -> list[CallRow]:
    query = sa.select(calls).where(calls.c.effect == Effect.WRITE.value, which)
    ordered = query.order_by(calls.c.step, calls.c.position)
    return [CallRow.of(row) for row in connection.execute(ordered).mappings()]


def copy_flow(
    connection: Connection, source: str, target: str, *, at: str | None, done: Collection[str], moment: str
) -> None:
    """Give a run the steps of another one's flow as they stood at a moment (a stored time), in step `at`.

    `done`: the steps that had brought their results; `at` None: the flow had not begun.
    """
    rows = [] if at is None else flow_rows.read(connection, source)
    values = [asdict(_as_of(row, target, at, done, moment)) for row in rows]
    if values:
        connection.execute(sa.insert(flow_steps), values)


def _as_of(row: FlowStepRow, target: str, at: str | None, done: Collection[str], moment: str) -> FlowStepRow:
    row = replace(row, run_id=target)
    if row.step == at:
        return replace(row, status=FlowStepState.RUNNING.value, reason=None, ended_at=None)
    had_ended = row.ended_at is not None and row.ended_at[:26] <= moment[:26]
    if row.step in done or had_ended:
        return row
    pending = FlowStepState.PENDING.value
    return replace(row, status=pending, reason=None, version=1, started_at=None, ended_at=None)
