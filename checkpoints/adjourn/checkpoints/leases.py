"""Who owns a run: claim by compare-and-set, renew, and the fence that refuses a stale owner (C-90).

A run is driven by one owner at a time. A claim raises the run's fence; each later write of that owner
carries the number, in the same transaction as what it writes, and is refused when it is stale.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, bindparam, case, or_, select, update
from sqlalchemy.exc import IntegrityError

from adjourn.checkpoints.compiled import Check, Statement, kept
from adjourn.checkpoints.database import format_time, now
from adjourn.checkpoints.doorbell import ring
from adjourn.checkpoints.errors import LeaseLost, NotResumable, RunBusy, RunNotFound
from adjourn.checkpoints.lifecycle import RUN_MOVES, RunEvent, RunStatus, sources
from adjourn.checkpoints.run_schema import runs

# Three missed renewals, at one every 10 s: longer than a garbage collector's pause, shorter than a coffee.
LEASE_S = 30.0

_mine = update(runs).where(
    runs.c.id == bindparam("run_id"), runs.c.status.in_(bindparam("from_", expanding=True))
)
_owned: Sequence[tuple[Column[Any], Any]] = (
    (runs.c.status, RunStatus.RUNNING.value),
    (runs.c.fence, runs.c.fence + 1),
    (runs.c.lease_owner, bindparam("owner")),
    (runs.c.lease_until, bindparam("until")),
    (runs.c.updated_at, bindparam("at")),
)
# Who let go of it gave the lease back; who died did not. A death after new events is the first one at its place.
_deaths = case(
    (runs.c.lease_owner.is_(None), runs.c.deaths),
    (runs.c.last_event > runs.c.claimed_event, 1),
    else_=runs.c.deaths + 1,
)
_here = (runs.c.claimed_event, runs.c.last_event)
# in this order: MySQL sets one column after the other, and reads what it has set
_claim = _mine.ordered_values((runs.c.deaths, 0), _here, *_owned)
_claim_expired = _mine.where(
    or_(runs.c.lease_until.is_(None), runs.c.lease_until < bindparam("at"))
).ordered_values((runs.c.deaths, _deaths), _here, *_owned)
_renew = Statement(
    lambda _: (
        update(runs)
        .where(
            runs.c.id == bindparam("run_id"),
            runs.c.fence == bindparam("held"),
            runs.c.status == RunStatus.RUNNING.value,
            runs.c.lease_owner.is_not(None),  # a run that was handed back: the renewal came late
        )
        .values(lease_until=bindparam("until"), active_ms=bindparam("worked_ms"))
    )
)
# FOR UPDATE holds the row on PostgreSQL and MariaDB; SQLite drops it, and BEGIN IMMEDIATE does the same.
_hold = Statement(
    lambda _: (
        select(runs.c.fence)
        .where(
            runs.c.id == bindparam("run_id"),
            runs.c.fence == bindparam("held"),
            runs.c.status == RunStatus.RUNNING.value,
        )
        .with_for_update()
    )
)
_who = select(runs.c.id, runs.c.status, runs.c.fence, runs.c.lease_owner, runs.c.lease_until).where(
    runs.c.id == bindparam("run_id")
)


def lease_end(lease_s: float) -> str:
    """When a lease that starts now ends, as it is stored."""
    return format_time(datetime.now(UTC) + timedelta(seconds=lease_s))


def claim(
    connection: Connection,
    run_id: str,
    event: RunEvent,
    *,
    owner: str,
    lease_s: float,
    at_once: bool = False,
) -> int:
    """Become the owner of a run and give the fence to carry. One of several claimants wins.

    `GO_ON` takes an interrupted run, `RETRY` a failed one, `RECOVER` a running one whose lease has run out.
    `at_once`: `RECOVER` does not wait for that. It is for whoever owns the run that this one works for, and so knows
    that its former owner is gone.

    Raises `RunNotFound`, `RunBusy` when somebody drives it, `NotResumable` when its status does not allow it.
    """
    statement = _claim_expired if event is RunEvent.RECOVER and not at_once else _claim
    values = {
        "run_id": run_id,
        "from_": [one.value for one in sources(RUN_MOVES, event)],
        "owner": owner,
        "until": lease_end(lease_s),
        "at": now(),
    }
    try:
        with kept(connection):
            claimed = connection.execute(statement, values).rowcount
    except IntegrityError as error:  # its thread has another live run by now
        raise RunBusy(run_id) from error
    row = connection.execute(_who, {"run_id": run_id}).one_or_none()
    if row is None:
        raise RunNotFound(run_id)
    if claimed:
        return int(row.fence)
    if row.status == RunStatus.RUNNING:
        raise RunBusy.of(row)
    raise NotResumable(run_id, row.status)


def renew(connection: Connection, run_id: str, fence: int, *, lease_s: float, active_ms: int) -> bool:
    """Extend the lease and note the time worked. False: the run has another owner or has ended."""
    values = {"run_id": run_id, "held": fence, "until": lease_end(lease_s), "worked_ms": active_ms}
    return _renew.change(connection, values) == 1


def release(connection: Connection, run_id: str, fence: int, *, active_ms: int) -> None:
    """Give a run back in the middle: it stays `running`, and `RECOVER` takes it at once. Workers are woken.

    Raises `LeaseLost` when the fence is stale.
    """
    free = {"lease_owner": None, "lease_until": None, "active_ms": active_ms, "updated_at": now()}
    mine = (runs.c.id == run_id, runs.c.fence == fence, runs.c.status == RunStatus.RUNNING.value)
    if connection.execute(update(runs).where(*mine).values(free)).rowcount != 1:
        raise LeaseLost(run_id, fence)
    ring(connection)


def suspend(connection: Connection, run_id: str) -> None:
    """Take a run that works from its owner, whose next write is refused; it waits then, for whoever ends it."""
    taken = {
        "status": RunStatus.INTERRUPTED.value,
        "fence": runs.c.fence + 1,
        "lease_owner": None,
        "lease_until": None,
        "updated_at": now(),
    }
    works = (runs.c.id == run_id, runs.c.status == RunStatus.RUNNING.value)
    connection.execute(update(runs).where(*works).values(taken))


def hold(connection: Connection, run_id: str, fence: int) -> None:
    """Check the fence inside the transaction of a write.

    Raises `LeaseLost` when the fence is stale or the run no longer runs; the caller's transaction rolls back.
    """
    send_hold(connection, run_id, fence)()


def send_hold(connection: Connection, run_id: str, fence: int) -> Check:
    """`hold`, sent without waiting: the check that it gives raises where `hold` would."""

    def lost() -> None:
        raise LeaseLost(run_id, fence)

    return _hold.meet(connection, {"run_id": run_id, "held": fence}, lost)
