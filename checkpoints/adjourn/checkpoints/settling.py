"""How a question is closed: answered, agreed to by several, expired, passed over. Each move is made once.

Functions take the connection of the caller's transaction, and move a row only from where the move is allowed: of two
answers, or of an answer and an expiry, at the same moment one wins.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, literal, or_, select, true, update

from adjourn.checkpoints import family
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import AlreadyAnswered, Expired
from adjourn.checkpoints.events import InterruptAnswered
from adjourn.checkpoints.journal import write_audit
from adjourn.checkpoints.lifecycle import INTERRUPT_MOVES, InterruptState, RunStatus, sources
from adjourn.checkpoints.records import Interrupt, to_json
from adjourn.checkpoints.run_schema import interrupts, runs


def answer_interrupt(connection: Connection, interrupt: Interrupt, answer: Any, *, by: str | None) -> None:
    """Record the answer to an open question whose time has not passed: the first one wins.

    Raises `AlreadyAnswered` with who and when if it is not open any more, `Expired` if its time has passed; the
    caller rolls back.
    """
    if not _close(connection, interrupt.id, InterruptState.ANSWERED, answer, by):
        raise _settled_before(connection, interrupt)
    write_audit(connection, interrupt.run_id, "answered", by=by, interrupt_id=interrupt.id, data=answer)


def approve_interrupt(connection: Connection, interrupt: Interrupt, *, by: str) -> dict[str, Any]:
    """Add one approval to an open question that needs several; it stays open. Gives all that it has now.

    The caller holds the run's row. Raises as `answer_interrupt` does, and `AlreadyAnswered` when this person has
    agreed before.
    """
    approvals = interrupt.approvals or {"needed": 1, "of": [], "given": []}
    before = next((one for one in approvals["given"] if one["by"] == by), None)
    if before is not None:
        raise AlreadyAnswered(interrupt.id, "approved", by, before["at"])
    at = now()
    approvals = {**approvals, "given": [*approvals["given"], {"by": by, "at": at}]}
    changed = connection.execute(
        update(interrupts)
        .where(interrupts.c.id == interrupt.id, _may_become(InterruptState.ANSWERED, at))
        .values(approvals=to_json(approvals))
    )
    if changed.rowcount != 1:
        raise _settled_before(connection, interrupt)
    write_audit(connection, interrupt.run_id, "approved", by=by, interrupt_id=interrupt.id, data=approvals)
    return approvals


def _settled_before(connection: Connection, interrupt: Interrupt) -> AlreadyAnswered:
    row = connection.execute(select(interrupts).where(interrupts.c.id == interrupt.id)).mappings().one()
    if row["state"] in (InterruptState.OPEN, InterruptState.EXPIRED):
        return Expired(interrupt.id, interrupt.run_id, row["closed_at"] or row["expires_at"])
    return AlreadyAnswered(interrupt.id, row["state"], row["answered_by"], row["closed_at"])


def close_interrupt(
    connection: Connection, interrupt: Interrupt, state: InterruptState, *, by: str | None
) -> bool:
    """Close an open question without an answer. False: it was closed before, or its time has not passed yet
    (where `state` is `expired`)."""
    closed = _close(connection, interrupt.id, state, None, by)
    if closed:
        write_audit(connection, interrupt.run_id, state.value, by=by, interrupt_id=interrupt.id)
    return closed


def event_of(
    interrupt: Interrupt, state: InterruptState, *, by: str | None, answer: Any = None
) -> InterruptAnswered:
    """The event that tells of a question that came to `state`; `open`: it has one more of the approvals that it needs."""
    return InterruptAnswered(
        run_id=interrupt.run_id,
        path=interrupt.path,
        step=interrupt.step,
        interrupt_id=interrupt.id,
        call_id=interrupt.call_id,
        state=state.value,
        answer=answer,
        by=by,
    )


def _close(
    connection: Connection, interrupt_id: str, state: InterruptState, answer: Any, by: str | None
) -> bool:
    at = now()
    changed = connection.execute(
        update(interrupts)
        .where(interrupts.c.id == interrupt_id, _may_become(state, at))
        .values(state=state.value, answer=to_json(answer), answered_by=by, closed_at=at)
    )
    return changed.rowcount == 1


def _may_become(state: InterruptState, at: str) -> ColumnElement[bool]:
    """From where a question may go to `state`: answers until its time has passed, expiry from then on."""
    expires, allowed = interrupts.c.expires_at, [one.value for one in sources(INTERRUPT_MOVES, state)]
    timely = {
        InterruptState.ANSWERED: or_(expires.is_(None), expires > at),
        InterruptState.EXPIRED: expires <= at,
    }
    return and_(interrupts.c.state.in_(allowed), timely.get(state, true()))


def overdue_runs(connection: Connection, *, limit: int | None = None) -> list[str]:
    """The waiting runs that have an open question whose time has passed, the longest overdue first."""
    found = (
        select(interrupts.c.run_id)
        .join(runs, runs.c.id == interrupts.c.run_id)
        .where(
            interrupts.c.state == InterruptState.OPEN.value,
            interrupts.c.expires_at <= now(),
            runs.c.status == RunStatus.INTERRUPTED.value,
        )
        .group_by(interrupts.c.run_id)
        .order_by(func.min(interrupts.c.expires_at))
    )
    return list(connection.execute(found if limit is None else found.limit(limit)).scalars())


def next_expiries(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """When the next open question of each of these runs expires, for those that have one that does."""
    found = (
        select(interrupts.c.run_id, func.min(interrupts.c.expires_at))
        .where(
            interrupts.c.run_id.in_(run_ids),
            interrupts.c.state == InterruptState.OPEN.value,
            interrupts.c.expires_at.is_not(None),
        )
        .group_by(interrupts.c.run_id)
    )
    return {row[0]: row[1] for row in connection.execute(found)}


def settled_runs(connection: Connection, graph: str | None) -> list[str]:
    """The runs of a graph (None: of all graphs) that wait although neither they nor the runs below them have an open
    question, oldest first: their questions have expired. Runs that work for others are left out: they go on with these."""
    asked = select(literal(1)).where(  # the index alone tells it
        interrupts.c.run_id == runs.c.id, interrupts.c.state == InterruptState.OPEN.value
    )
    of_graph = true() if graph is None else runs.c.graph == graph
    found = select(runs.c.id).where(of_graph, runs.c.status == RunStatus.INTERRUPTED.value, ~asked.exists())
    tops = found.where(runs.c.parent_run_id.is_(None)).order_by(runs.c.created_at)
    return [one for one in connection.execute(tops).scalars().all() if not family.asks(connection, one)]
