"""ModelNode: check the history, ask, and make the plan of the calls that the turn holds."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from adjourn.checkpoints.events import Event, Message, StepStarted, ToolCall
from adjourn.checkpoints.lifecycle import Effect, ErrorCode, StopReason
from adjourn.nodes.asking import Asking, BoundModel
from adjourn.nodes.assembly import Turn
from adjourn.nodes.calls import Call
from adjourn.nodes.guards import Limits
from adjourn.nodes.history import healed, is_legal
from adjourn.nodes.masking import Masker
from adjourn.nodes.observations import failure
from adjourn.nodes.planning import Planner
from adjourn.nodes.run_context import RunContext, run_context
from adjourn.nodes.state import RunState
from adjourn.nodes.texts import say
from adjourn.nodes.tokens import counter_for
from adjourn.nodes.tool import Tool
from adjourn.nodes.trimming import trimmed
from adjourn.nodes.wire_out import assistant_message

log = logging.getLogger("adjourn.model")


class ModelNode:
    """Asks the model once per superstep. Returns `tools`, `model` or `finish` as its outcome."""

    def __init__(
        self,
        model: BaseChatModel,
        tools: Iterable[Tool] = (),
        *,
        system_prompt: str | None = None,
        max_history_tokens: int | None = None,
        limits: Limits | None = None,
        masker: Masker | None = None,
    ) -> None:
        self.masker = masker or Masker()
        self.tools: Mapping[str, Tool] = {one.name: one for one in tools}
        self.limits = limits or Limits()
        self.system_prompt = system_prompt
        self.model = BoundModel.of(model, self.tools.values())
        self.max_history_tokens = max_history_tokens
        self._count = counter_for(self.model.name) if max_history_tokens is not None else None

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        step = state.get("step", 0)
        if step >= self.limits.max_steps:
            return {"outcome": "finish", "stop_reason": StopReason.MAX_STEPS.value}
        run = run_context(config)
        mended = self._mended(state, run)
        history = state["messages"] if mended is None else mended
        asking = Asking(self.model, self._request(history, state), self.tools, run, step + 1)
        turn = None if run.cancel.is_set() else await asking.turn_or_cancel()
        if turn is None:
            return {"outcome": "finish", "stop_reason": StopReason.CANCELLED.value}
        refused = turn.problem is not None
        result = await _refused(state, asking, turn) if refused else self._accepted(state, asking, turn)
        if mended is not None:
            written: list[Any] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *mended]
            result["messages"] = written + list(result.get("messages", []))
        return result

    def _mended(self, state: RunState, run: RunContext) -> list[AnyMessage] | None:
        """The history made legal (C-15); None when it is."""
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

    def _request(self, history: list[AnyMessage], state: RunState) -> list[AnyMessage]:
        """The history with its prompt, held within its budget (C-76), and what the runtime tells the model now."""
        messages: list[AnyMessage] = [SystemMessage(self.system_prompt)] if self.system_prompt else []
        messages += history
        if self.max_history_tokens is not None and self._count is not None:
            language = state.get("language", "en")
            messages = trimmed(messages, self.max_history_tokens, self._count, language)
        note = state.get("note")
        # C-88: from the runtime, after the tool results, in the request only
        return [*messages, HumanMessage(f"[runtime] {note}")] if note else messages

    def _accepted(self, state: RunState, asking: Asking, turn: Turn) -> RunState:
        message = assistant_message(turn, f"msg_{uuid4().hex}")
        run_id, language = asking.run.run_id, state.get("language", "en")
        calls = Planner(self.tools, self.limits, run_id, asking.step, language, self.masker).plan(turn)
        events = _spoken(asking, turn, str(message.id), calls, self.masker)
        asking.run.ledger.plan_step(asking.facts(turn, str(message.id)), calls, events)
        result: RunState = {
            "messages": [message],
            "step": asking.step,
            "calls": calls,
            "outcome": "tools" if calls else "finish",
            "protocol_errors": 0,
            "note": None,
        }
        if not calls:
            result["stop_reason"] = StopReason.ANSWERED.value
        return result


async def _refused(state: RunState, asking: Asking, turn: Turn) -> RunState:
    """A turn that may not stand in the history (C-9): asked again once, then the run ends."""
    errors = state.get("protocol_errors", 0) + 1
    await asking.discard(turn.problem or "")
    over = errors > 1
    again = StepStarted(run_id=asking.run.run_id, path=asking.run.path, step=asking.step + 1)
    asking.run.ledger.plan_step(asking.facts(turn, None), [], [] if over else [again])
    result: RunState = {"step": asking.step, "outcome": "model", "protocol_errors": errors}
    if over:
        result |= {"outcome": "finish", "stop_reason": StopReason.PROTOCOL_ERROR.value}
    else:
        result["note"] = f"Your last turn was not used: {turn.problem}. Send it again."
    return result


def _spoken(asking: Asking, turn: Turn, message_id: str, calls: list[Call], masker: Masker) -> list[Event]:
    """The events of a turn: its message, then its calls in order, their arguments masked."""
    run_id, path, step = asking.run.run_id, asking.run.path, asking.step
    said = Message(
        run_id=run_id,
        path=path,
        step=step,
        message_id=message_id,
        text=turn.answer,
        calls=len(calls),
        truncated=turn.truncated,
    )
    return [
        said,
        *(
            ToolCall(
                run_id=run_id,
                path=path,
                step=step,
                call_id=call["id"],
                name=call["name"],
                arguments=masker.data(call["arguments"]),
            )
            for call in calls
        ),
    ]
