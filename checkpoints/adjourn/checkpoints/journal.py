"""Runs, steps, calls, questions and the audit: what is written and read inside a transaction.

Each function takes the connection of the caller's transaction, so that a fact and its event (`event_rows`) are
committed together (C-65). Statements are built once, and compiled once per database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    ClauseElement,
    Connection,
    Table,
    bindparam,
    insert,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from adjourn.checkpoints import run_rows
from adjourn.checkpoints.compiled import Asked, Check, Statement, word
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import IllegalMove, LeaseLost, StoredDataError
from adjourn.checkpoints.lifecycle import (
    CALL_MOVES,
    LIVE,
    RUN_MOVES,
    CallState,
    InterruptState,
    RunEvent,
    RunStatus,
    StopReason,
    sources,
)
from adjourn.checkpoints.records import (
    CallRow,
    Interrupt,
    RunRow,
    StepRow,
    from_json,
    to_json,
    to_text,
    whole,
)
from adjourn.checkpoints.run_schema import audit, calls, inputs, interrupts, runs, steps

_JSON = frozenset(
    {"input", "context", "error", "arguments", "payload", "response_schema", "answer", "approvals", "shown"}
)


def _encoded(row: Any, table: Table) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in row.__slots__}
    for name in _JSON & values.keys() - ({"answer"} if table is runs else set()):
        values[name] = to_json(values[name])
    return values


def _insert(table: Table, row: type[Any]) -> Statement:
    return Statement(lambda _: insert(table).values({one.name: bindparam(one.name) for one in fields(row)}))


_insert_run = _insert(runs, RunRow)
_insert_step = _insert(steps, StepRow)
_insert_call = _insert(calls, CallRow)
_insert_interrupt = _insert(interrupts, Interrupt)
_insert_audit = Statement(
    lambda _: insert(audit).values({one.name: bindparam(one.name) for one in audit.c if one.name != "id"})
)


def insert_run(connection: Connection, run: RunRow) -> None:
    """Store a new run. The database refuses a second live run on a thread (`sqlalchemy.exc.IntegrityError`)."""
    _insert_run.change(connection, _encoded(run, runs))


def begin_run(connection: Connection, run: RunRow) -> bool:
    """`insert_run`, after which the transaction can go on whatever it came to. False: the database refused the run."""
    values = _encoded(run, runs)
    if connection.dialect.name == "postgresql":  # where an error would end the transaction
        return bool(_insert_run_or_not.rows(connection, values))
    try:
        _insert_run.change(connection, values)
    except IntegrityError:
        return False
    return True


def _inserting_or_not() -> ClauseElement:
    from sqlalchemy.dialects import postgresql  # it is slow to load, and others never need it

    row: dict[str, Any] = {one.name: bindparam(one.name) for one in fields(RunRow)}
    return postgresql.insert(runs).values(row).on_conflict_do_nothing().returning(runs.c.id)


_insert_run_or_not = Statement(lambda _: _inserting_or_not())


def insert_blocks(connection: Connection, run_id: str, blocks: Sequence[Any]) -> None:
    """Store the whole of a message that is more than its text."""
    connection.execute(insert(inputs).values(run_id=run_id, blocks=to_json(blocks)))


def read_blocks(connection: Connection, run: RunRow) -> list[Any] | None:
    """The whole of a run's message; None: the text is. Raises `StoredDataError` where it is not there."""
    if not run.attached:
        return None
    text = connection.execute(select(inputs.c.blocks).where(inputs.c.run_id == run.id)).scalar()
    blocks = from_json(text, "inputs", run.id)
    if not isinstance(blocks, list):
        raise StoredDataError("inputs", run.id, "the content blocks of its message are missing")
    return blocks


def sign_run(connection: Connection, run_id: str, signature: str) -> None:
    """Note the signature of the graph that drives a run from now on."""
    connection.execute(update(runs).where(runs.c.id == run_id).values(signature=signature))


def note_trace(connection: Connection, run_id: str, trace_context: str) -> None:
    """Keep the context of a run's first span; later ones belong to the same trace."""
    connection.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.trace_context.is_(None))
        .values(trace_context=trace_context)
    )


def insert_step(connection: Connection, step: StepRow) -> None:
    """Store a step; `move_on` counts it on the run."""
    _insert_step.change(connection, _encoded(step, steps))


def insert_calls(connection: Connection, rows: Sequence[CallRow]) -> None:
    """Store the calls of a step as planned (or with the outcome they already have)."""
    _insert_call.change_many(connection, [_encoded(row, calls) for row in rows])


def insert_interrupts(connection: Connection, rows: Sequence[Interrupt]) -> None:
    """Store questions. Their ids derive from the call, so one that is already there is left alone."""
    fresh = [row for row in rows if not _known_interrupt.rows(connection, {"id_": row.id})]
    _insert_interrupt.change_many(connection, [_encoded(row, interrupts) for row in fresh])


_known_interrupt = Statement(lambda _: select(interrupts.c.id).where(interrupts.c.id == bindparam("id_")))


