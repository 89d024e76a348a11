"""Questions whose time has passed: found by whoever looks at their run, and closed once.

A look closes them and no more. When no question of the run is open then, it can go on: whoever recovers or
resumes it drives it, and its calls are answered `expired`.
"""

import logging
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, family, journal, settling
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import InterruptState, RunStatus
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.reading import read_run
from adjourn.graph.run import Run

log = logging.getLogger("adjourn.run")

AT_ONCE = 100  # runs that a look at a list tends to: each is a transaction, and the list must come soon


def expire(connection: Connection, run_id: str) -> list[Event]:
    """Close the overdue questions of a waiting run, each with its audit row and event; gives the events.

    Of a run that works it closes none: its owner numbers its events, and is about to leave it.
    """
    run = journal.lock_run(connection, run_id)
    if run.status != RunStatus.INTERRUPTED:
        return []
    at = now()
    due = [
        one
        for one in journal.read_interrupts(connection, run_id, state=InterruptState.OPEN)
        if one.is_overdue(at) and settling.close_interrupt(connection, one, InterruptState.EXPIRED, by=None)
    ]
    return event_rows.append(
        connection, run_id, [settling.event_of(one, InterruptState.EXPIRED, by=None) for one in due]
    )


def _overdue(questions: Iterable[Interrupt]) -> list[str]:
    """The runs that have an overdue question among these."""
    at = now()
    return list(dict.fromkeys(one.run_id for one in questions if one.is_overdue(at)))


def _expire_all(connection: Connection, run_ids: Iterable[str]) -> list[Event]:
    return [event for one in run_ids for event in expire(connection, one)]


def read_current(database: Database, run_id: str) -> Run:
    """The run as it stands now. Raises `RunNotFound`."""
    run = database.read(lambda connection: read_run(connection, run_id))
    due = _overdue(run.interrupts) if run.status == RunStatus.INTERRUPTED else []
    if not due:
        return run
    database.write(lambda connection: _expire_all(connection, due))
    return database.read(lambda connection: read_run(connection, run_id))


async def aread_current(database: Database, run_id: str) -> Run:
    """`read_current`, for async callers."""
    run = await database.aread(lambda connection: read_run(connection, run_id))
    due = _overdue(run.interrupts) if run.status == RunStatus.INTERRUPTED else []
    if not due:
        return run
    await database.awrite(lambda connection: _expire_all(connection, due))
    return await database.aread(lambda connection: read_run(connection, run_id))


async def asked(database: Database, run_id: str) -> tuple[Sequence[Interrupt], Sequence[Event]]:
    """The questions of a run and of the runs below it, once the overdue ones were closed; and the events of that."""
    told: Sequence[Event] = ()
    found = await database.aread(lambda connection: family.read_interrupts(connection, run_id))
    due = _overdue(found)
    if due:
        told = await database.awrite(lambda connection: _expire_all(connection, due))
        found = await database.aread(lambda connection: family.read_interrupts(connection, run_id))
    return found, told


def sweep(database: Database) -> Sequence[str]:
    """Close what is overdue in the whole store, of the `AT_ONCE` runs that are longest overdue. Gives these runs."""
    due = database.read(lambda connection: settling.overdue_runs(connection, limit=AT_ONCE))
    for run_id in due:
        try:
            database.write(lambda connection, run_id=run_id: expire(connection, run_id))  # type: ignore[misc]
        except StoredDataError as error:  # it is in no other's way; whoever looks at that run hears of it
            log.error("%s", error)
    return due


async def asweep(database: Database, *, limit: int | None = AT_ONCE) -> Sequence[str]:
    """`sweep`, for async callers; `limit`: of so many runs, None: of all."""
    due = await database.aread(lambda connection: settling.overdue_runs(connection, limit=limit))
    for run_id in due:
        try:
            await database.awrite(lambda connection, run_id=run_id: expire(connection, run_id))  # type: ignore[misc]
        except StoredDataError as error:
            log.error("%s", error)
    return due
