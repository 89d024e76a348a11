"""`adjourn show`: everything about one run on one screen. It reads the database and needs no app."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.events import ToolResult
from adjourn.checkpoints.lifecycle import CallState, InterruptState, RunStatus
from adjourn.checkpoints.records import CallRow, Interrupt, StepRow
from adjourn.graph.cli.how_to import resume_command, show_questions
from adjourn.graph.cli.listing import STYLES
from adjourn.graph.cli.live import FAILURE, MARKS
from adjourn.graph.cli.screen import Part, Screen, short
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import read
from adjourn.graph.reading import find_run_id, read_run
from adjourn.graph.run import Run, call_to_dict

Took = Mapping[tuple[int, str], int | None]
"""Milliseconds that each call took, by step and call id, as its event told; None: it never ran."""

_NOT_RUN = frozenset({"planned", "waiting"})
DATA_LIMIT = 200  # characters of a result or an argument here; `adjourn events` has all of it


def show_run(settings: Settings, beginning: str) -> int:
    """Print the run's story. Raises `RunNotFound`, `UsageError`."""
    run, took = read(settings.store, lambda connection: _read(connection, beginning))
    if settings.json:
        Screen(settings).data(to_dict(run, took, settings))
    else:
        Story(Screen(settings), settings, run, took).show()
    return 0


def _read(connection: Connection, beginning: str) -> tuple[Run, Took]:
    run = read_run(connection, find_run_id(connection, beginning))
    told = journal.read_events(connection, run.id)
    took = {(one.step, one.call_id): one.took_ms for one in told if isinstance(one, ToolResult)}
    return run, took


class Story:
    """Prints one run from its header to its open questions."""

    def __init__(self, screen: Screen, settings: Settings, run: Run, took: Took) -> None:
        self._screen = screen
        self._settings = settings
        self._run = run
        self._took = took

    def show(self) -> None:
        """Print all of it."""
        self._header()
        self._block("input", self._run.row.input)
        if self._run.error:
            self._block("error", str(self._run.error.get("message")), "red")
        self._steps()
        if self._run.answer:
            self._block("answer", self._run.answer)
        self._how_to_go_on()

    def _header(self) -> None:
        run, row, say = self._run, self._run.row, self._screen.say
        reason = f" ({run.shown_reason})" if run.shown_reason else ""
        self._screen.line((run.id, "bold"), (f"  {run.status}{reason}", STYLES[RunStatus(run.status)]))
        facts = [
            f"{say('thread')} {row.thread_id}",
            f"{say('graph')} {row.graph}",
            say("started_by", by=row.started_by) if row.started_by else "",
            moment(row.created_at) + (f" – {moment(row.ended_at)}" if row.ended_at else ""),
        ]
        work = [
            say("steps", steps=row.steps),
            say("tokens", input=row.input_tokens, output=row.output_tokens),
            say("active", seconds=f"{row.active_ms / 1000:.1f}"),
        ]
        for line in (facts, work):
            self._screen.line(("  ".join(one for one in line if one), "dim"))

    def _block(self, key: str, words: str, style: str = "") -> None:
        self._screen.line((f"{self._screen.say(key)}:", "bold"))
        for line in words.splitlines():
            self._screen.line((line, style), indent=2)

    def _steps(self) -> None:
        known = {one.step: one for one in self._run.steps}
        for step in sorted({*known, *(one.step for one in self._run.calls)}):
            self._step(step, known.get(step))
            for call in self._run.calls:
                if call.step == step:
                    self._call(call)

    def _step(self, step: int, row: StepRow | None) -> None:
        parts: list[Part] = [(self._screen.say("step", step=step), "bold")]
        if row is not None:
            tokens = ""
            if row.input_tokens is not None:
                tokens = "  " + self._screen.say("tokens", input=row.input_tokens, output=row.output_tokens)
            parts.append((f"  {row.model}  {row.latency_ms} ms{tokens}", "dim"))
        self._screen.line(*parts)

    def _call(self, call: CallRow) -> None:
        mark, style = (
            ("·", "dim") if call.outcome == "planned" else MARKS.get(CallState(call.outcome), FAILURE)
        )
        arguments = short(call.raw or "" if call.arguments is None else call.arguments, DATA_LIMIT)
        self._screen.line(
            (f"{mark} ", style),
            (call.tool, "bold"),
            f" {arguments}",
            (f"  {self._outcome(call)}", style),
            (f"  [{call.call_id}]", "dim"),
            indent=2,
            cut=True,
        )
        told = observation(call)
        if told and call.outcome not in _NOT_RUN:
            self._screen.line((short(told, DATA_LIMIT), "dim"), indent=4, cut=True)
        for question in self._questions_of(call):
            self._question(question)

    def _outcome(self, call: CallRow) -> str:
        took = self._took.get((call.step, call.call_id))
        parts = [call.outcome, call.error_code or "", "" if took is None else f"{took} ms"]
        if call.attempts > 1:
            parts.append(self._screen.say("attempts", attempts=call.attempts))
        return " ".join(one for one in parts if one)

    def _questions_of(self, call: CallRow) -> Sequence[Interrupt]:
        return [one for one in self._run.questions if (one.step, one.call_id) == (call.step, call.call_id)]

    def _question(self, one: Interrupt) -> None:
        self._screen.line(
            ("? ", "yellow"), (one.id, "bold"), f" {one.type}: {one.reason}", indent=4, cut=True
        )
        if one.state == InterruptState.OPEN:
            self._screen.line((self._screen.say("waiting"), "yellow"), indent=6)
            return
        by = one.answered_by or self._screen.say("somebody")
        settled = self._screen.say("answered", state=one.state, by=by, at=moment(one.closed_at or ""))
        answer = "" if one.answer is None else f": {short(one.answer)}"
        self._screen.line(f"{settled}{answer}", indent=6, cut=True)

    def _how_to_go_on(self) -> None:
        run = self._run
        if run.status == RunStatus.INTERRUPTED:
            self._screen.line((f"{self._screen.say('open_questions')}:", "bold"))
            show_questions(self._screen, self._settings, run.id, run.interrupts)
        elif run.status == RunStatus.FAILED:
            self._screen.line(self._screen.say("try_again"))
            self._screen.line((self._settings.command("resume", run.id), "bold"), indent=2)


def moment(time: str) -> str:
    """A stored time to the second: `2026-11-29 23:01:03Z`."""
    return f"{time[:10]} {time[11:19]}Z" if time else ""


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


def to_dict(run: Run, took: Took, settings: Settings) -> dict[str, Any]:
    """The whole story as JSON data: `Run.to_dict`, each model call, each question, and how to go on."""
    waits = run.status == RunStatus.INTERRUPTED
    return {
        **run.to_dict(),
        "shown_reason": run.shown_reason or None,
        "calls": [_call_dict(one, took) for one in run.calls],
        "model_calls": [asdict(one) for one in run.steps],
        "questions": [_question_dict(one) for one in run.questions],
        "resume_command": resume_command(settings, run.id, run.interrupts) if waits else None,
    }


def _call_dict(call: CallRow, took: Took) -> dict[str, Any]:
    rest = ("batch", "position", "digest", "raw", "planned_at", "started_at", "ended_at")
    return {
        **call_to_dict(call),
        **{name: getattr(call, name) for name in rest},
        "took_ms": took.get((call.step, call.call_id)),
        "shown": observation(call),
    }


def _question_dict(question: Interrupt) -> dict[str, Any]:
    rest = ("step", "state", "answer", "answered_by", "created_at", "closed_at")
    return {**question.to_dict(), **{name: getattr(question, name) for name in rest}}