_UPDATES: dict[tuple[str, ...], Statement] = {}


def update_call(
    connection: Connection, run_id: str, step: int, call_id: str, *, outcome: CallState, **values: Any
) -> None:
    """Move one call and change columns of it.

    Raises `IllegalMove` when the call is not there, or stands where no move leads to `outcome`.
    """
    send_call(connection, run_id, step, call_id, outcome=outcome, **values)()


def send_call(
    connection: Connection, run_id: str, step: int, call_id: str, *, outcome: CallState, **values: Any
) -> Check:
    """`update_call`, sent without waiting: the check that it gives raises where `update_call` would."""
    names = ("outcome", *sorted(values))
    key = (outcome.value, *names)
    statement = _UPDATES.get(key)
    if statement is None:
        statement = _UPDATES[key] = Statement(lambda _: _update_call(names, outcome))
    given = {f"v_{name}": to_json(values[name]) if name in _JSON else values[name] for name in values}
    given |= {"v_outcome": outcome.value, "run_id_": run_id, "step_": step, "call_id_": call_id}

    def illegal() -> None:
        mine = (calls.c.run_id == run_id, calls.c.step == step, calls.c.call_id == call_id)
        held = connection.execute(select(calls.c.outcome).where(*mine)).scalar_one_or_none()
        raise IllegalMove(f"call {call_id} of step {step} of run {run_id}", held or "(no row)", outcome.value)

    return statement.meet(connection, given, illegal, row=call_id)


def _update_call(names: tuple[str, ...], outcome: CallState) -> ClauseElement:
    before = sources(CALL_MOVES, outcome)
    return (
        update(calls)
        .where(
            calls.c.run_id == bindparam("run_id_"),
            calls.c.step == bindparam("step_"),
            calls.c.call_id == bindparam("call_id_"),
            or_(*(calls.c.outcome == word(one) for one in before)),
        )
        .values({name: bindparam(f"v_{name}") for name in names})
    )


def write_audit(
    connection: Connection,
    run_id: str,
    action: str,
    *,
    by: str | None,
    interrupt_id: str | None = None,
    data: Any = None,
) -> None:
    """Note who did what. Rows are only ever added."""
    values = {
        "run_id": run_id,
        "interrupt_id": interrupt_id,
        "action": action,
        "by": by,
        "data": to_json(data),
    }
    _insert_audit.change(connection, {**values, "at": now()})


# -- the moves of a run that its owner makes


def end_run(
    connection: Connection,
    run_id: str,
    fence: int,
    event: RunEvent,
    *,
    active_ms: int,
    stop_reason: StopReason | None = None,
    answer: str | None = None,
    error: dict[str, Any] | None = None,
) -> Check:
    """Leave a run: it waits, has finished, was cancelled, or failed. The lease is given back.

    The check raises `LeaseLost` when the fence is stale: nothing is to be changed then.
    """
    at = now()
    status = RUN_MOVES[RunStatus.RUNNING][event]
    ended = status in (RunStatus.FINISHED, RunStatus.CANCELLED)
    values: dict[str, Any] = {
        "v_status": status.value,
        "v_stop_reason": stop_reason.value if stop_reason else None,
        "v_answer": to_text(answer),
        "v_error": to_json(error),
        "v_active_ms": active_ms,
        "v_updated_at": at,
        "v_ended_at": at if ended else None,
        "failed": int(event is RunEvent.FAIL),
        "id_": run_id,
        "held": fence,
    }

    def lost() -> None:
        raise LeaseLost(run_id, fence)

    return _end_run.meet(connection, values, lost)


def _ending() -> ClauseElement:
    given = ("status", "stop_reason", "answer", "error", "active_ms", "updated_at", "ended_at")
    return (
        update(runs)
        .where(
            runs.c.id == bindparam("id_"),
            runs.c.fence == bindparam("held"),
            runs.c.status == word(RunStatus.RUNNING),
        )
        .values(
            {
                **{name: bindparam(f"v_{name}") for name in given},
                **dict.fromkeys(("lease_owner", "lease_until", "cancel_requested_at"), null()),
                "failures": runs.c.failures + bindparam("failed"),
            }
        )
    )


_end_run = Statement(lambda _: _ending())


def leave_waiting(connection: Connection, run_id: str, event: RunEvent, stop_reason: StopReason) -> bool:
    """End a run that nobody drives. False: its status does not allow it any more, and nothing was changed."""
    at = now()
    allowed = [one.value for one in sources(RUN_MOVES, event) if one is not RunStatus.RUNNING]
    target = next(RUN_MOVES[one][event] for one in sources(RUN_MOVES, event))
    changed = connection.execute(
        update(runs)
        .where(runs.c.id == run_id, runs.c.status.in_(allowed))
        .values(status=target.value, stop_reason=stop_reason.value, updated_at=at, ended_at=at)
    )
    return changed.rowcount == 1


