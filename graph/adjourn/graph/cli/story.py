"""`adjourn show`: everything about one run on one screen. It reads the database and needs no app."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import CallState, FlowStepState, InterruptState, RunStatus
from adjourn.checkpoints.records import CallRow, Interrupt, StepRow
from adjourn.graph.captions import moment, word
from adjourn.graph.cli.bars import show_bars
from adjourn.graph.cli.how_to import approvals_of, expiry_of, resume_command, show_questions
from adjourn.graph.cli.listing import STYLES
from adjourn.graph.cli.live import FAILURE, MARKS
from adjourn.graph.cli.screen import Part, Screen, short
from adjourn.graph.cli.settings import Settings
from adjourn.graph.cli.stores import read_current
from adjourn.graph.reading import find_run_id, read_run
from adjourn.graph.run import Run, call_to_dict, observation
from adjourn.graph.timeline import timeline
from adjourn.graph.why import why

_PAGE = b"<!doctype html"  # what a page begins with: nothing else is written over
_NOT_RUN = frozenset({"planned", "waiting"})
DATA_LIMIT = 200  # characters of a result or an argument here; `adjourn events` has all of it


def show_run(settings: Settings, beginning: str, *, bars: bool = False, html: str | None = None) -> int:
    """Print the run's story, or its timeline (`bars`), or write it as a page (`html`: a file, `-` for stdout).

    Raises `RunNotFound`, `UsageError`.
    """
    run = read_current(settings.store, lambda connection: _read(connection, beginning))
    screen = Screen(settings)
    if html is not None:
        _write_page(screen, run, html)
    elif bars:
        made = timeline(run, now())
        if settings.json:
            screen.data(asdict(made))
        else:
            show_bars(screen, made)
    elif settings.json:
        screen.data(to_dict(run, settings))
    else:
        Story(screen, settings, run).show()
    return 0


def _read(connection: Connection, beginning: str) -> Run:
    return read_run(connection, find_run_id(connection, beginning))


def _write_page(screen: Screen, run: Run, target: str) -> None:
    from adjourn.graph.page import run_page

    page = run_page(run, screen.language, now())
    if target == "-":
        screen.write(page)
        return
    file = Path(target)
    try:
        if file.exists() and not file.read_bytes()[: len(_PAGE)].lower() == _PAGE:
            raise UsageError(f"--html {file} is there already and is no page; name another file")
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {file} cannot be written: {error.strerror}") from error
    if screen.json:
        screen.data({"html": str(file)})
    else:
        screen.line(screen.say("page_written", file=file))


FLOW_MARKS = {
    FlowStepState.PENDING: ("·", "dim"),
    FlowStepState.RUNNING: ("▶", "yellow"),
    FlowStepState.DONE: ("✓", "green"),
    FlowStepState.SKIPPED: ("–", "dim"),
    FlowStepState.FAILED: ("✗", "red"),
    FlowStepState.STOPPED: ("■", "yellow"),
}


class Story:
    """Prints one run from its header to its open questions."""

    def __init__(self, screen: Screen, settings: Settings, run: Run) -> None:
        self._screen = screen
        self._settings = settings
        self._run = run

    def show(self) -> None:
        """Print all of it."""
        self._header()
        self._block("input", self._run.row.input)
        if self._run.row.context:
            self._block("context", json.dumps(self._run.row.context, ensure_ascii=False))
        if self._run.error:
            self._block("error", str(self._run.error.get("message")), "red")
        self._flow()
        self._steps()
        if self._run.answer:
            self._block("answer", self._run.answer)
        self._how_to_go_on()

    def _header(self) -> None:
        run, row, say = self._run, self._run.row, self._screen.say
        status = run.status_noting(language=self._screen.words)
        self._screen.line((run.id, "bold"), (f"  {status}", STYLES[RunStatus(run.status)]))
        facts = [
            f"{say('thread')} {row.thread_id}",
            f"{say('graph')} {row.graph}",
            say("started_by", by=row.started_by) if row.started_by else "",
            say("forked_from", run=row.forked_from) if row.forked_from else "",
            moment(row.created_at) + (f" – {moment(row.ended_at)}" if row.ended_at else ""),
        ]
        work = [
            say("steps", steps=row.steps),
            say("tokens", input=row.input_tokens, output=row.output_tokens),
            say("active", seconds=f"{row.active_ms / 1000:.1f}"),
        ]
        for line in (facts, work):
            self._screen.line(("  ".join(one for one in line if one), "dim"))
        told = why(run, self._screen.language, now())
        self._screen.line((told, STYLES[RunStatus(run.status)]))

    def _block(self, key: str, words: str, style: str = "") -> None:
        self._screen.line((f"{self._screen.say(key)}:", "bold"))
        for line in words.splitlines():
            self._screen.line((line, style), indent=2)

    def _flow(self) -> None:
        """The steps of the flow, with the one that the run has reached marked."""
        if self._run.flow:
            self._screen.line((f"{self._screen.say('flow')}:", "bold"))
        for one in self._run.flow:
            mark, style = FLOW_MARKS[FlowStepState(one.status)]
            reason = f"  {one.reason}" if one.reason else ""
            self._screen.line(
                (f"{mark} ", style), (one.step, "bold"), f"  {one.status}", (reason, style), indent=2
            )

    def _steps(self) -> None:
        run, known = self._run, {one.step: one for one in self._run.steps}
        of_calls = {(one.step, one.call_id) for one in run.calls}
        loose = [one for one in run.questions if (one.step, one.call_id) not in of_calls]
        of_nodes = {
            *(one.step for one in loose),
            *(one.row.parent_step or 0 for one in run.children_of_nodes),
        }
        for step in sorted({*known, *of_nodes, *(one.step for one in run.calls)}):
            self._step(step, known.get(step))
            for child in run.children_of_nodes if step == 0 else ():
                self._child(child)
            for question in loose:  # of a node of one's own
                if question.step == step:
                    self._question(question)
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
        for child in self._run.children_of(call):
            self._child(child)

    def _child(self, child: Run) -> None:
        """The run that worked for a call, in one line; `adjourn show` tells it like any other."""
        self._screen.line(("↳ ", "blue"), (child.row.path, "bold"), f" {child}", indent=4, cut=True)

    def _outcome(self, call: CallRow) -> str:
        took = "" if call.took_ms is None else f"{call.took_ms} ms"
        code = call.error_code if call.error_code != call.outcome else None
        parts = [call.outcome, code or "", took]
        if call.attempts > 1:
            parts.append(self._screen.say("attempts", attempts=call.attempts))
        return " ".join(one for one in parts if one)

    def _questions_of(self, call: CallRow) -> Sequence[Interrupt]:
        return [one for one in self._run.questions if (one.step, one.call_id) == (call.step, call.call_id)]

    def _question(self, one: Interrupt) -> None:
        self._screen.line(("? ", "yellow"), (one.id, "bold"), f" {one.type}: {one.asked}", indent=4, cut=True)
        if one.state == InterruptState.OPEN:
            told = (
                self._screen.say("waiting"),
                approvals_of(self._screen, one),
                expiry_of(self._screen, one),
            )
            self._screen.line(("; ".join(part for part in told if part), "yellow"), indent=6)
            return
        by = one.agreed or self._screen.say("nobody" if one.state == InterruptState.EXPIRED else "somebody")
        state = word(one.state, self._screen.words)
        settled = self._screen.say("answered", state=state, by=by, at=moment(one.closed_at or ""))
        answer = "" if one.answer is None else f": {short(one.shown_answer)}"
        self._screen.line(f"{settled}{answer}", indent=6, cut=True)

    def _how_to_go_on(self) -> None:
        run = self._run
        if run.status == RunStatus.INTERRUPTED:
            if run.interrupts:
                self._screen.line((f"{self._screen.say('open_questions')}:", "bold"))
            show_questions(self._screen, self._settings, run.id, run.interrupts)
        elif run.status == RunStatus.FAILED:
            self._screen.line(self._screen.say("try_again"))
            self._screen.line((self._settings.command("resume", run.id), "bold"), indent=2)


def to_dict(run: Run, settings: Settings) -> dict[str, Any]:
    """The whole story as JSON data: `Run.to_dict`, each model call, each question, and how to go on."""
    waits = run.status == RunStatus.INTERRUPTED
    return {
        **run.to_dict(),
        "context": run.context,
        "shown_reason": run.shown_reason or None,
        "why": why(run, settings.language, now()),
        "calls": [_call_dict(one) for one in run.calls],
        "model_calls": [asdict(one) for one in run.steps],
        "questions": [_question_dict(one) for one in run.questions],
        "audit": [asdict(one) for one in run.audit],
        "children": [one.id for one in run.children],
        "resume_command": resume_command(settings, run.id, run.interrupts) if waits else None,
    }


def _call_dict(call: CallRow) -> dict[str, Any]:
    rest = ("batch", "position", "digest", "raw", "planned_at", "started_at", "ended_at", "took_ms")
    return {
        **call_to_dict(call),
        **{name: getattr(call, name) for name in rest},
        "shown": observation(call),
    }


def _question_dict(question: Interrupt) -> dict[str, Any]:
    rest = ("step", "state", "answer", "answered_by", "created_at", "closed_at")
    return {**question.to_dict(), **{name: getattr(question, name) for name in rest}}
