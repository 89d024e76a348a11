"""`RunState`, the one record that all nodes read and return.

Everything but the messages is plain JSON data, so that a checkpoint reads without Python. Nodes return
only the keys that they change: each returned key is a channel that is written again.
"""

import operator
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, BaseMessageChunk, RemoveMessage
from langgraph.graph.message import add_messages

from adjourn.nodes.calls import Call
from adjourn.nodes.counters import Counters, kept, log_of, new_counters
from adjourn.nodes.flow_state import FlowState

Route = Literal["model", "tools", "ask", "finish"]


class RunState(TypedDict, total=False):
    """The state of a run. A new run on the thread resets everything but `messages`."""

    messages: Annotated[list[AnyMessage], add_messages]
    run_id: str
    step: int  # model calls so far
    calls: list[Call]  # the plan of the current step
    outcome: Route  # where the last node wants to go
    stop_reason: str | None
    note: str | None  # what the runtime tells the model in the next request only
    counters: Counters  # what the run has spent and done so far: see `counters_of`
    tried: Annotated[list[str], log_of]  # its calls, for `repeats.py`
    flow: FlowState  # where a flow stands; free loops have none
    language: str  # of the texts that users and the model see: "en" or "zh"


def put_behind(left: Any, right: Any) -> Any:
    """LangGraph's `add_messages`, without its look at every message of a conversation each time: messages that are all
    new are put behind the others."""
    new = right if isinstance(right, list) else [right]
    ids = {one.id for one in new if isinstance(one, BaseMessage) and not isinstance(one, _NOT_AS_IT_IS)}
    if len(ids) < len(new) or None in ids or not _are_others(left, ids):
        return add_messages(left, right)
    return [*left, *new]


def _are_others(messages: Any, ids: set[str | None]) -> bool:
    """Whether these are messages that all have ids, none of them among `ids`."""
    try:
        return (ids | {None}).isdisjoint(map(_id_of, messages))
    except (AttributeError, TypeError):  # `Overwrite` takes what it is given
        return False


_id_of = operator.attrgetter("id")
_NOT_AS_IT_IS = (RemoveMessage, BaseMessageChunk)  # one takes others away, the other becomes a message


class LongState(RunState, total=False):
    """`RunState` of a graph that a builder of ours joined. Graphs that people join by hand keep LangGraph's own reducer."""

    messages: Annotated[list[AnyMessage], put_behind]


FRESH: RunState = {
    "step": 0,
    "calls": [],
    "outcome": "model",
    "stop_reason": None,
    "note": None,
    "counters": kept(new_counters()),
    "tried": None,  # type: ignore[typeddict-item]  # what `log_of` takes for a beginning
}


def last_assistant(messages: list[AnyMessage]) -> AIMessage:
    """The newest assistant message. Raises `LookupError` when there is none."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message
    raise LookupError("the history holds no assistant message")