def request_cancel(connection: Connection, run_id: str, *, by: str | None) -> bool:
    """Ask the owner of a run to stop. False: the run does not run any more. Asking twice is asking once."""
    asked = connection.execute(
        update(runs)
        .where(
            runs.c.id == run_id,
            runs.c.status == RunStatus.RUNNING.value,
            runs.c.cancel_requested_at.is_(None),
        )
        .values(cancel_requested_at=now(), cancel_requested_by=by)
    )
    if asked.rowcount:
        write_audit(connection, run_id, "cancel_requested", by=by)
    return read_run(connection, run_id).status == RunStatus.RUNNING


def cancel_requests(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Which of these runs somebody asked to stop."""
    asked = select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.cancel_requested_at.is_not(None))
    return list(connection.execute(asked).scalars())


# -- questions


def note_langgraph_id(connection: Connection, run_id: str, langgraph_id: str) -> None:
    """Remember which LangGraph interrupt carries the open questions of a run."""
    _note_langgraph_id.change(connection, {"of_run": run_id, "theirs": langgraph_id})


_note_langgraph_id = Statement(
    lambda _: (
        update(interrupts)
        .where(interrupts.c.run_id == bindparam("of_run"), interrupts.c.state == word(InterruptState.OPEN))
        .values(langgraph_id=bindparam("theirs"))
    )
)


# -- reading


def lock_run(connection: Connection, run_id: str) -> RunRow:
    """The run, its row held until the transaction ends. Raises `RunNotFound`."""
    return run_rows.run(connection, run_id, lock=True)()


def read_run(connection: Connection, run_id: str) -> RunRow:
    """One run. Raises `RunNotFound`."""
    return run_rows.run(connection, run_id)()


def find_run_ids(connection: Connection, beginning: str) -> list[str]:
    """Ids of runs that begin so, newest first; five at most, since they are listed to whoever meant one."""
    matching = select(runs.c.id).where(runs.c.id.startswith(beginning, autoescape=True))
    return list(connection.execute(matching.order_by(runs.c.created_at.desc()).limit(5)).scalars())


def list_runs(
    connection: Connection,
    *,
    statuses: Iterable[RunStatus] = (),
    thread_id: str | None = None,
    graph: str | None = None,
    started_by: str | None = None,
    roots: bool = False,
    limit: int | None = None,
    damaged: list[StoredDataError] | None = None,
) -> list[RunRow]:
    """Runs, newest first; `statuses` empty: all; `graph`, `started_by` None: of every one; `roots`: none that
    works for another run. `damaged`: see `whole`; such a row counts against `limit`."""
    statement = select(runs).order_by(runs.c.created_at.desc(), runs.c.id.desc())
    words = [one.value for one in statuses]
    if words:
        statement = statement.where(runs.c.status.in_(words))
    if thread_id is not None:
        statement = statement.where(runs.c.thread_id == thread_id)
    if graph is not None:
        statement = statement.where(runs.c.graph == graph)
    if started_by is not None:
        statement = statement.where(runs.c.started_by == started_by)
    if roots:
        statement = statement.where(runs.c.parent_run_id.is_(None))
    if limit is not None:
        statement = statement.limit(limit)
    return whole(connection.execute(statement).mappings().all(), RunRow.of, damaged)


def open_run(connection: Connection, thread_id: str) -> RunRow | None:
    """The run of a thread that works, waits, or has failed and can be resumed; there is at most one.

    By status and not by time: the clocks of two hosts may differ.
    """
    return ask_open_run(connection, thread_id)()


def ask_open_run(connection: Connection, thread_id: str) -> Asked[RunRow | None]:
    """`open_run`, asked together with others."""
    asked = _open_run.ask(connection, {"of_thread": thread_id})
    return lambda: next((RunRow.of(row) for row in asked()), None)


_open_run = Statement(
    lambda _: (
        select(runs)
        .where(
            runs.c.thread_id == bindparam("of_thread"),
            or_(*(runs.c.status == word(one) for one in (*LIVE, RunStatus.FAILED))),
        )
        .order_by(runs.c.created_at.desc(), runs.c.id.desc())
        .limit(1)
    )
)


def begun_in_vain(connection: Connection, thread_id: str) -> list[RunRow]:
    """The runs of a thread that failed before their first step, newest first."""
    return [RunRow.of(row) for row in _begun_in_vain.mappings(connection, {"of_thread": thread_id})]


_begun_in_vain = Statement(
    lambda _: (
        select(runs)
        .where(runs.c.thread_id == bindparam("of_thread"), runs.c.steps == 0, runs.c.failures > 0)
        .order_by(runs.c.created_at.desc(), runs.c.id.desc())
    )
)


def read_calls(connection: Connection, run_id: str, *, step: int | None = None) -> list[CallRow]:
    """The calls of a run (or of one step of it), in request order."""
    return run_rows.calls(connection, run_id, step=step)()


def read_interrupts(
    connection: Connection, run_id: str, *, state: InterruptState | None = None
) -> list[Interrupt]:
    """The questions of a run, in the order they were asked."""
    return run_rows.interrupts(connection, run_id, state=state)()
