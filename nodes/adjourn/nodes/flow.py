"""FlowNode: goes through the steps of a flow, as its table says.

The model and tools nodes work inside a step; whenever they have done their part they come back here (`flow_advance`).
Functions and approvals are calls that this node makes itself: they are planned, judged, agreed to and written down like
those of a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import Effect
from adjourn.nodes.counters import counters_of
from adjourn.nodes.flow_advance import Advance, ask_person
from adjourn.nodes.flow_table import (
    ApprovalStep,
    FlowTable,
    FunctionStep,
    GraphStep,
    LoopStep,
    ToolStep,
)
from adjourn.nodes.foreign import as_tool
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.run_context import check_of_its_run, run_context
from adjourn.nodes.standing import standing_of
from adjourn.nodes.state import RunState
from adjourn.nodes.tool import Tool, tool
from adjourn.nodes.tool_search import find_tool, searched


class FlowNode:
    """Goes through a flow. Returns `model`, `tools` or `finish` as its outcome.

    `tools` are those of all steps, those that stand for functions and approvals included. `graphs` are those that stand
    for the graphs of `GraphStep`s, by the name of the step.
    """

    def __init__(
        self,
        table: FlowTable,
        *,
        limits: Limits,
        masker: Masker | None = None,
        closing: bool = True,
        graphs: Mapping[str, Tool] | None = None,
    ) -> None:
        self.table = table
        self.limits = limits
        self.masker = masker or Masker()
        self.closing = closing
        self.own: dict[str, Tool] = {}  # step -> what stands for its function or approval
        self.of_step: dict[str, Sequence[Tool]] = {}  # step -> what the model is shown
        made: dict[int, Tool] = {}

        def known(one: Any) -> Tool:  # several steps may have the same one
            return made[id(one)] if id(one) in made else made.setdefault(id(one), as_tool(one))

        for name, step in table.steps.items():
            if isinstance(step, FunctionStep):
                self.own[name] = _without_secrets_of_steps(known(step.function), name, table)
            elif isinstance(step, GraphStep):
                self.own[name] = (graphs or {})[name]
            elif isinstance(step, ApprovalStep):
                self.own[name] = _approval(step)
            elif isinstance(step, ToolStep):
                self.of_step[name] = [known(step.tool)]
            elif isinstance(step, LoopStep):
                self.of_step[name] = [known(one) for one in step.tools]
        self._searched()

    def _searched(self) -> None:
        """A free loop with many tools finds them by a search; each finds its own alone (C-89)."""
        many = [name for name, tools in self.of_step.items() if searched(tools)]
        if not many:
            return
        search = find_tool(one for name in many for one in self.of_step[name])
        for name in many:
            self.of_step[name] = [search, *self.of_step[name]]

    @property
    def tools(self) -> list[Tool]:
        """Each tool once."""
        asks = any(
            isinstance(one, ToolStep) and one.without_call == "ask" for one in self.table.steps.values()
        )
        all_of_them = [*self.own.values(), *(one for many in self.of_step.values() for one in many)]
        return list({id(one): one for one in [*all_of_them, *([ask_person] if asks else [])]}.values())

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        run, counters = run_context(config), counters_of(state)
        check_of_its_run(state, run)
        run.clock.at_least(counters["active_ms"])
        standing = await standing_of(counters, 0, run, self._counting())
        return Advance(self, state, run, standing).go()

    def _counting(self) -> Limits:
        """Limits that count what child runs spend, where any do."""
        loops = [one.limits for one in self.table.steps.values() if isinstance(one, LoopStep)]
        return next((one for one in loops if one.counts_children()), self.limits)


def _without_secrets_of_steps(own: Tool, name: str, table: FlowTable) -> Tool:
    """The tool; raises `UsageError` where a result would have to be its secret: that comes from a person alone (C-73)."""
    filled = [one for one in own.secret if one == "message" or one in table.steps]
    if filled:
        raise UsageError(
            f"step {name}: its secret parameter {filled[0]!r} is called like what a flow fills by itself; a secret comes "
            "from a person alone, so give one of them another name"
        )
    return own


def _approval(step: ApprovalStep) -> Tool:
    """A call that does nothing but wait for agreement."""

    def agreed(question: str) -> dict[str, str]:
        return {"agreed": question}

    return tool(
        name=step.name,
        description=step.shown,
        effect=Effect.READ,
        confirm="{question}",
        approvers=step.approvers,
        expires_in_s=step.expires_in_s,
        repeatable=True,
    )(agreed)
