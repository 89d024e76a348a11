"""A run that begins where another one stood (C-92): on a thread of its own, with a ledger of its own.

Everything happens in one transaction: there is no fork, or a whole one, which whoever made it then drives, or which is
recovered like any run whose owner died.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from adjourn.checkpoints import event_rows, journal
from adjourn.checkpoints.codec import Codec
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import CheckpointNotFound, UsageError, WouldRepeat
from adjourn.checkpoints.events import Event
from adjourn.checkpoints.forking import copy_flow, copy_up_to, must_be_new, writes_since
from adjourn.checkpoints.lifecycle import CallState, ErrorCode, InterruptType, RunStatus
from adjourn.checkpoints.records import CallRow, RunRow
from adjourn.graph import starts
from adjourn.graph.ledger_rows import LedgerRows, row_id
from adjourn.graph.said import Message
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.flow_state import nothing_spent
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import failure
from adjourn.nodes.questions import question_id
from adjourn.nodes.sealing import Keyring
from adjourn.nodes.texts import language_of, say

State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fork of a run from one of its checkpoints.

    `message` None: it goes on as the run could have gone on there. Else what was open there is closed, and the
    message starts it. `repeat_writes`: writes that the run has made since may be made again.
    """

    run_id: str
    checkpoint_id: str
    message: Message | None = None
    repeat_writes: bool = False


@dataclass(frozen=True, slots=True)
class Forker:
    """Makes forks of runs of one graph."""

    codec: Codec
    masker: Masker
    keyring: Keyring

    def store(self, connection: Connection, wanted: Wanted, run: RunRow) -> list[Event]:
        """Store the fork `run` with its thread, its part of the ledger, its questions and its first events.

        Raises `CheckpointNotFound`, `WouldRepeat`, and `UsageError` when its thread exists.
        """
        # held: no write of the original begins between the look at its ledger and the COMMIT
        original = journal.lock_run(connection, wanted.run_id)
        must_be_new(connection, run.thread_id)
        try:
            with connection.begin_nested():
                return self._store(connection, wanted, original, run)
        except IntegrityError as error:
            raise UsageError(
                f"there is a thread {run.thread_id!r} by now; name another one, or none"
            ) from error

    def _store(self, connection: Connection, wanted: Wanted, original: RunRow, run: RunRow) -> list[Event]:
        where = (original.thread_id, wanted.checkpoint_id, run.thread_id)
        copied = copy_up_to(connection, self.codec, *where)
        if copied is None or copied.values.get("run_id") != original.id:
            raise CheckpointNotFound(original.id, wanted.checkpoint_id)
        state = copied.values
        repeats = _repeats(connection, original, state, anew=wanted.message is not None)
        if repeats and not wanted.repeat_writes:
            raise WouldRepeat(original.id, wanted.checkpoint_id, repeats)
        step = 0 if wanted.message is not None else state.get("step", 0)
        run = replace(run, forked_from=original.id, forked_at=wanted.checkpoint_id, steps=step)
        journal.insert_run(connection, run)
        blocks = wanted.message.blocks if wanted.message else journal.read_blocks(connection, original)
        if blocks is not None:
            journal.insert_blocks(connection, run.id, blocks)
        _note(connection, original, run, repeats)
        rows = LedgerRows(run, self.masker, self.keyring)
        ledger = journal.read_calls(connection, original.id, step=state.get("step", 0))
        if wanted.message is not None:
            said = starts.user_message(connection, original)
            copied.go_on_with({"run_id": "", "messages": _closed(original, said, state, ledger, rows)})
            return event_rows.append(connection, run.id, starts.first_events(run))
        changes = _renamed(original, run, state)
        copied.go_on_with(changes)
        _write_ledger(connection, {**state, **changes}, ledger, rows)
        if "flow" in changes:
            at, done = state["flow"]["at"], state["flow"]["results"]
            moment = copied.found.checkpoint["ts"]
            copy_flow(connection, original.id, run.id, at=at, done=done, moment=moment)
        asks_model = state.get("outcome", "model") == "model"
        return event_rows.append(connection, run.id, starts.first_events(run, step + asks_model))


def _note(connection: Connection, original: RunRow, run: RunRow, repeats: Sequence[str]) -> None:
    begun = {"from": original.id, "checkpoint": run.forked_at, "repeats": list(repeats)}
    journal.write_audit(connection, run.id, "started", by=run.started_by, data=begun)
    journal.write_audit(connection, original.id, "forked", by=run.started_by, data={"to": run.id, **begun})


# -- what the original has written since


