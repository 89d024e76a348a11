"""`RunState`, the one record that all nodes read and return.

Everything but the messages is plain JSON data, so that a checkpoint reads without Python. Nodes return
only the keys that they change: each returned key is a channel that is written again.
"""

from typing import Annotated, Literal, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph.message import add_messages

from adjourn.nodes.calls import Call

Outcome = Literal["model", "tools", "ask", "finish"]


class RunState(TypedDict, total=False):
    """The state of a run. A new run on the thread resets everything but `messages`."""

    messages: Annotated[list[AnyMessage], add_messages]
    run_id: str
    step: int  # model calls so far
    calls: list[Call]  # the plan of the current step
    outcome: Outcome  # where the last node wants to go
    stop_reason: str | None
    note: str | None  # what the runtime tells the model in the next request only
    protocol_errors: int  # refused turns in a row
    language: str  # of the texts that users and the model see: "en" or "zh"


FRESH: RunState = {
    "step": 0,
    "calls": [],
    "outcome": "model",
    "stop_reason": None,
    "note": None,
    "protocol_errors": 0,
}


def last_assistant(messages: list[AnyMessage]) -> AIMessage:
    """The newest assistant message. Raises `LookupError` when there is none."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message
    raise LookupError("the history holds no assistant message")
