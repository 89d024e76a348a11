"""How the step in hand of a flow ended, and what steps brought: read from the calls and the messages."""

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from adjourn.checkpoints.lifecycle import CallState, FlowStepState, StopReason
from adjourn.nodes.calls import Call
from adjourn.nodes.flow_state import Brought, FlowState
from adjourn.nodes.flow_table import LoopStep, Step, ToolStep
from adjourn.nodes.state import RunState, last_assistant
from adjourn.nodes.texts import say

_RAN_BADLY = (
    CallState.FAILED,
    CallState.UNKNOWN,
    CallState.DENIED,
    CallState.DECLINED,
    CallState.EXPIRED,
    CallState.DISMISSED,
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the step in hand ended. `result` is where its result stands, `why` the reason where it did not succeed."""

    state: FlowStepState
    result: Brought = field(default_factory=Brought)
    why: str = ""
    may_retry: bool = True


def how_it_ended(step: Step, names: Container[str], state: RunState, flow: FlowState) -> Ended | None:
    """How the step in hand ended; None: it has not, and the model goes on with it. `names`: the tools of the step."""
    mine = _calls_of(step, names, state, flow)
    succeeded = [one for one in mine if one["state"] == CallState.OK]
    if succeeded:
        return Ended(FlowStepState.DONE, {"message": str(_told(succeeded[-1], state).id)})
    bad = [one for one in mine if CallState(one["state"]) in _RAN_BADLY]
    if bad:
        retry = bad[-1]["state"] in (CallState.FAILED, CallState.DENIED)
        return Ended(FlowStepState.FAILED, why=_why(bad[-1], state), may_retry=retry)
    if state.get("outcome") == "finish":
        return _without_call(step, state, flow)
    if isinstance(step, LoopStep) or (isinstance(step, ToolStep) and flow["turns"] < step.tries):
        return None
    return Ended(FlowStepState.FAILED, why=_why(mine[-1], state) if mine else _no_call(state))


def _calls_of(step: Step, names: Container[str], state: RunState, flow: FlowState) -> list[Call]:
    """The newest calls, where they are those of the step in hand. A free loop does not end by a call."""
    if isinstance(step, LoopStep) or newest_said(state) == flow["said"]:
        return []
    return [one for one in state["calls"] if one["name"] in names]


def _without_call(step: Step, state: RunState, flow: FlowState) -> Ended | None:
    """The model's turn held no call, or a limit stopped it."""
    reason = state.get("stop_reason")
    if reason != StopReason.ANSWERED:
        return Ended(FlowStepState.FAILED, why=reason or StopReason.CANCELLED.value)
    if isinstance(step, LoopStep):
        return Ended(FlowStepState.DONE, {"message": str(last_assistant(state["messages"]).id)})
    if isinstance(step, ToolStep) and step.without_call == "ask" and flow["turns"] < step.tries:
        return None
    return Ended(FlowStepState.STOPPED, why=_no_call(state))


def newest_said(state: RunState) -> str:
    """The id of the newest message that is the model's, or the flow's own; empty: there is none."""
    said = (str(one.id) for one in reversed(state["messages"]) if isinstance(one, AIMessage))
    return next(said, "")


def value_of(brought: Brought, by_id: Mapping[str | None, AnyMessage]) -> Any:
    """What a step brought: of a free loop its words, else the data of its call."""
    if "text" in brought:
        return brought["text"]
    message = by_id.get(brought["message"])
    return str(message.text) if isinstance(message, AIMessage) else _observation(message).get("data")


def _told(call: Call, state: RunState) -> ToolMessage:
    found = (
        one
        for one in reversed(state["messages"])
        if isinstance(one, ToolMessage) and one.tool_call_id == call["id"]
    )
    return next(found)


def _why(call: Call, state: RunState) -> str:
    return str(_observation(_told(call, state)).get("message", call["state"]))


def _no_call(state: RunState) -> str:
    return say("flow.no_call", state.get("language", "en"))


def _observation(message: AnyMessage | None) -> Mapping[str, Any]:
    told = json.loads(str(message.text)) if message is not None else None
    return told if isinstance(told, dict) else {}
