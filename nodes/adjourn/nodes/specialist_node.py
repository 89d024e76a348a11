"""SpecialistNode: hands a task to one specialist, as a node of somebody's own graph (C-79, C-80).

What `delegate` does for a model, this node does for a graph without one. The specialist is a run of its own, whose id
derives from LangGraph's task, so that it is found again; its questions come up to this run, and the node runs again until
there is an answer.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes.delegation import DELEGATED
from adjourn.nodes.run_context import run_context

ToTask = Callable[[Any], str]
"""From the state of the graph to the task, with all that the specialist has to know."""

FromAnswer = Callable[[str], Any]
"""From the specialist's answer to what the node writes."""


class SpecialistNode:
    """Hands a task to a specialist and writes its answer.

    `task` None: the text of the newest user message; `write` None: the answer as an assistant message in `messages`. A
    specialist that has no answer fails the run with the reason, and whoever resumes it lets the specialist try again.
    `behind` is kept with it, for the runner.
    """

    def __init__(
        self, name: str, behind: Any, *, task: ToTask | None = None, write: FromAnswer | None = None
    ) -> None:
        self.name = name
        self.delegates = behind
        self.task = task or _said
        self.write = write or _as_message

    async def __call__(self, state: Any, config: RunnableConfig) -> Any:
        children = run_context(config).children
        if children is None:
            raise UsageError("specialists need a runner; drive this graph with adjourn.graph.Runner")
        task, place, agreed = self.task(state), _place(config), False
        while True:  # each turn asks one more question of this node; those that were answered return at once
            brought = await children.work(self.name, task, step=0, call_id=place, agreed=agreed)
            if not _asks(brought):
                return self.write(str(brought["answer"]))
            if brought["interruptType"] == DELEGATED:
                interrupt({"questions": [_stands_for(place)]})
            else:  # whether it may work at all
                agreed = interrupt(brought["reason"], response_schema={"type": "boolean"}) is True
                if not agreed:
                    raise UsageError(f"{self.name} may not work: a person said no")


def _place(config: RunnableConfig) -> str:
    """Which task of the graph this is: the same when it runs again, another one when the graph comes here again."""
    where = str(config.get("configurable", {}).get("checkpoint_ns", ""))
    return f"node_{hashlib.sha256(where.encode()).hexdigest()[:16]}"


def _asks(brought: Any) -> bool:
    return isinstance(brought, Mapping) and brought.get("interrupt") is True


def _stands_for(place: str) -> dict[str, Any]:
    """What LangGraph is told while the specialist's own questions are open; no row has it."""
    return {"id": place, "call_id": place, "type": DELEGATED, "response_schema": {}}


def _said(state: Any) -> str:
    messages = state["messages"]
    return next(str(one.text) for one in reversed(messages) if isinstance(one, HumanMessage))


def _as_message(answer: str) -> dict[str, Any]:
    return {"messages": [AIMessage(answer)]}
