"""Spans of runs, model calls and tool calls, by OpenTelemetry's conventions for generative AI.

One span (`invoke_agent`) for each stretch in which a run is driven, live, so that spans which tools make lie below it; below
it one `chat` for each model call and one `execute_tool` for each tool call, made from the journal when the stretch is over: they
have the times, tokens and outcomes that the tables have. A run is one trace over all its stretches, in whatever process: the
first one's context is kept with the run.

Nothing is imported here. An application that collects spans has imported OpenTelemetry itself; without that there are none, and
looking costs nothing. What was said, asked and brought stays out of spans, unless the environment says otherwise
(`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`).
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.lifecycle import CallState, RunStatus
from adjourn.checkpoints.records import CallRow, RunRow, StepRow
from adjourn.graph.reading import read_run
from adjourn.graph.run import Run, observation

log = logging.getLogger("adjourn.run")

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_TRACEPARENT = "traceparent"
_BROKEN = frozenset({CallState.FAILED, CallState.UNKNOWN})


@asynccontextmanager
async def traced(database: Database, run: RunRow) -> AsyncGenerator[None]:
    """Spans of what happens inside, which is one stretch of driving a run; none where nobody collects."""
    api = sys.modules.get("opentelemetry.trace")
    span = None if api is None else _start(api, run)
    if api is None or span is None:
        yield
        return
    stretch = _Stretch(api, span, database, run.id, now())
    # beside the run, not before it: from its claim on there is no moment in which a cancel would leave it alone
    keeping = asyncio.ensure_future(stretch.keep_context()) if run.trace_context is None else None
    try:
        with api.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield
        if keeping is not None:
            await keeping
        stretch.tell(await database.aread(stretch.read))
    except asyncio.CancelledError:
        stretch.tell(database.read(stretch.read))  # the loop may be going: nothing is awaited any more
        raise
    except Exception as error:
        _mark_failed(api, span, type(error).__name__)
        raise
    finally:
        span.end()


def _start(api: Any, run: RunRow) -> Any | None:
    """The span of a stretch; None where spans are not recorded."""
    try:
        span = _started(api, run)
    except Exception:  # half-imported in another thread, or a processor that fails: the run goes on without
        log.exception("the trace of run %s could not be begun", run.id, extra={"run_id": run.id})
        return None
    return span if span.is_recording() else None


def _started(api: Any, run: RunRow) -> Any:
    current = api.get_current_span().get_span_context()
    before = _propagator().extract({_TRACEPARENT: run.trace_context}) if run.trace_context else None
    links = [api.Link(current)] if before is not None and current.is_valid else []
    return api.get_tracer("adjourn").start_span(
        f"invoke_agent {run.graph}", context=before, kind=api.SpanKind.INTERNAL, links=links
    )


def _propagator() -> Any:
    # imported here: whoever imported `opentelemetry.trace` has all of the package
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


def _context_of(span: Any) -> str:
    """The W3C `traceparent` of a span."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


@dataclass(frozen=True, slots=True)
class _Stretch:
    """One span that is under way, and where to read what it is to tell. Nothing here makes a run fail."""

    api: Any
    span: Any
    database: Database
    run_id: str
    began: str

    async def keep_context(self) -> None:
        """Store the span's context, so that later stretches belong to the same trace."""
        context = _context_of(self.span)
        try:
            await self.database.awrite(lambda c: journal.note_trace(c, self.run_id, context))
        except Exception:
            self._complain("kept")

    def read(self, connection: Connection) -> Run | None:
        """The run as the stretch left it; None: it cannot be read."""
        try:
            return read_run(connection, self.run_id)
        except Exception:
            self._complain("read")
            return None

    def tell(self, run: Run | None) -> None:
        """Fill in the span, and make those below it."""
        if run is None:
            return
        try:
            _fill(self.api, self.span, run)
            below = self.api.set_span_in_context(self.span)
            tracer = self.api.get_tracer("adjourn")
            for step in run.steps:
                if step.ended_at >= self.began:
                    _chat(self.api, tracer, below, run, step)
            for call in run.calls:
                if call.started_at is not None and call.ended_at is not None and call.ended_at >= self.began:
                    _tool(self.api, tracer, below, run, call)
        except Exception:
            self._complain("told")

    def _complain(self, what: str) -> None:
        log.exception("the trace of run %s could not be %s", self.run_id, what, extra={"run_id": self.run_id})


