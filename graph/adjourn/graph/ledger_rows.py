"""From the calls, outcomes and questions of one run to the rows and events that tell of them (C-63, C-68).

What is private is masked here, on its way into tables and events (C-73). Nothing is stored: `run_log` decides when, and
in which transaction.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.compiled import Check
from adjourn.checkpoints.database import later, now
from adjourn.checkpoints.events import RunFailed, ToolResult
from adjourn.checkpoints.flow_rows import FlowStepRow
from adjourn.checkpoints.lifecycle import CallState, ErrorCode, InterruptState
from adjourn.checkpoints.records import (
    KEY_LENGTH,
    CallRow,
    Interrupt,
    RunRow,
    StepRow,
    as_text,
    shortened,
    to_text,
)
from adjourn.checkpoints.sealed import hidden
from adjourn.nodes.calls import Call, Question, is_final
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.flow_state import StepMove
from adjourn.nodes.masking import Masker
from adjourn.nodes.outcome import Outcome
from adjourn.nodes.run_context import StepFacts
from adjourn.nodes.sealing import Keyring

Write = Callable[[Connection], Sequence[Check]]


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """Makes the rows and events of one run."""

    run: RunRow
    masker: Masker
    keyring: Keyring

    def step(self, facts: StepFacts, calls: int) -> StepRow:
        """The row of a model call that asked for so many calls."""
        usage = facts.usage
        return StepRow(
            run_id=self.run.id,
            step=facts.step,
            path=self.run.path,
            model=facts.model,
            message_id=facts.message_id,
            latency_ms=facts.latency_ms,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            cache_write_tokens=usage.cache_write_tokens if usage else None,
            reasoning_tokens=usage.reasoning_tokens if usage else None,
            cost=facts.cost,
            calls=calls,
            started_at=facts.started_at,
            ended_at=facts.ended_at,
        )

    def call(self, step: int, call: Call, at: str) -> CallRow:
        """The call as the ledger holds it when it is planned at `at`."""
        ended = is_final(call)
        return CallRow(
            run_id=self.run.id,
            step=step,
            call_id=row_id(call),
            batch=call["batch"],
            position=call["position"],
            tool=shortened(call["name"], KEY_LENGTH),
            effect=call["effect"],
            arguments=self.shown(call),
            digest=self.digest(call),
            raw=to_text(self.masker.text(call["raw"])) if "raw" in call else None,
            outcome=CallState.PLANNED.value if call["state"] == CallState.WAITING else call["state"],
            error_code=_code_of(call.get("observation")),
            result=call.get("observation"),
            planned_at=at,
            ended_at=at if ended else None,
        )

    def judged(self, call: Call) -> dict[str, Any]:
        """The columns that an edit, or a judgement just before the call runs, may have changed since it was planned."""
        return {"effect": call["effect"], "arguments": self.shown(call), "digest": self.digest(call)}

    def ended(self, call: Call, outcome: Outcome) -> dict[str, Any]:
        """The columns of a call that has just got its outcome, without `outcome` itself: the move there sets it."""
        return {
            "error_code": outcome.code.value if outcome.code else None,
            "result": outcome.observation,
            "shown": outcome.shown,
            "error": outcome.error,
            "ended_at": now(),
            "took_ms": outcome.took_ms,
            **self.judged(call),
        }

    def result(self, step: int, call: Call, outcome: Outcome | None) -> ToolResult:
        """The event of the call's final observation; `outcome` None: the call holds it."""
        observation = outcome.observation if outcome else call.get("observation", "")
        return tool_result(
            self.run,
            step=step,
            call_id=row_id(call),
            name=call["name"],
            outcome=outcome.state.value if outcome else call["state"],
            observation=observation,
            shown=outcome.shown if outcome else None,
            took_ms=outcome.took_ms if outcome else None,
        )

    def question(self, step: int, call: Call, question: Question, at: str) -> Interrupt:
        """A question about a call, asked at `at`."""
        return Interrupt(
            id=question["id"],
            run_id=self.run.id,
            step=step,
            call_id=row_id(call),
            path=self.run.path,
            position=call["position"],
            type=question["type"],
            tool=call["name"],
            arguments=self.shown(call) or {},
            reason=as_text(self.masker.text(question["reason"])),
            payload=self.masker.data(question["payload"]),
            response_schema=question["response_schema"],
            state=InterruptState.OPEN.value,
            approvals=question.get("approvals"),
            created_at=at,
            expires_at=later(at, question["expires_in_s"]) if "expires_in_s" in question else None,
        )

    def asking(self, step: int, questions: Sequence[tuple[Call, Question]]) -> Write:
        """Stores these questions, and that their calls wait. Those of a specialist are rows of its own run."""
        at = now()
        rows = [self.question(step, *one, at) for one in questions if one[1]["type"] != DELEGATED]

        def write(connection: Connection) -> Sequence[Check]:
            journal.insert_interrupts(connection, rows)
            return [
                journal.send_call(
                    connection,
                    self.run.id,
                    step,
                    row_id(call),
                    outcome=CallState.WAITING,
                    arguments=self.shown(call) or {},
                )
                for call, _ in questions
            ]

        return write

    def flow_step(self, move: StepMove) -> FlowStepRow:
        """A step of a flow in the state that it has come to."""
        reason = None if move["reason"] is None else self.masker.text(move["reason"])
        return FlowStepRow(self.run.id, move["position"], move["name"], move["state"].value, reason)

    def shown(self, call: Call) -> dict[str, Any] | None:
        """The arguments as tables hold them: masked (C-73). The real ones are in the run's state alone."""
        if call["arguments"] is None:
            return None
        shown: dict[str, Any] = self.masker.data(hidden(call["arguments"]))
        return shown

    def digest(self, call: Call) -> str:
        """What equal calls have in common, keyed where the store has a key (C-73)."""
        return self.keyring.digest(call["name"], call["arguments"])

    def digests(self, call: Call) -> list[str]:
        """The digest under each key of the store, and without one."""
        return self.keyring.digests(call["name"], call["arguments"])


def row_id(call: Call) -> str:
    """The model's id of a call, as columns hold it: cut, with a hash, where it is longer than any id should be."""
    return shortened(call["id"], KEY_LENGTH)


def tool_result(
    run: RunRow,
    *,
    step: int,
    call_id: str,
    name: str,
    outcome: str,
    observation: str,
    shown: Any = None,
    took_ms: int | None = None,
) -> ToolResult:
    """The event of a final observation. `shown` is what people see where it differs from the model's part."""
    told = json.loads(observation) if observation else {}
    return ToolResult(
        run_id=run.id,
        path=run.path,
        step=step,
        call_id=call_id,
        name=name,
        outcome=outcome,
        error_code=told.get("errorCode"),
        message=told.get("message"),
        data=shown if shown is not None else told.get("data"),
        took_ms=took_ms,
    )


def failure_of(run: RunRow, step: int, kind: str, message: str) -> tuple[RunFailed, dict[str, Any]]:
    """The event of a run that fails, and the error as its row keeps it. `kind` names what was raised."""
    told = RunFailed(
        run_id=run.id, path=run.path, step=step, error=kind, message=message, failure=run.failures + 1
    )
    return told, {"class": kind, "message": message, "at": now()}


def _code_of(observation: str | None) -> str | None:
    code = json.loads(observation).get("errorCode") if observation else None
    return ErrorCode(code).value if code else None
