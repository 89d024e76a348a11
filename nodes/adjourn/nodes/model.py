"""ModelNode: check the history, ask, assemble the turn, make the plan of its calls.

What can never run (it does not parse, its tool does not exist) gets its observation here; everything
else is judged again just before it runs. A model call that fails for good raises `ModelFailed`: the run is
then `failed`, keeps everything, and can be resumed.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import ModelFailed
from adjourn.checkpoints.events import Message, StepStarted, TextDelta, TextDiscarded, ToolCall
from adjourn.checkpoints.lifecycle import CallState, Effect, ErrorCode, StopReason
from adjourn.nodes.assembly import AssembledCall, Turn
from adjourn.nodes.calls import Call
from adjourn.nodes.execute import unknown_tool
from adjourn.nodes.guards import Limits
from adjourn.nodes.history import healed, is_legal
from adjourn.nodes.observations import failure
from adjourn.nodes.outcome import Outcome, failed
from adjourn.nodes.plan import number_batches
from adjourn.nodes.providers import assistant_message, listening, provider_of, read, request_messages
from adjourn.nodes.questions import declared_question
from adjourn.nodes.run_context import RunContext, StepFacts, run_context
from adjourn.nodes.state import RunState
from adjourn.nodes.texts import say
from adjourn.nodes.tool import Tool

log = logging.getLogger("adjourn.model")

ATTEMPTS = 3  # of one model call, the first included
BACKOFF_S = 0.5  # before the second attempt; doubled for the third
TRANSIENT_STATUS = frozenset({408, 409, 429})  # C-58; and everything from 500
RAW_SHOWN = 500  # characters of an unparsable argument text that the model is shown again


class ModelNode:
    """Asks the model once per superstep. Returns `tools`, `model` or `finish` as its outcome."""

    def __init__(
        self,
        model: BaseChatModel,
        tools: Iterable[Tool] = (),
        *,
        system_prompt: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.tools: Mapping[str, Tool] = {one.name: one for one in tools}
        self.limits = limits or Limits()
        self.system_prompt = system_prompt
        self.provider = provider_of(model)
        self.name = model_name(model)
        heard = listening(model)
        bound = [one.for_model for one in self.tools.values()]
        self.model: Runnable[Any, Any] = heard.bind_tools(bound) if bound else heard

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        step = state.get("step", 0)
        if step >= self.limits.max_steps:
            return {"outcome": "finish", "stop_reason": StopReason.MAX_STEPS.value}
        run = run_context(config)
        if run.cancel.is_set():
            return _cancelled()
        mended = self._mended(state, run)
        history = state["messages"] if mended is None else mended
        asked = _Asked(self, self._request(history, state.get("note")), run, step + 1)
        turn = await _or_cancel(asked.turn(), run)
        if turn is None:
            await asked.discard("cancelled")
            return _cancelled()
        refused = turn.problem is not None
        result = await self._refused(state, asked, turn) if refused else self._accepted(state, asked, turn)
        if mended is not None:
            written: list[Any] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *mended]
            result["messages"] = written + list(result.get("messages", []))
        return result

    # -- before the request

    def _mended(self, state: RunState, run: RunContext) -> list[AnyMessage] | None:
        """The history made legal; None when it is."""
        messages = state["messages"]
        if is_legal(messages):
            return None
        log.warning("run %s: the history was open and was healed before the request", run.run_id)
        language = state.get("language", "en")

        def missing(call_id: str, name: str) -> str:
            stored = run.ledger.stored(state.get("step", 0), call_id)
            if stored is not None and stored.observation is not None:
                return stored.observation
            tool = self.tools.get(name)
            is_read = tool is not None and tool.effect == Effect.READ
            code = ErrorCode.CANCELLED if is_read else ErrorCode.OUTCOME_UNKNOWN
            return failure(code, say(code.value, language, tool=name))

        return healed(messages, missing)

    def _request(self, messages: list[AnyMessage], note: str | None) -> list[AnyMessage]:
        prompt: list[AnyMessage] = [SystemMessage(self.system_prompt)] if self.system_prompt else []
        # C-88: from the runtime, after the tool results, in the request only
        told: list[AnyMessage] = [HumanMessage(f"[runtime] {note}")] if note else []
        return [*prompt, *messages, *told]

    # -- after the turn

    async def _refused(self, state: RunState, asked: "_Asked", turn: Turn) -> RunState:
        """A turn that may not stand in the history (C-9): asked again once, then the run ends."""
        errors = state.get("protocol_errors", 0) + 1
        await asked.discard(turn.problem or "")
        ledger, run_id, path = asked.run.ledger, asked.run.run_id, asked.run.path
        over = errors > 1
        started = StepStarted(run_id=run_id, path=path, step=asked.step + 1)
        ledger.plan_step(asked.facts(turn, None), [], [] if over else [started])
        if over:
            reason = StopReason.PROTOCOL_ERROR.value
            return {"step": asked.step, "outcome": "finish", "stop_reason": reason, "protocol_errors": errors}
        note = f"Your last turn was not used: {turn.problem}. Send it again."
        return {"step": asked.step, "outcome": "model", "protocol_errors": errors, "note": note}

    def _accepted(self, state: RunState, asked: "_Asked", turn: Turn) -> RunState:
        message = assistant_message(turn, f"msg_{uuid4().hex}")
        language = state.get("language", "en")
        calls = self._plan(turn, asked, language)
        run_id, path, step = asked.run.run_id, asked.run.path, asked.step
        spoken = Message(
            run_id=run_id,
            path=path,
            step=step,
            message_id=str(message.id),
            text=turn.answer,
            calls=len(calls),
            truncated=turn.truncated,
        )
        issued = [
            ToolCall(
                run_id=run_id,
                path=path,
                step=step,
                call_id=call["id"],
                name=call["name"],
                arguments=call["arguments"],
            )
            for call in calls
        ]
        asked.run.ledger.plan_step(asked.facts(turn, str(message.id)), calls, [spoken, *issued])
        result: RunState = {
            "messages": [message],
            "step": step,
            "calls": calls,
            "outcome": "tools" if calls else "finish",
            "protocol_errors": 0,
            "note": None,
        }
        if not calls:
            result["stop_reason"] = StopReason.ANSWERED.value
        return result

    def _plan(self, turn: Turn, asked: "_Asked", language: str) -> list[Call]:
        """The calls of the step with their batches, and with the questions that their tools declare (C-23)."""
        kinds = [self._kind(call) for call in turn.calls]
        batches = number_batches(kinds)
        planned: list[Call] = []
        writes = 0
        for sent, (effect, _), batch in zip(turn.calls, kinds, batches, strict=True):
            writes += effect is Effect.WRITE
            call: Call = {
                "id": str(sent.id),
                "name": sent.name,
                "position": sent.position,
                "batch": batch,
                "effect": effect.value,
                "arguments": sent.arguments,
                "state": CallState.PLANNED.value,
            }
            outcome = self._hopeless(sent, turn, effect, writes, language)
            if outcome is not None:
                call["state"], call["observation"] = outcome.state.value, outcome.observation
                if sent.error is not None:
                    call["raw"] = sent.raw
            else:
                self._prepare(call, asked, language)
            planned.append(call)
        return planned

    def _kind(self, sent: AssembledCall) -> tuple[Effect, bool]:
        tool = self.tools.get(sent.name)
        if tool is None or sent.arguments is None:
            return Effect.READ, True  # it never runs: it must not keep its neighbours apart
        return tool.effect_of(sent.arguments), tool.parallel

    def _hopeless(
        self, sent: AssembledCall, turn: Turn, effect: Effect, writes: int, language: str
    ) -> Outcome | None:
        """The outcome of a call that can never run, whatever happens before its turn comes."""
        limits = self.limits
        if sent.cut or (turn.truncated and effect is Effect.WRITE):
            return failed(ErrorCode.OUTPUT_CUT, language, sent.name)
        if sent.error is not None:
            raw = sent.raw if len(sent.raw) <= RAW_SHOWN else sent.raw[:RAW_SHOWN] + "..."
            return failed(
                ErrorCode.INVALID_ARGUMENTS, language, sent.name, text="unparsable", why=sent.error, raw=raw
            )
        if sent.name not in self.tools:
            return unknown_tool(sent.name, self.tools, language)
        if sent.position >= limits.max_calls_per_step:
            return failed(ErrorCode.TOO_MANY_CALLS, language, sent.name, limit=limits.max_calls_per_step)
        most = limits.max_writes_per_step
        if effect is Effect.WRITE and most is not None and writes > most:
            return failed(ErrorCode.SKIPPED_WRITE_LIMIT, language, sent.name, limit=most)
        return None

    def _prepare(self, call: Call, asked: "_Asked", language: str) -> None:
        tool = self.tools[call["name"]]
        arguments = call["arguments"] = tool.without_blanks(call["arguments"] or {})
        resource = tool.resource_of(arguments)
        if resource is not None:
            call["resource"] = resource
        if tool.problems(arguments).wrong:
            return  # it is answered `invalid_arguments` when its turn comes; nobody is asked before that
        question = declared_question(call, tool, run_id=asked.run.run_id, step=asked.step, language=language)
        if question is not None:
            call["state"] = CallState.WAITING.value
            call["question"] = question


@dataclass(slots=True)
class _Asked:
    """One model call: the request, its attempts, and what is written down about it."""

    node: ModelNode
    request: list[AnyMessage]
    run: RunContext
    step: int
    attempt: int = 0
    spoke: bool = False  # whether this attempt sent text
    started_at: str = ""
    began: float = 0.0

    async def turn(self) -> Turn:
        """The whole turn, after at most `ATTEMPTS` attempts. Raises `ModelFailed`."""
        self.started_at, self.began = now(), time.monotonic()
        messages = request_messages(self.request, self.node.model, self.node.tools)
        while True:
            self.attempt += 1
            try:
                turn = await self._stream(messages)
                if turn.finish is not None:
                    return turn
                error: Exception = ConnectionError("the stream broke off before its end")
            except Exception as raised:
                error = raised
            await self.discard(type(error).__name__)
            if self.attempt >= ATTEMPTS or not is_transient(error):
                raise ModelFailed(self.node.name, f"{type(error).__name__}: {error}") from error
            log.warning("model %s, attempt %s: %s", self.node.name, self.attempt, error)
            await asyncio.sleep(BACKOFF_S * 2 ** (self.attempt - 1))

    async def _stream(self, messages: list[Any]) -> Turn:
        assembler = self.node.provider.assembler()
        self.spoke = False
        async for chunk in self.node.model.astream(messages):
            text = assembler.feed(read(chunk, self.node.provider))
            if text:
                self.spoke = True
                self.run.ledger.emit(
                    TextDelta(
                        run_id=self.run.run_id,
                        path=self.run.path,
                        step=self.step,
                        text=text,
                        attempt=self.attempt,
                    )
                )
        return assembler.finish()

    async def discard(self, reason: str) -> None:
        """Void the deltas of the last attempt, if it sent any (C-66)."""
        if self.spoke:
            run = self.run
            await run.ledger.tell(
                TextDiscarded(
                    run_id=run.run_id, path=run.path, step=self.step, attempt=self.attempt, reason=reason
                )
            )

    def facts(self, turn: Turn, message_id: str | None) -> StepFacts:
        """What the steps table keeps."""
        return StepFacts(
            step=self.step,
            model=turn.model or self.node.name,
            message_id=message_id,
            latency_ms=round((time.monotonic() - self.began) * 1000),
            input_tokens=turn.usage.input_tokens if turn.usage else None,
            output_tokens=turn.usage.output_tokens if turn.usage else None,
            started_at=self.started_at,
            ended_at=now(),
        )


def _cancelled() -> RunState:
    return {"outcome": "finish", "stop_reason": StopReason.CANCELLED.value}


async def _or_cancel(work: Any, run: RunContext) -> Turn | None:
    """The turn, or None when the run is cancelled first; the model call is then taken back."""
    asking = asyncio.ensure_future(work)
    cancel = asyncio.ensure_future(run.cancel.wait())
    try:
        await asyncio.wait({asking, cancel}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            turn: Turn = asking.result()
            return turn
        return None
    finally:
        cancel.cancel()
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking})


# By name: the classes are httpx's and the providers' own, which need not be installed. The last three are how a
# stream that broke off in its middle shows itself: an event with half a JSON, an error event, no event at all.
_NETWORK = frozenset({"ConnectionError", "TimeoutError", "TransportError", "APIConnectionError"})
_BROKEN_STREAM = frozenset({"JSONDecodeError", "APIError"})


def is_transient(error: BaseException) -> bool:
    """Whether asking again may help (C-58): network errors, 408, 409, 429 and everything from 500."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in TRANSIENT_STATUS or status >= 500
    if {kind.__name__ for kind in type(error).__mro__} & _NETWORK or type(error).__name__ in _BROKEN_STREAM:
        return True
    return isinstance(error, ValueError) and "No generation chunks" in str(error)


def model_name(model: BaseChatModel) -> str:
    """How a model is called in tables and errors."""
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__
