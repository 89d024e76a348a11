"""What is taken away for good: old runs (`prune`), and everything of one conversation (`forget`) (C-93).

Both work through the database in small transactions, so that runs go on meanwhile; when one is cut off, what
was committed is gone and the next call does the rest. A file does not shrink: SQLite uses the room again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from adjourn.checkpoints import statements
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.errors import RunBusy, StoredDataError, UsageError
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.run_schema import audit, calls, events, flow_steps, inputs, interrupts, runs, steps
from adjourn.checkpoints.schema import checkpoints, namespaces, threads
from adjourn.checkpoints.stored_json import Json, stored_object, stored_tree
from adjourn.checkpoints.thread_ops import Rows, batches, delete_threads, hold, shrink

THREADS_AT_ONCE = 20  # in one transaction: a few milliseconds each, while others wait

_OF_RUNS = (inputs, steps, flow_steps, calls, interrupts, audit, events)
_waiting = sa.table("v_threads", sa.column("thread_id"), sa.column("waits"))


@dataclass(frozen=True, slots=True)
class Removed:
    """How much was taken away: whole threads, runs, and threads that only lost old runs and checkpoints."""

    threads: int = 0
    runs: int = 0
    shortened: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.threads + other.threads, self.runs + other.runs, self.shortened + other.shortened)


@dataclass(frozen=True, slots=True)
class Policy:
    """What is old.

    `before`: a stored time; a run that ended earlier is old. `keep_last`: so many newest runs of each thread
    stay however old they are (checkpoints, of a thread without runs). `failed`: failed runs count as ended;
    otherwise they stay, since they can be taken up again.
    """

    before: str
    keep_last: int = 0
    failed: bool = False

    @property
    def ended(self) -> frozenset[RunStatus]:
        """The states of runs that may go."""
        ended = frozenset({RunStatus.FINISHED, RunStatus.CANCELLED})
        return ended | {RunStatus.FAILED} if self.failed else ended


def prune(database: Database, policy: Policy, *, dry_run: bool = False) -> Removed:
    """Take away old runs, and the threads that hold nothing else.

    A thread with a run that works, waits or can be taken up again is left alone, and so is one without runs that
    waits, at an interrupt or before a node, or that was left in the middle. Runs of specialists go with the run that they
    worked for. Where newer runs stay, the conversation stays whole as it stands now; its checkpoints from before are gone,
    with the way back to them.

    `dry_run`: nothing is changed, the result says what would be.
    """
    found = database.read(partial(_candidates, policy=policy))
    transact = database.read if dry_run else database.write
    removed = Removed()
    for batch in batches(found, THREADS_AT_ONCE):
        removed += transact(partial(_prune_threads, thread_ids=batch, policy=policy, dry_run=dry_run))
    return removed


def forget(database: Database, thread_id: str, *, dry_run: bool = False) -> Removed:
    """Take away a conversation and all of its runs, in one transaction: one person's data (C-93).

    On SQLite the freed pages are overwritten; servers overwrite theirs when they clean up (VACUUM, purge).
    Threads that were forked from it hold copies, and stay: ask for `forks_of` first, and forget them too.
    Raises `RunBusy` while somebody drives a run of it: cancel that first. `UsageError`: there is no such thread.
    `dry_run`: nothing is changed, the result says what would be.
    """
    if dry_run:
        return database.read(partial(_forget, thread_id=thread_id, dry_run=True))
    return database.write(partial(_forget, thread_id=thread_id), synced=True)


def forks_of(database: Database, thread_id: str) -> list[str]:
    """The threads that were forked from a thread, or from one of its forks: each holds a copy of what was said."""
    return database.read(partial(_forks_of, thread_id=thread_id))


def _forks_of(connection: Connection, thread_id: str) -> list[str]:
    found, latest = {thread_id: None}, [thread_id]
    fork, original = runs.alias("fork"), runs.alias("original")
    query = sa.select(fork.c.thread_id).join(original, fork.c.forked_from == original.c.id).distinct()
    while latest:
        later = connection.execute(query.where(original.c.thread_id.in_(latest))).scalars()
        latest = [one for one in later if one not in found]
        found |= dict.fromkeys(latest)
    return list(found)[1:]


def _candidates(connection: Connection, policy: Policy) -> list[str]:
    """Threads in which something may be old, oldest first. Threads of specialists are not among them."""
    old_runs = sa.select(runs.c.thread_id, runs.c.updated_at.label("at")).where(
        runs.c.status.in_([one.value for one in policy.ended]),
        runs.c.updated_at < policy.before,
        runs.c.parent_run_id.is_(None),
    )
    alone = sa.select(threads.c.thread_id, threads.c.updated_at.label("at")).where(
        threads.c.updated_at < policy.before, ~sa.exists().where(runs.c.thread_id == threads.c.thread_id)
    )
    both = sa.union_all(old_runs, alone).subquery()
    ordered = sa.select(both.c.thread_id).group_by(both.c.thread_id).order_by(sa.func.min(both.c.at))
    return list(connection.execute(ordered).scalars())


def _prune_threads(
    connection: Connection, thread_ids: Sequence[str], policy: Policy, dry_run: bool
) -> Removed:
    removed = Removed()
    for thread_id in thread_ids:
        rows = _runs_of(connection, thread_id) if dry_run else _hold(connection, thread_id)
        if rows:
            removed += _prune_runs(connection, thread_id, rows, policy, dry_run)
        elif _is_old(connection, thread_id, policy):  # used since it was found, it is not
            removed += _prune_alone(connection, thread_id, policy, dry_run)
    return removed


def _hold(connection: Connection, thread_id: str) -> Sequence[Row[*tuple[Any, ...]]]:
    """The runs of a thread, newest first, held with the thread's row until the transaction ends."""
    hold(connection, thread_id)
    return _runs_of(connection, thread_id, hold=True)


