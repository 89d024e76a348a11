"""A run as it happens: each event on the screen when it is told."""

from collections.abc import Callable
from typing import Any

from adjourn.checkpoints.events import (
    Event,
    InterruptAnswered,
    Message,
    RunFailed,
    RunFinished,
    RunStarted,
    StepStarted,
    TextDelta,
    TextDiscarded,
    ToolCall,
    ToolProgress,
    ToolResult,
)
from adjourn.checkpoints.lifecycle import CallState
from adjourn.graph.captions import word
from adjourn.graph.cli.screen import Screen, short

Show = Callable[[Any], None]

_SETTLED_OTHERWISE = {"open": "answer_counted", "expired": "answer_expired"}

MARKS = {
    CallState.OK: ("✓", "green"),
    CallState.REPEATED: ("=", "yellow"),
    CallState.WAITING: ("?", "yellow"),
}
FAILURE = ("✗", "red")


class Live:
    """Give this as `on_event`. Questions are left to the caller, who knows how they will be answered."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._streaming = False  # the cursor stands behind text that may go on
        self._said: dict[str, str] = {}  # by path: the text of the step, as far as it was shown
        self._shows: dict[type[Event], Show] = {
            RunStarted: self._run_started,
            StepStarted: self._step_started,
            TextDelta: self._text_delta,
            TextDiscarded: self._text_discarded,
            Message: self._message,
            ToolCall: self._tool_call,
            ToolProgress: self._tool_progress,
            ToolResult: self._tool_result,
            InterruptAnswered: self._answered,
            RunFinished: self._finished,
            RunFailed: self._failed,
        }

    def __call__(self, event: Event) -> None:
        if self._screen.json:
            self._screen.data(event.to_dict())
            return
        show = self._shows.get(type(event))
        if show is not None:
            show(event)

    def _line(self, event: Event, *parts: Any, cut: bool = False) -> None:
        if self._streaming:
            self._screen.raw("\n")
            self._streaming = False
        path = [(f"[{event.path}] ", "dim")] if event.path else []
        self._screen.line(*path, *parts, cut=cut)

    def _run_started(self, event: RunStarted) -> None:
        say = self._screen.say
        parts = f"  {say('thread')} {event.thread_id}  {say('graph')} {event.graph}"
        self._line(event, f"{say('run')} ", (event.run_id, "bold"), (parts, "dim"))

    def _step_started(self, event: StepStarted) -> None:
        self._said[event.path] = ""
        self._line(event, (self._screen.say("step", step=event.step), "dim"))

    def _text_delta(self, event: TextDelta) -> None:
        if event.path:  # several specialists speak at once: what each says is shown when it is whole
            return
        self._screen.raw(event.text)
        self._said[""] = said = self._said.get("", "") + event.text
        self._streaming = bool(said) and not said.endswith("\n")

    def _text_discarded(self, event: TextDiscarded) -> None:
        if event.path:
            return
        self._said[""] = ""
        self._line(event, (self._screen.say("text_discarded", reason=event.reason), "yellow"))

    def _message(self, event: Message) -> None:
        if event.text and not self._said.get(event.path):  # a specialist, or a model that does not stream
            self._line(event, event.text)
        self._said[event.path] = event.text

    def _tool_call(self, event: ToolCall) -> None:
        arguments = "?" if event.arguments is None else short(event.arguments)
        self._line(
            event,
            ("→ ", "cyan"),
            (event.name, "bold"),
            f" {arguments}",
            (f"  [{event.call_id}]", "dim"),
            cut=True,
        )

    def _tool_progress(self, event: ToolProgress) -> None:
        share = "" if event.share is None else f" {event.share:.0%}"
        of = f"  [{event.call_id}]" if event.call_id else ""
        self._line(
            event, ("… ", "dim"), (event.name, "bold"), share, (of, "dim"), f"  {event.message}", cut=True
        )

    def _tool_result(self, event: ToolResult) -> None:
        mark, style = MARKS.get(CallState(event.outcome), FAILURE)
        took = "" if event.took_ms is None else f" {event.took_ms} ms"
        code = f" {event.error_code}" if event.error_code not in (None, event.outcome) else ""
        told = event.message if event.message else ("" if event.data is None else short(event.data))
        self._line(
            event,
            (f"{mark} ", style),
            (event.name, "bold"),
            (f" {event.outcome}{code}{took}", style),
            (f"  [{event.call_id}]  ", "dim"),
            told,
            cut=True,
        )

    def _answered(self, event: InterruptAnswered) -> None:
        by = event.by or self._screen.say("somebody")
        told = "" if event.answer is None else f"  {short(event.answer)}"
        key = _SETTLED_OTHERWISE.get(event.state, "answer_taken")
        taken = self._screen.say(key, state=word(event.state, self._screen.words), by=by)
        self._line(event, ("! ", "cyan"), (event.interrupt_id, "bold"), f" {taken}{told}", cut=True)

    def _finished(self, event: RunFinished) -> None:
        # the closing words of a forced stop are not streamed
        if event.answer.strip() != self._said.get(event.path, "").strip():
            self._line(event, event.answer)
        style = "green" if event.stop_reason == "answered" else "yellow"
        language = self._screen.words
        reason = f" ({word(event.stop_reason, language)})" if event.stop_reason != event.status else ""
        self._line(event, (f"{word(event.status, language)}{reason}", style))

    def _failed(self, event: RunFailed) -> None:
        self._line(event, (f"{word('failed', self._screen.words)}: {event.message}", "red"))
