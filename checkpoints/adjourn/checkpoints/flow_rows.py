"""The steps of flows, inside a transaction of the caller's: which are done, which one a run has reached (C-78)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

from sqlalchemy import ClauseElement, Connection, bindparam, func, insert, null, or_, select, update

from adjourn.checkpoints.compiled import Asked, Check, Statement, word
from adjourn.checkpoints.errors import IllegalMove
from adjourn.checkpoints.lifecycle import FLOW_STEP_MOVES, FlowStepState, sources
from adjourn.checkpoints.records import Row, to_text
from adjourn.checkpoints.run_schema import flow_steps


@dataclass(frozen=True, slots=True)
class FlowStepRow(Row):
    """A row of `flow_steps`. `version` counts how often its status was set; times are ISO 8601, UTC."""

    run_id: str
    position: int
    step: str
    status: str
    reason: str | None = None
    version: int = 1
    started_at: str | None = None
    ended_at: str | None = None

    _table = "flow_steps"
    _key = ("run_id", "position")
    _words = MappingProxyType({"status": FlowStepState})


_ENDED = (FlowStepState.DONE, FlowStepState.SKIPPED, FlowStepState.FAILED, FlowStepState.STOPPED)


def store(connection: Connection, rows: Sequence[FlowStepRow], *, at: str) -> list[Check]:
    """Bring steps to the states of `rows`, in this order; those that are `pending` are new.

    The checks raise `IllegalMove` for a step that could not come to its state from the one it was in.
    """
    fresh = [row for row in rows if row.status == FlowStepState.PENDING]
    _insert.change_many(
        connection, [{one.name: getattr(row, one.name) for one in fields(row)} for row in fresh]
    )
    return [_move(connection, row, at) for row in rows if row.status != FlowStepState.PENDING]


_insert = Statement(
    lambda _: insert(flow_steps).values({one.name: bindparam(one.name) for one in fields(FlowStepRow)})
)


def _move(connection: Connection, row: FlowStepRow, at: str) -> Check:
    values = {"of_run": row.run_id, "of_step": row.step, "why": to_text(row.reason), "at": at}

    def illegal() -> None:
        raise IllegalMove(f"step {row.step} of run {row.run_id}", "where it is", row.status)

    return _MOVES[FlowStepState(row.status)].meet(connection, values, illegal, row=row.step)


def _moving(state: FlowStepState) -> ClauseElement:
    """The update that brings a step to a state."""
    began = func.coalesce(flow_steps.c.started_at, bindparam("at"))
    return (
        update(flow_steps)
        .where(
            flow_steps.c.run_id == bindparam("of_run"),
            flow_steps.c.step == bindparam("of_step"),
            or_(*(flow_steps.c.status == word(one) for one in sources(FLOW_STEP_MOVES, state))),
        )
        .values(
            status=state.value,
            reason=bindparam("why"),
            version=flow_steps.c.version + 1,
            started_at=began if state is FlowStepState.RUNNING else flow_steps.c.started_at,
            ended_at=bindparam("at") if state in _ENDED else null(),
        )
    )


def _move_to(state: FlowStepState) -> Statement:
    return Statement(lambda _: _moving(state))


_MOVES: dict[FlowStepState, Statement] = {
    state: _move_to(state) for state in FlowStepState if state is not FlowStepState.PENDING
}


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
    return ask(connection, run_id)()


def ask(connection: Connection, run_id: str) -> Asked[list[FlowStepRow]]:
    """`read`, asked together with others."""
    asked = _read.ask(connection, {"of_run": run_id})
    return lambda: [FlowStepRow.of(row) for row in asked()]


_read = Statement(
    lambda _: (
        select(flow_steps).where(flow_steps.c.run_id == bindparam("of_run")).order_by(flow_steps.c.position)
    )
)