def _runs_of(
    connection: Connection, thread_id: str, *, hold: bool = False
) -> Sequence[Row[*tuple[Any, ...]]]:
    columns = (
        runs.c.id,
        runs.c.status,
        runs.c.created_at,
        runs.c.updated_at,
        runs.c.lease_owner,
        runs.c.lease_until,
    )
    query = sa.select(*columns).where(runs.c.thread_id == thread_id)
    newest_first = query.order_by(runs.c.created_at.desc(), runs.c.id.desc())
    return connection.execute(newest_first.with_for_update() if hold else newest_first).all()


def _prune_runs(
    connection: Connection,
    thread_id: str,
    rows: Sequence[Row[*tuple[Any, ...]]],
    policy: Policy,
    dry_run: bool,
) -> Removed:
    if any(row.status not in policy.ended for row in rows):
        return Removed()
    kept = [
        row for place, row in enumerate(rows) if place < policy.keep_last or row.updated_at >= policy.before
    ]
    old = [row.id for row in rows if row not in kept]
    if not old:
        return Removed()
    family = _with_specialists(connection, old)
    removed = Removed(0 if kept else 1, len(family), 1 if kept else 0)
    if dry_run:
        return removed
    _delete_runs(connection, family, spare=thread_id)
    if kept:
        since = min(policy.before, *(row.created_at for row in kept))
        shrink(connection, thread_id, partial(_newest_and_since, since=since))
    else:
        delete_threads(connection, [thread_id])
    return removed


def _prune_alone(connection: Connection, thread_id: str, policy: Policy, dry_run: bool) -> Removed:
    """A thread of a graph that the runtime does not drive: it is old as a whole."""
    if policy.keep_last == 0:
        if not dry_run:
            delete_threads(connection, [thread_id])
        return Removed(threads=1)
    if not dry_run:
        shrink(connection, thread_id, lambda rows: set(sorted(rows)[-policy.keep_last :]))
    return Removed(shortened=1)


def _newest_and_since(rows: Rows, since: str) -> set[str]:
    """The newest checkpoint of a namespace, and all from `since` on. LangGraph writes `+00:00` for our `Z`."""
    return {key for key, row in rows.items() if row.ts[:26] >= since[:26]} | ({max(rows)} if rows else set())


