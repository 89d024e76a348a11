"""How a run that waits or has failed is ended: its questions, its open calls, its status, with their events."""

from collections.abc import Mapping

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, family, flow_rows, journal, leases, settling
from adjourn.checkpoints.database import now
from adjourn.checkpoints.events import Event, RunFinished
from adjourn.checkpoints.lifecycle import (
    RUN_MOVES,
    CallState,
    ErrorCode,
    InterruptState,
    InterruptType,
    RunEvent,
    RunStatus,
    StopReason,
)
from adjourn.checkpoints.records import CallRow, Interrupt, RunRow
from adjourn.graph.expiring import expire
from adjourn.graph.ledger_rows import tool_result
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import success
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.texts import language_of, say
from adjourn.nodes.tool import RESULT_LIMIT

_CLOSED = {
    RunEvent.DISMISS: (StopReason.DISMISSED, InterruptState.DISMISSED, ErrorCode.USER_DISMISSED),
    RunEvent.CANCEL: (StopReason.CANCELLED, InterruptState.CANCELLED, ErrorCode.CANCELLED),
}


def close_waiting(
    connection: Connection, run_id: str, event: RunEvent, *, by: str | None, masker: Masker | None = None
) -> list[Event]:
    """End a run that waits or has failed: its questions, its open calls, its status, with their events.

    Finished results stay, and so does what people said before: a call that was rejected is declined, one whose
    time had passed is expired, and a write that may have happened is left `unknown`, never `cancelled`. A run
    that has ended, or works again, is left as it is.
    """
    told = expire(connection, run_id)
    run = journal.lock_run(connection, run_id)
    if run.status in (RunStatus.INTERRUPTED, RunStatus.FAILED):
        told += close_below(connection, run_id, event, by=by, masker=masker)
    if run.status not in (RunStatus.INTERRUPTED, RunStatus.FAILED):
        return []
    reason, closed, code = _CLOSED[event]
    asked = journal.read_interrupts(connection, run.id)
    facts: list[Event] = [
        settling.event_of(one, closed, by=by)
        for one in asked
        if one.state == InterruptState.OPEN and settling.close_interrupt(connection, one, closed, by=by)
    ]
    newest = {(one.step, one.call_id): one for one in asked}
    for call in journal.read_calls(connection, run.id):
        if call.result is None:
            outcome = _outcome(run, call, newest, code, masker or Masker())
            facts.append(_closed(connection, run, call, outcome))
    status = next(RUN_MOVES[one][event] for one in RUN_MOVES if event in RUN_MOVES[one])
    ended = RunFinished(
        run_id=run.id, path=run.path, step=run.steps, status=status.value, stop_reason=reason.value
    )
    flow_rows.stop(connection, run.id, reason.value, at=now())
    journal.leave_waiting(connection, run.id, event, reason)
    journal.write_audit(connection, run.id, reason.value, by=by)
    return [*told, *event_rows.append(connection, run.id, [*facts, ended])]


def close_below(
    connection: Connection, run_id: str, event: RunEvent, *, by: str | None, masker: Masker | None = None
) -> list[Event]:
    """End every run below one that ends. One that still works has lost its owner, and is taken from it."""
    told: list[Event] = []
    for one in family.live_below(connection, run_id):
        leases.suspend(connection, one)
        told += close_waiting(connection, one, event, by=by, masker=masker)
    return told


def _outcome(
    run: RunRow,
    call: CallRow,
    newest: Mapping[tuple[int, str], Interrupt],
    code: ErrorCode,
    masker: Masker,
) -> Outcome:
    """What becomes of a call that has no outcome: by where it stands, and what was said to its question."""
    language = language_of(run.input)
    question = newest.get((call.step, call.call_id)) if call.outcome == CallState.WAITING else None
    said = question.answer if question is not None and isinstance(question.answer, dict) else {}
    if said.get("action") == "happened":
        told = success(said["result"], limit=RESULT_LIMIT, language=language, mask=masker.data)
        return Outcome(CallState.OK, observation=told)
    if said.get("action") == "reject":
        why = masker.text(said.get("reason") or "") or say("user_declined.no_reason", language)
        return failed(ErrorCode.USER_DECLINED, language, call.tool, why=why)
    return failed(_code(call, question, said, code), language, call.tool)


def _code(
    call: CallRow, question: Interrupt | None, said: Mapping[str, object], code: ErrorCode
) -> ErrorCode:
    if call.outcome == CallState.STARTED:
        return ErrorCode.OUTCOME_UNKNOWN
    if call.outcome == CallState.PLANNED:
        return ErrorCode.RUN_STOPPED
    if question is None:
        return code
    if question.type == InterruptType.OUTCOME_UNKNOWN and said.get("action") != "run":
        return ErrorCode.OUTCOME_UNKNOWN
    return ErrorCode.EXPIRED if question.state == InterruptState.EXPIRED else code


def _closed(connection: Connection, run: RunRow, call: CallRow, outcome: Outcome) -> Event:
    journal.update_call(
        connection,
        run.id,
        call.step,
        call.call_id,
        outcome=outcome.state,
        error_code=outcome.code.value if outcome.code else None,
        result=outcome.observation,
        ended_at=now(),
    )
    return tool_result(
        run,
        step=call.step,
        call_id=call.call_id,
        name=call.tool,
        outcome=outcome.state.value,
        observation=outcome.observation,
    )
