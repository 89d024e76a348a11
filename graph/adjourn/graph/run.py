"""`Run`: a run as people see it, in a script, on a terminal, in a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from adjourn.checkpoints.lifecycle import InterruptState, RunStatus
from adjourn.checkpoints.records import CallRow, Interrupt, RunRow, StepRow


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """One run, as it stood when it was read: it does not change by itself; `Runner.get` reads it again.

    `interrupts` holds the open questions, `questions` all that were ever asked.
    """

    row: RunRow
    steps: Sequence[StepRow] = ()
    calls: Sequence[CallRow] = ()
    questions: Sequence[Interrupt] = ()

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
    def answer(self) -> str | None:
        """What the run said last; None until it ended."""
        return self.row.answer

    @property
    def error(self) -> dict[str, Any] | None:
        """Why the run failed: `{"class": ..., "message": ...}`."""
        return self.row.error

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions, in the order of their calls."""
        return tuple(one for one in self.questions if one.state == InterruptState.OPEN)

    @property
    def shown_reason(self) -> str:
        """The stop reason, or `ask_user` in its place while the run waits (C-52)."""
        return "ask_user" if self.status == RunStatus.INTERRUPTED else (self.stop_reason or "")

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
        }

    def __str__(self) -> str:
        tail = f" ({self.shown_reason})" if self.shown_reason else ""
        return f"{self.id} {self.status}{tail}, {self.row.steps} steps, {len(self.calls)} calls"

    def __repr__(self) -> str:
        return f"<Run {self}>"

    def _repr_html_(self) -> str:
        return run_html(self)


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


_COLOURS = {"finished": "#1a7f37", "interrupted": "#9a6700", "failed": "#cf222e", "cancelled": "#57606a"}


def run_html(run: Run) -> str:
    """The run as a piece of HTML for a notebook: status, steps and calls, open questions, answer."""
    colour = _COLOURS.get(run.status, "#0969da")
    parts = [
        f'<div style="font-family:sans-serif"><b style="color:{colour}">{escape(run.status)}</b> '
        f"<code>{escape(run.id)}</code> {escape(run.shown_reason)}, {run.row.steps} steps",
        _calls_html(run.calls),
    ]
    parts += [_question_html(one) for one in run.interrupts]
    if run.answer:
        parts.append(f'<div style="white-space:pre-wrap;margin-top:.5em">{escape(run.answer)}</div>')
    if run.error:
        parts.append(f'<div style="color:#cf222e">{escape(str(run.error.get("message")))}</div>')
    return "".join([*parts, "</div>"])


def _calls_html(calls: Sequence[CallRow]) -> str:
    if not calls:
        return ""
    cells = [
        "".join(
            f'<td style="text-align:left">{escape(str(value))}</td>'
            for value in (
                one.step,
                one.tool,
                one.arguments if one.arguments is not None else one.raw,
                one.outcome,
            )
        )
        for one in calls
    ]
    head = "".join(
        f'<th style="text-align:left">{name}</th>' for name in ("step", "tool", "arguments", "outcome")
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _question_html(question: Interrupt) -> str:
    return (
        f'<div style="border-left:3px solid #9a6700;padding-left:.5em"><b>{escape(question.type)}</b> '
        f"<code>{escape(question.id)}</code> {escape(question.reason)}</div>"
    )
