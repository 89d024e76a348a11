"""Answers of people: checked, then stored; the last one of a set makes the run go on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import event_rows, family, journal, leases, settling
from adjourn.checkpoints.errors import AlreadyAnswered, Expired, InterruptNotFound, NotResumable, RunBusy
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.lifecycle import InterruptState, InterruptType, RunEvent, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.checkpoints.sealed import hidden
from adjourn.nodes.calls import Question
from adjourn.nodes.masking import Masker
from adjourn.nodes.questions import check_answer, check_custom
from adjourn.nodes.sealing import Keyring
from adjourn.nodes.tool import Tool


@dataclass(frozen=True, slots=True)
class Checks:
    """What answers are checked with: the tools, the mask, and the real arguments of the calls by their ids.

    `keyring` seals what people give for secret parameters.
    """

    tools: Mapping[str, Tool]
    masker: Masker
    arguments: Mapping[str, Mapping[str, Any]]
    keyring: Keyring

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

    def stored(self, question: Interrupt, answer: Any) -> Any:
        """A checked answer as it is stored: secrets sealed (C-73)."""
        tool = self.tools.get(question.tool)
        if tool is None or question.type != InterruptType.PARAMS_REQUIRED:
            return answer
        return self.keyring.sealed(answer, tool.secret)

    def shown(self, stored: Any) -> Any:
        """A stored answer as events tell it."""
        return self.masker.data(hidden(stored) if isinstance(stored, dict) else stored)


def accept(
    connection: Connection,
    run_id: str,
    answers: Mapping[str, Any],
    *,
    by: str | None,
    checks: Mapping[str, Checks],
    owner: str,
    lease_s: float,
) -> list[Event]:
    """Store answers and, when no question is left, claim the run: all in the caller's transaction, or nothing.

    Gives the events of the answers. The run is then `running` and the caller's, or still `interrupted`.

    The questions are those of the run and of the runs below it; `checks` are by the run that asks.
    A yes that is one of several that are needed is kept, and its question stays open.

    Raises `InvalidAnswer`, `AlreadyAnswered`, `Expired`, `InterruptNotFound`, `RunBusy`, `NotResumable`.
    """
    run = journal.lock_run(connection, run_id)
    asked = {one.id: one for one in family.read_interrupts(connection, run_id)}
    given = [_asked(run, asked, one) for one in answers]
    for question in given:
        checks[question.run_id].check(question, answers[question.id])
    stored = {one.id: checks[one.run_id].stored(one, answers[one.id]) for one in given}
    states = {one.id: _take(connection, one, stored[one.id], by=by) for one in given}
    events: list[Event] = []
    for of in dict.fromkeys(one.run_id for one in given):
        told = [
            settling.event_of(one, states[one.id], by=by, answer=checks[of].shown(stored[one.id]))
            for one in given
            if one.run_id == of
        ]
        events += event_rows.append(connection, of, told)
    if InterruptState.OPEN not in [states.get(one.id, one.state) for one in asked.values()]:
        leases.claim(connection, run_id, RunEvent.GO_ON, owner=owner, lease_s=lease_s)
    return events


def _take(connection: Connection, question: Interrupt, answer: Any, *, by: str | None) -> InterruptState:
    """Store one answer; gives where its question stands then."""
    needed = question.approvals["needed"] if question.approvals else 1
    if needed > 1 and answer.get("action") == "approve":
        approvals = settling.approve_interrupt(connection, question, by=by or "")
        if len(approvals["given"]) < needed:
            return InterruptState.OPEN
        question = replace(question, approvals=approvals)
    settling.answer_interrupt(connection, question, answer, by=by)
    return InterruptState.ANSWERED


def _asked(run: RunRow, asked: Mapping[str, Interrupt], interrupt_id: str) -> Interrupt:
    """The open question of this id, of a run that waits; else the error that says what to do."""
    question = asked.get(interrupt_id)
    if question is None:
        known = tuple(one.id for one in asked.values() if one.state == InterruptState.OPEN)
        raise InterruptNotFound(run.id, interrupt_id, known)
    if question.state == InterruptState.EXPIRED:
        raise Expired(question.id, run.id, question.closed_at)
    if question.state != InterruptState.OPEN:
        raise AlreadyAnswered(question.id, question.state, question.answered_by, question.closed_at)
    if run.status == RunStatus.RUNNING:  # its questions are stored a moment before it waits
        raise RunBusy.of(run)
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
