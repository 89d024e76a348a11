"""`Run`: a run as people see it, in a script, on a terminal, in a notebook."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.flow_rows import FlowStepRow
from adjourn.checkpoints.lifecycle import InterruptState, RunStatus
from adjourn.checkpoints.records import AuditRow, CallRow, Interrupt, RunRow, StepRow
from adjourn.graph.captions import Counted, word


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """One run, as it stood when it was read: it does not change by itself; `Runner.get` reads it again.

    `interrupts` holds the open questions, `questions` all that were ever asked, `audit` who did what to it,
    `flow` the steps of its flow, where it has one, `children` the runs of its specialists.
    """

    row: RunRow
    steps: Sequence[StepRow] = ()
    calls: Sequence[CallRow] = ()
    questions: Sequence[Interrupt] = ()
    audit: Sequence[AuditRow] = ()
    flow: Sequence[FlowStepRow] = ()
    children: "Sequence[Run]" = ()
    # the `Runner` that read it: a form in a notebook answers through it
    runner: Any = field(default=None, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.row, self.steps, self.calls, self.questions, self.audit, self.flow)
        return Run, (*parts, self.children)

    def form(self, *, by: str | None = None) -> Any:
        """The open questions as a form in a notebook, for `by` to answer. Without ipywidgets it prints how to answer.

        Shown as the result of a cell, a waiting run is this form already. Raises `UsageError` for a run that was
        read without a runner, or asks nothing.
        """
        from adjourn.graph.notebook import form_of, how_to_answer

        if self.runner is None or not self.interrupts:
            raise UsageError(f"run {self.id} asks nothing that could be answered here")
        form = form_of(self, by=by)
        if form is None:
            print(how_to_answer(self))
        return form

    @property
    def id(self) -> str:
        """The run's id."""
        return self.row.id

    @property
    def thread_id(self) -> str:
        """The conversation it belongs to."""
        return self.row.thread_id

    @property
    def status(self) -> str:
        """A word of `RunStatus`."""
        return self.row.status

    @property
    def stop_reason(self) -> str | None:
        """A word of `StopReason`; None while the run works or waits, and for a failed run."""
        return self.row.stop_reason

    @property
    def context(self) -> dict[str, Any]:
        """What the caller said about it: `Runner.start(context=...)`. Empty where nothing was said."""
        return self.row.context or {}

    @property
    def answer(self) -> str | None:
        """What the run said last; None until it ended."""
        return self.row.answer

    @property
    def error(self) -> dict[str, Any] | None:
        """Why the run failed: `{"class": ..., "message": ...}`."""
        return self.row.error

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions, in the order of their calls, then those of its specialists."""
        own = (one for one in self.questions if one.state == InterruptState.OPEN)
        return (*own, *(one for child in self.children for one in child.interrupts))

    @property
    def shown_reason(self) -> str:
        """The stop reason, or `ask_user` in its place while the run waits (C-52)."""
        return "ask_user" if self.status == RunStatus.INTERRUPTED else (self.stop_reason or "")

    @property
    def shown_status(self) -> str:
        """The status, with the reason where that says more: `finished (answered)`, `cancelled`."""
        return self.status_noting()

    def status_noting(self, *notes: str, language: str = "en") -> str:
        """The same, with further notes behind the reason, in a language."""
        reason = self.shown_reason if self.shown_reason not in ("", self.status) else None
        told = ", ".join([*([word(reason, language)] if reason else []), *notes])
        return word(self.status, language) + (f" ({told})" if told else "")

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON data."""
        row = self.row
        return {
            "id": row.id,
            "thread_id": row.thread_id,
            "graph": row.graph,
            "status": row.status,
            "stop_reason": row.stop_reason,
            "started_by": row.started_by,
            "priority": row.priority,
            "forked_from": row.forked_from,
            "forked_at": row.forked_at,
            "input": row.input,
            "answer": row.answer,
            "error": row.error,
            "steps": row.steps,
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "active_ms": row.active_ms,
            "created_at": row.created_at,
            "ended_at": row.ended_at,
            "interrupts": [one.to_dict() for one in self.interrupts],
            "calls": [call_to_dict(one) for one in self.calls],
            "flow": [{"step": one.step, "status": one.status, "reason": one.reason} for one in self.flow],
        }

    def children_of(self, call: CallRow) -> "list[Run]":
        """The runs that worked for a call: one, for a delegation."""
        key = (call.step, call.call_id)
        return [one for one in self.children if (one.row.parent_step, one.row.parent_call_id) == key]

    @property
    def children_of_nodes(self) -> "list[Run]":
        """The runs that worked for nodes of a graph of one's own, and for no call."""
        return [one for one in self.children if one.row.parent_step == 0]

    def __str__(self) -> str:
        counts = f"{Counted(self.row.steps):step|steps}, {Counted(len(self.calls)):call|calls}"
        return f"{self.id} {self.shown_status}, {counts}"

    def __repr__(self) -> str:
        return f"<Run {self}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        from adjourn.graph.notebook import form_in_cell

        form = form_in_cell(self)
        if form is not None:
            shown: dict[str, Any] = form._repr_mimebundle_()
            return shown
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        from adjourn.graph.card import run_card  # it draws, which most programs never ask for

        return run_card(self)


def call_to_dict(call: CallRow) -> dict[str, Any]:
    """A call as JSON data, without what only the ledger keeps."""
    return {
        "step": call.step,
        "call_id": call.call_id,
        "tool": call.tool,
        "effect": call.effect,
        "arguments": call.arguments,
        "outcome": call.outcome,
        "error_code": call.error_code,
        "attempts": call.attempts,
    }


def observation(call: CallRow) -> Any:
    """What a call brought, as people may see it: data of a success, message of a failure; None: nothing yet."""
    if call.shown is not None:
        return call.shown
    if call.result is None:
        return None
    try:
        told = json.loads(call.result)
    except ValueError:
        return call.result
    if not isinstance(told, dict) or "ok" not in told:
        return told
    return told.get("data") if told["ok"] else told.get("message")
