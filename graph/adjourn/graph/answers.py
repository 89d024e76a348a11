"""Answers of people: checked, then stored; the last one of a set makes the run go on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import journal, leases
from adjourn.checkpoints.errors import AlreadyAnswered, InterruptNotFound, NotResumable, RunBusy
from adjourn.checkpoints.events import Event, InterruptAnswered
from adjourn.checkpoints.lifecycle import InterruptState, InterruptType, RunEvent, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.nodes.calls import Question
from adjourn.nodes.masking import Masker
from adjourn.nodes.questions import check_answer, check_custom
from adjourn.nodes.tool import Tool


@dataclass(frozen=True, slots=True)
class Checks:
    """What answers are checked with: the tools, the mask, and the real arguments of the calls by their ids."""

    tools: Mapping[str, Tool]
    masker: Masker
    arguments: Mapping[str, Mapping[str, Any]]

    def check(self, question: Interrupt, answer: Any) -> None:
        """Check one answer against its question and its tool. Changes nothing; raises `InvalidAnswer`."""
        if question.type == InterruptType.CUSTOM:
            check_custom(question.id, question.response_schema, answer)
            return
        tool = self.tools.get(question.tool)
        if tool is None:
            what = f"the app has no tool {question.tool!r} any more; resume it with the app that asked"
            raise NotResumable(question.run_id, RunStatus.INTERRUPTED.value, what)
        real = self.arguments.get(question.call_id, question.arguments)
        check_answer(to_question(question), real, answer, tool, self.masker)


def accept(
    connection: Connection,
    run_id: str,
    answers: Mapping[str, Any],
    *,
    by: str | None,
    checks: Checks,
    owner: str,
    lease_s: float,
) -> list[Event]:
    """Store answers and, when no question is left, claim the run: all in the caller's transaction, or nothing.

    Gives the events of the answers. The run is then `running` and the caller's, or still `interrupted`.

    Raises `InvalidAnswer`, `AlreadyAnswered`, `InterruptNotFound`, `RunBusy`, `NotResumable`.
    """
    run = journal.lock_run(connection, run_id)
    asked = {one.id: one for one in journal.read_interrupts(connection, run_id)}
    given = [_asked(run, asked, one) for one in answers]
    for question in given:
        checks.check(question, answers[question.id])
    for question in given:
        journal.answer_interrupt(connection, question, answers[question.id], by=by)
    told = [_answered(run, one, checks.masker.data(answers[one.id]), by) for one in given]
    events = journal.append_events(connection, run_id, told)
    left = [one for one in asked.values() if one.state == InterruptState.OPEN and one.id not in answers]
    if not left:
        leases.claim(connection, run_id, RunEvent.GO_ON, owner=owner, lease_s=lease_s)
    return events


def _asked(run: RunRow, asked: Mapping[str, Interrupt], interrupt_id: str) -> Interrupt:
    """The open question of this id, of a run that waits; else the error that says what to do."""
    question = asked.get(interrupt_id)
    if question is None:
        known = tuple(one.id for one in asked.values() if one.state == InterruptState.OPEN)
        raise InterruptNotFound(run.id, interrupt_id, known)
    if question.state != InterruptState.OPEN:
        raise AlreadyAnswered(question.id, question.state, question.answered_by, question.closed_at)
    if run.status == RunStatus.RUNNING:  # its questions are stored a moment before it waits
        raise RunBusy(run.id, run.lease_owner, run.lease_until)
    if run.status != RunStatus.INTERRUPTED:
        raise NotResumable(run.id, run.status)
    return question


def to_question(row: Interrupt) -> Question:
    """The stored question in the form of the state."""
    return {
        "id": row.id,
        "call_id": row.call_id,
        "type": row.type,
        "reason": row.reason,
        "payload": row.payload,
        "response_schema": row.response_schema,
    }


def _answered(run: RunRow, question: Interrupt, answer: Any, by: str | None) -> InterruptAnswered:
    return InterruptAnswered(
        run_id=run.id,
        path=run.path,
        step=question.step,
        interrupt_id=question.id,
        call_id=question.call_id,
        state=InterruptState.ANSWERED.value,
        answer=answer,
        by=by,
    )