def _repeats(connection: Connection, original: RunRow, state: State, *, anew: bool) -> tuple[str, ...]:
    """The writes of the original that a fork from this state does not know of, by name.

    `anew`: a message starts it, and what became of the step in hand is told to the model. Else a write of that step
    is known if its observation is final, or if a person is asked whether it happened.
    """
    calls: Sequence[Call] = state.get("calls", ())
    known = [row_id(one) for one in calls if anew or is_final(one) or _is_in_doubt(one)]
    asked = {row_id(one) for one in calls if "question" in one}
    works = original.status == RunStatus.RUNNING and not anew  # it is about to make what is planned
    found = writes_since(connection, original.id, state.get("step", 0), known, planned=works)
    return tuple(
        f"{one.tool} ({one.outcome}, call {one.call_id} of step {one.step})"
        for one in found
        if one.outcome != CallState.PLANNED or one.call_id not in asked
    )


def _is_in_doubt(call: Call) -> bool:
    return "question" in call and call["question"]["type"] == InterruptType.OUTCOME_UNKNOWN


# -- the state of a fork

# Limits count a run, and a fork is a run of its own: what it spends counts from here. What its calls have shown
# (failures in a row, repeats, evidence) is part of where it stands.
_SPENT = frozenset({"active_ms", "input_tokens", "output_tokens", "cost"})


def _renamed(original: RunRow, run: RunRow, state: State) -> dict[str, Any]:
    """What of the state names the run: its id, its user message's, those of its questions; and what it has spent."""
    changes: dict[str, Any] = {"run_id": run.id}
    if "messages" in state:
        old, new = f"{original.id}.input", f"{run.id}.input"
        changes["messages"] = [
            one.model_copy(update={"id": new}) if one.id == old else one for one in state["messages"]
        ]
    if "calls" in state:
        changes["calls"] = [_forked(run, state.get("step", 0), one) for one in state["calls"]]
    if state.get("flow", {}).get("run_id") == original.id:
        changes["flow"] = {**state["flow"], "run_id": run.id, "spent": nothing_spent()}
    if "counters" in state:
        changes["counters"] = {name: one for name, one in state["counters"].items() if name not in _SPENT}
    return changes


def _forked(run: RunRow, step: int, call: Call) -> Call:
    """A call of the step in hand. People agreed to it in the original: whether it runs here, they are asked here."""
    if is_final(call):
        return call
    changed: Call = {**call}
    for name in ("approved", "approved_by", "agreed"):
        changed.pop(name, None)  # type: ignore[misc]
    if "question" in call:
        question: Question = {**call["question"], "id": question_id(run.id, step, call)}
        if "approvals" in question:
            question["approvals"] = {**question["approvals"], "given": []}
        changed["question"] = question
    return changed


def _write_ledger(connection: Connection, state: State, ledger: Sequence[CallRow], rows: LedgerRows) -> None:
    """The calls of the step in hand, as they stood at the checkpoint, and its questions where they were asked."""
    step, at = state.get("step", 0), now()
    known = {one.call_id: one for one in ledger}
    calls: Sequence[Call] = state.get("calls", ())
    journal.insert_calls(
        connection, [_call_row(rows, step, one, known.get(row_id(one)), at) for one in calls]
    )
    if state.get("outcome") == "ask":
        ask = rows.asking(step, [(one, one["question"]) for one in calls if "question" in one])
        for check in ask(connection):
            check()


def _call_row(rows: LedgerRows, step: int, call: Call, known: CallRow | None, at: str) -> CallRow:
    if not is_final(call):
        return rows.call(step, call, at)
    if call.get("told") == "provisional":  # a person settled it; the next superstep writes that down
        return replace(
            rows.call(step, call, at),
            outcome=CallState.WAITING.value,
            error_code=None,
            result=None,
            ended_at=None,
        )
    return rows.call(step, call, at) if known is None else replace(known, run_id=rows.run.id)


def _closed(
    original: RunRow, said: HumanMessage, state: State, ledger: Sequence[CallRow], rows: LedgerRows
) -> list[AnyMessage]:
    """The messages with every call answered: as the original's ledger tells it, else that it did not run."""
    known = {one.call_id: one for one in ledger}
    step, at, language = state.get("step", 0), now(), language_of(original.input)

    def settled(call: Call) -> CallRow:
        row = known.get(row_id(call))
        if row is not None and row.result is not None:
            return row
        started = row is not None and row.outcome == CallState.STARTED
        code = ErrorCode.OUTCOME_UNKNOWN if started else ErrorCode.USER_DISMISSED
        text = say(code.value, language, tool=call["name"])
        return replace(rows.call(step, call, at), result=failure(code, text))

    messages: list[AnyMessage] = list(state.get("messages", ()))
    own = (place for place, one in enumerate(messages) if one.id == f"{original.id}.input")
    begin = next(own, len(messages))
    untold = [settled(one) for one in state.get("calls", ()) if one.get("told") != "final"]
    return [*messages[:begin], *starts.closed_messages(original, said, messages, untold)]
