"""What happens in runs, for the standard library's `logging`: one record for each stored event.

`adjourn.run` tells of runs and their steps, `adjourn.call` of calls and questions. Each record carries `run_id`, `path`,
`step` and, for a call, `call_id` and `tool` as fields of its own (`extra`), for whatever formats or collects them.
Messages name ids, tools, outcomes and times: never what a user, a model, a tool or an answer said.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from adjourn.checkpoints.events import (
    Event,
    InterruptAnswered,
    LoopInterrupt,
    Message,
    RunFinished,
    RunStarted,
    StepStarted,
    TextDiscarded,
    ToolCall,
    ToolResult,
)

RUNS = logging.getLogger("adjourn.run")
CALLS = logging.getLogger("adjourn.call")

Told = tuple[logging.Logger, int, str, tuple[object, ...]]


def log_event(event: Event) -> None:
    """Write a record about an event, unless it is a delta. Where nobody listens it costs a look at the logger's level."""
    tell = _TOLD.get(type(event))
    if tell is None:
        return
    logger, level, words, values = tell(event)
    if logger.isEnabledFor(level):
        logger.log(level, f"run %s: {words}", event.run_id, *values, extra=_fields(event))


def _fields(event: Event) -> dict[str, object]:
    fields: dict[str, object] = {"run_id": event.run_id, "path": event.path, "step": event.step}
    call_id = getattr(event, "call_id", None)
    if call_id is not None:
        fields["call_id"] = call_id
    if isinstance(event, ToolCall | ToolResult):
        fields["tool"] = event.name
    return fields


def _started(event: RunStarted) -> Told:
    return RUNS, logging.INFO, "started on thread %s of graph %s", (event.thread_id, event.graph)


def _step(event: StepStarted) -> Told:
    return RUNS, logging.DEBUG, "step %s: the model is asked", (event.step,)


def _message(event: Message) -> Told:
    return RUNS, logging.DEBUG, "step %s: the model spoke, %s calls", (event.step, event.calls)


def _discarded(event: TextDiscarded) -> Told:
    return RUNS, logging.INFO, "step %s: attempt %s does not count", (event.step, event.attempt)


def _call(event: ToolCall) -> Told:
    return CALLS, logging.DEBUG, "step %s: %s was asked for [%s]", (event.step, event.name, event.call_id)


def _result(event: ToolResult) -> Told:
    took = "did not run" if event.took_ms is None else f"{event.took_ms} ms"
    code = f" ({event.error_code})" if event.error_code else ""
    values = (event.step, event.name, event.call_id, event.outcome, code, took)
    return CALLS, logging.INFO, "step %s: %s [%s] %s%s, %s", values


def _waits(event: LoopInterrupt) -> Told:
    ids = ", ".join(str(one["id"]) for one in event.interrupts)
    return RUNS, logging.INFO, "waits for people: %s", (ids,)


def _answered(event: InterruptAnswered) -> Told:
    return CALLS, logging.INFO, "question %s is %s", (event.interrupt_id, event.state)


def _finished(event: RunFinished) -> Told:
    return RUNS, logging.INFO, "%s (%s) after %s steps", (event.status, event.stop_reason, event.step)


_TOLD: Mapping[type[Event], Callable[[Any], Told]] = {
    RunStarted: _started,
    StepStarted: _step,
    Message: _message,
    TextDiscarded: _discarded,
    ToolCall: _call,
    ToolResult: _result,
    LoopInterrupt: _waits,
    InterruptAnswered: _answered,
    RunFinished: _finished,
}  # `run_failed` is told by who caught the error, with its stack