def _is_old(connection: Connection, thread_id: str, policy: Policy) -> bool:
    """Whether a thread without runs was last used before, and does not wait, at an interrupt or before a node."""
    root = sa.and_(namespaces.c.thread == threads.c.id, namespaces.c.ns == "")
    newest = sa.and_(
        checkpoints.c.namespace == namespaces.c.id, checkpoints.c.checkpoint_id == threads.c.checkpoint_id
    )
    tree = threads.outerjoin(namespaces, root).outerjoin(checkpoints, newest)
    used = sa.select(threads.c.id, threads.c.updated_at, checkpoints.c.channels).select_from(tree)
    row = connection.execute(used.where(threads.c.thread_id == thread_id)).one_or_none()
    if row is None or row.updated_at >= policy.before or _is_due(connection, row.id, row.channels or "{}"):
        return False
    waits = sa.select(_waiting.c.waits).where(_waiting.c.thread_id == thread_id)
    return not connection.execute(waits).scalar()


def _is_due(connection: Connection, thread: int, channels: str) -> bool:
    """Whether a node is to run next: LangGraph tells it by channels that it empties when the node begins."""
    try:
        given = stored_object("checkpoints", f"thread {thread}", channels)
        return any(
            name == "__start__"
            or name.startswith(_CALLS)
            or (name == "__pregel_tasks" and held != {"v": []})
            or (name.startswith(_JOIN) and _have_all_come(name, _tree(connection, thread, held)))
            for name, held in given.items()
        )
    except StoredDataError:
        return True  # nothing is known of a damaged row, and it is in no other's way


_CALLS = (
    "branch:",
    "start:",
)  # the second, and further kinds of the first, in what older versions of LangGraph left
_JOIN = "join:"  # of a node that waits for several: `join:a+b:c` holds which of a and b have come


def _have_all_come(name: str, came: Json) -> bool:
    awaited = name.removeprefix(_JOIN).rpartition(":")[0]
    return len("+".join(_texts(came))) == len(awaited)


def _tree(connection: Connection, thread: int, held: Json) -> Json:
    """What a channel holds, in its stored form."""
    if type(held) is not int:
        return held
    row = statements.read_values.first(connection, {"thread": thread, "first": held, "last": held})
    return stored_tree("channel_values", f"thread {thread} seq {held}", row[1] if row else "")


def _texts(tree: Json) -> list[str]:
    """The texts in a stored value, its tags left out."""
    if type(tree) is dict:
        return _texts(tree.get("v"))
    if type(tree) is list:
        return [text for one in tree for text in _texts(one)]
    return [tree] if type(tree) is str else []


def _with_specialists(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """These runs, and those that worked for them, at any depth."""
    family = dict.fromkeys(run_ids)
    latest = list(run_ids)
    while latest:
        found: list[str] = []
        for batch in batches(latest):
            query = sa.select(runs.c.id).where(runs.c.parent_run_id.in_(batch))
            found += [one for one in connection.execute(query).scalars() if one not in family]
        family |= dict.fromkeys(found)
        latest = found
    return list(family)


def _delete_runs(connection: Connection, run_ids: Sequence[str], *, spare: str) -> None:
    """Take away runs with their rows, and the threads of the specialists among them, except thread `spare`."""
    for batch in batches(run_ids):
        query = sa.select(runs.c.thread_id).where(runs.c.id.in_(batch), runs.c.thread_id != spare)
        delete_threads(connection, list(connection.execute(query.distinct()).scalars()))
        for table in _OF_RUNS:
            connection.execute(table.delete().where(table.c.run_id.in_(batch)))
        connection.execute(runs.delete().where(runs.c.id.in_(batch)))


def _forget(connection: Connection, thread_id: str, *, dry_run: bool = False) -> Removed:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")
    rows = _runs_of(connection, thread_id) if dry_run else _hold(connection, thread_id)
    for row in rows:
        if row.status == RunStatus.RUNNING and row.lease_until is not None and row.lease_until > now():
            raise RunBusy.of(row)
    stored = sa.select(threads.c.id).where(threads.c.thread_id == thread_id)
    if not rows and connection.execute(stored).first() is None:
        raise UsageError(f"there is no thread {thread_id!r} in this store; nothing was changed")
    family = _with_specialists(connection, [row.id for row in rows])
    if not dry_run:
        _delete_runs(connection, family, spare=thread_id)
        delete_threads(connection, [thread_id])
    return Removed(threads=1, runs=len(family))
