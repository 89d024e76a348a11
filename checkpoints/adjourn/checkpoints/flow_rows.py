"""The steps of flows, inside a transaction of the caller's: which are done, which one a run has reached (C-78)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Connection, bindparam, func, insert, select, update

from adjourn.checkpoints.compiled import Statement
from adjourn.checkpoints.errors import IllegalMove
from adjourn.checkpoints.lifecycle import FLOW_STEP_MOVES, FlowStepState, sources
from adjourn.checkpoints.records import to_text
from adjourn.checkpoints.run_schema import flow_steps


@dataclass(frozen=True, slots=True)
class FlowStepRow:
    """A row of `flow_steps`. `version` counts how often its status was set; times are ISO 8601, UTC."""

    run_id: str
    position: int
    step: str
    status: str
    reason: str | None = None
    version: int = 1
    started_at: str | None = None
    ended_at: str | None = None


_ENDED = (FlowStepState.DONE, FlowStepState.SKIPPED, FlowStepState.FAILED, FlowStepState.STOPPED)


def store(connection: Connection, rows: Sequence[FlowStepRow], *, at: str) -> None:
    """Bring steps to the states of `rows`, in this order; those that are `pending` are new.

    Raises `IllegalMove` for a step that cannot come to its state from the one it is in.
    """
    for row in rows:
        if row.status == FlowStepState.PENDING:
            values = {one.name: getattr(row, one.name) for one in fields(row)}
            connection.execute(insert(flow_steps).values(values))
        else:
            _move(connection, row, at)


def _move(connection: Connection, row: FlowStepRow, at: str) -> None:
    state = FlowStepState(row.status)
    changed = connection.execute(
        update(flow_steps)
        .where(
            flow_steps.c.run_id == bindparam("of_run"),
            flow_steps.c.step == bindparam("of_step"),
            flow_steps.c.status.in_([one.value for one in sources(FLOW_STEP_MOVES, state)]),
        )
        .values(
            status=state.value,
            reason=to_text(row.reason),
            version=flow_steps.c.version + 1,
            started_at=func.coalesce(flow_steps.c.started_at, at)
            if state is FlowStepState.RUNNING
            else flow_steps.c.started_at,
            ended_at=at if state in _ENDED else None,
        ),
        {"of_run": row.run_id, "of_step": row.step},
    )
    if changed.rowcount != 1:
        raise IllegalMove(f"step {row.step} of run {row.run_id}", "where it is", state.value)


def stop(connection: Connection, run_id: str, reason: str, *, at: str) -> None:
    """The run is ended while it waits: the step that it had reached stops."""
    connection.execute(
        update(flow_steps)
        .where(
            flow_steps.c.run_id == bindparam("of_run"),
            flow_steps.c.status == FlowStepState.RUNNING.value,
        )
        .values(
            status=FlowStepState.STOPPED.value, reason=reason, version=flow_steps.c.version + 1, ended_at=at
        ),
        {"of_run": run_id},
    )


def read(connection: Connection, run_id: str) -> list[FlowStepRow]:
    """The steps of a run's flow in their order; empty for a run without one."""
    return [FlowStepRow(**row) for row in _read.mappings(connection, {"of_run": run_id})]


_read = Statement(
    lambda _: (
        select(flow_steps).where(flow_steps.c.run_id == bindparam("of_run")).order_by(flow_steps.c.position)
    )
)