def _fill(api: Any, span: Any, run: Run) -> None:
    row = run.row
    span.set_attributes(
        {
            **_common(run, "invoke_agent"),
            "gen_ai.agent.name": row.graph,
            "gen_ai.usage.input_tokens": row.input_tokens,
            "gen_ai.usage.output_tokens": row.output_tokens,
            "adjourn.run.status": row.status,
            "adjourn.run.steps": row.steps,
        }
    )
    if run.shown_reason:
        span.set_attribute("adjourn.run.stop_reason", run.shown_reason)
    if _with_content():
        span.set_attribute("gen_ai.input.messages", _message("user", row.input))
        if row.answer:
            span.set_attribute("gen_ai.output.messages", _message("assistant", row.answer))
    if row.status == RunStatus.FAILED:
        error = row.error or {}
        _mark_failed(api, span, str(error.get("class", "error")), str(error.get("message", "")))


def _chat(api: Any, tracer: Any, below: Any, run: Run, step: StepRow) -> None:
    attributes = {**_common(run, "chat"), "gen_ai.request.model": step.model, "adjourn.step": step.step}
    if step.input_tokens is not None:
        attributes["gen_ai.usage.input_tokens"] = step.input_tokens
    if step.output_tokens is not None:
        attributes["gen_ai.usage.output_tokens"] = step.output_tokens
    span = tracer.start_span(
        f"chat {step.model}",
        context=below,
        kind=api.SpanKind.CLIENT,
        start_time=_ns(step.started_at),
        attributes=attributes,
    )
    span.end(_ns(step.ended_at))


def _tool(api: Any, tracer: Any, below: Any, run: Run, call: CallRow) -> None:
    attributes = {
        **_common(run, "execute_tool"),
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.call_id,
        "gen_ai.tool.type": "function",
        "adjourn.step": call.step,
        "adjourn.call.effect": call.effect,
        "adjourn.call.outcome": call.outcome,
        "adjourn.call.attempts": call.attempts,
        **(dict(_call_content(call)) if _with_content() else {}),
    }
    span = tracer.start_span(
        f"execute_tool {call.tool}",
        context=below,
        kind=api.SpanKind.INTERNAL,
        start_time=_ns(call.started_at or call.planned_at),
        attributes=attributes,
    )
    if call.outcome in _BROKEN:
        kept = call.error or {}
        _mark_failed(api, span, call.error_code or call.outcome, kept.get("text", ""), kind=kept.get("class"))
    span.end(_ns(call.ended_at or call.planned_at))


def _common(run: Run, operation: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.conversation.id": run.thread_id,
        "adjourn.run.id": run.id,
        **({"adjourn.path": run.row.path} if run.row.path else {}),
    }


def _mark_failed(api: Any, span: Any, code: str, words: str = "", *, kind: str | None = None) -> None:
    """Note an error on a span: its class always, its words only where content is captured."""
    span.set_attribute("error.type", code)
    span.set_status(api.Status(api.StatusCode.ERROR, code))
    told = {"exception.type": kind or code}
    if words and _with_content():
        told["exception.message"] = words
    span.add_event("exception", told)


def _with_content() -> bool:
    return os.environ.get(CONTENT_VARIABLE, "").lower() in ("true", "1")


def _call_content(call: CallRow) -> Iterator[tuple[str, str]]:
    told: Mapping[str, Any] = {"arguments": call.arguments, "result": observation(call)}
    for name, value in told.items():
        if value is not None:
            yield f"gen_ai.tool.call.{name}", json.dumps(value, ensure_ascii=False)


def _message(role: str, words: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": words}]}], ensure_ascii=False)


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _ns(time: str) -> int:
    """A stored time as nanoseconds since 1970."""
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(microseconds=1) * 1000
