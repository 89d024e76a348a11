"""FinishNode: the closing message of a run that did not end with an answer.

A forced stop is a readable assistant message and a stop reason, never an exception (C-57).
"""

import json
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.events import Message
from adjourn.checkpoints.lifecycle import StopReason
from adjourn.nodes.counters import counters_of
from adjourn.nodes.run_context import run_context
from adjourn.nodes.state import RunState
from adjourn.nodes.texts import TEXTS, say

FOUND_SHOWN = 600  # characters of each result that a closing message quotes


class FinishNode:
    """Writes the closing message where one is needed. The graph ends after it."""

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        run = run_context(config)
        reason = state.get("stop_reason") or (StopReason.CANCELLED.value if run.cancel.is_set() else None)
        if reason == StopReason.ANSWERED or counters_of(state)["wrapped_up"]:
            return {}
        reason = reason or StopReason.CANCELLED.value
        message = AIMessage(closing_text(state, reason), id=f"msg_{uuid4().hex}")
        step = state.get("step", 0)
        run.ledger.emit(
            Message(
                run_id=run.run_id,
                path=run.path,
                step=step + 1,
                message_id=str(message.id),
                text=str(message.text),
            )
        )
        return {"messages": [message], "stop_reason": reason}


def closing_text(state: RunState, reason: str) -> str:
    """The fixed sentence for a stop reason, and what the tools of this run found."""
    language = state.get("language", "en")
    key = f"stop.{reason}"
    fails = counters_of(state)["fails_in_row"]
    text = say(key if key in TEXTS else "stop.cancelled", language, steps=state.get("step", 0), fails=fails)
    if reason == StopReason.CANCELLED:
        return text
    found = [_shown(message) for message in _this_run(state["messages"]) if isinstance(message, ToolMessage)]
    told = [one for one in found if one]
    return (
        text
        + " "
        + (say("stop.found", language, found="; ".join(told)) if told else say("stop.nothing", language))
    )


def _this_run(messages: list[AnyMessage]) -> list[AnyMessage]:
    starts = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return messages[starts[-1] :] if starts else messages


def _shown(message: ToolMessage) -> str:
    try:
        observation = json.loads(message.text)
    except ValueError:
        return ""
    if not isinstance(observation, dict) or not observation.get("ok"):
        return ""
    text = json.dumps(observation.get("data"), ensure_ascii=False)
    return f"{message.name}: {text if len(text) <= FOUND_SHOWN else text[:FOUND_SHOWN] + '...'}"
