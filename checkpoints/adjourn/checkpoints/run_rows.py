"""What belongs to one run. Each function sends its query and gives a function that brings the rows, so that several
queries can go together (`compiled.in_one_go`). Where only one is needed, `journal` has the same as plain reads.
"""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, select

from adjourn.checkpoints.compiled import Asked, Statement
from adjourn.checkpoints.errors import RunNotFound
from adjourn.checkpoints.lifecycle import InterruptState
from adjourn.checkpoints.records import AuditRow, CallRow, Interrupt, RunRow, StepRow
from adjourn.checkpoints.run_schema import audit as audit_table
from adjourn.checkpoints.run_schema import calls as calls_table
from adjourn.checkpoints.run_schema import events, runs
from adjourn.checkpoints.run_schema import interrupts as interrupts_table
from adjourn.checkpoints.run_schema import steps as steps_table


def check_id(run_id: str) -> None:
    """Raises `RunNotFound` for what no run is called on any engine: PostgreSQL alone would refuse to look for a NUL."""
    try:
        is_one = b"\x00" not in str(run_id).encode()
    except UnicodeEncodeError:
        is_one = False
    if not is_one:
        raise RunNotFound(run_id)


def run(connection: Connection, run_id: str, *, lock: bool = False) -> Asked[RunRow]:
    """The run itself; `lock`: its row is held until the transaction ends. The call raises `RunNotFound`."""
    check_id(run_id)
    asked = (_locked_run if lock else _run).ask(connection, {"id_": run_id})

    def found() -> RunRow:
        rows = asked()
        if not rows:
            raise RunNotFound(run_id)
        return RunRow.of(rows[0])

    return found


def keys(connection: Connection, run_id: str) -> Asked[set[str]]:
    """The keys of the events that it has stored."""
    asked = _keys.ask(connection, {"id_": run_id})
    return lambda: {row["key"] for row in asked()}


def steps(connection: Connection, run_id: str) -> Asked[list[StepRow]]:
    """Its steps, in order."""
    asked = _steps.ask(connection, {"id_": run_id})
    return lambda: [StepRow.of(row) for row in asked()]


def calls(connection: Connection, run_id: str, *, step: int | None = None) -> Asked[list[CallRow]]:
    """Its calls (or those of one step), in request order."""
    asked = (_calls if step is None else _calls_of_step).ask(connection, {"id_": run_id, "of_step": step})
    return lambda: [CallRow.of(row) for row in asked()]


def interrupts(
    connection: Connection, run_id: str, *, state: InterruptState | None = None
) -> Asked[list[Interrupt]]:
    """Its questions, in the order they were asked."""
    statement = _interrupts if state is None else _interrupts_in
    asked = statement.ask(connection, {"id_": run_id, "in_state": state})
    return lambda: [Interrupt.of(row) for row in asked()]


def audit(connection: Connection, run_id: str) -> Asked[list[AuditRow]]:
    """Who did what to it, in order."""
    asked = _audit.ask(connection, {"id_": run_id})
    return lambda: [AuditRow.of(row) for row in asked()]


def _of_run(table: Table, *order: ColumnElement[Any], only: ColumnElement[bool] | None = None) -> Statement:
    """The rows of a table that belong to a run."""
    conditions = [table.c.run_id == bindparam("id_"), *([] if only is None else [only])]
    return Statement(lambda _: select(table).where(*conditions).order_by(*order))


_run = Statement(lambda _: select(runs).where(runs.c.id == bindparam("id_")))
_locked_run = Statement(lambda _: select(runs).where(runs.c.id == bindparam("id_")).with_for_update())
_keys = Statement(lambda _: select(events.c.key).where(events.c.run_id == bindparam("id_")))
_steps = _of_run(steps_table, steps_table.c.step)
_calls = _of_run(calls_table, calls_table.c.step, calls_table.c.position)
_calls_of_step = _of_run(calls_table, calls_table.c.position, only=calls_table.c.step == bindparam("of_step"))
_audit = _of_run(audit_table, audit_table.c.id)
_asked = (interrupts_table.c.step, interrupts_table.c.created_at, interrupts_table.c.position)
_interrupts = _of_run(interrupts_table, *_asked)
_interrupts_in = _of_run(interrupts_table, *_asked, only=interrupts_table.c.state == bindparam("in_state"))
