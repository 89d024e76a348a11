"""FlowModel and FlowTools: the model and tools nodes of a flow, which work in the way of the step in hand."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig

from adjourn.checkpoints.lifecycle import StopReason
from adjourn.nodes.flow import FlowNode
from adjourn.nodes.flow_advance import UNBOUNDED
from adjourn.nodes.flow_state import FlowState, flow_of
from adjourn.nodes.flow_table import FlowTable, LoopStep, Step
from adjourn.nodes.guards import Limits
from adjourn.nodes.model import ModelNode
from adjourn.nodes.state import RunState
from adjourn.nodes.tool import Tool
from adjourn.nodes.tools import ToolsNode


class FlowModel:
    """Asks the model in the way of the step in hand: with its tools alone, and within its limits."""

    def __init__(self, node: FlowNode, models: Mapping[str, ModelNode], closing: ModelNode) -> None:
        self.node = node
        self.models = models
        self.closing = closing

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        flow = flow_of(state)
        step = self.node.table.steps.get(flow["at"] or "")
        model = copy.copy(self.closing if step is None else self.models[step.name])
        model.limits = limits_in(step, flow, self.node.limits)
        result = await model(state, config)
        if result.get("stop_reason") == StopReason.MAX_STEPS:
            # in a flow more steps follow: the last word of a loop takes a number of its own
            result["step"] = state.get("step", 0) + 1
        return result


class FlowTools(ToolsNode):
    """Runs the calls of the step in hand within its limits."""

    def __init__(self, tools: Iterable[Tool], *, table: FlowTable, **settings: Any) -> None:
        super().__init__(tools, **settings)
        self.table = table

    async def __call__(self, state: RunState, config: RunnableConfig) -> RunState:
        flow = flow_of(state)
        tools = copy.copy(self)
        tools.limits = limits_in(self.table.steps.get(flow["at"] or ""), flow, self.limits)
        return await super(FlowTools, tools).__call__(state, config)


def limits_in(step: Step | None, flow: FlowState, whole: Limits) -> Limits:
    """The limits of the step in hand: a free loop's own, counted from its beginning, within those of the whole flow."""
    if not isinstance(step, LoopStep):
        return replace(whole, max_steps=UNBOUNDED)
    own, before = step.limits, flow["spent"]
    return replace(
        own,
        max_steps=flow["began"] + own.max_steps,
        max_active_s=_least(own.max_active_s, before["active_s"], whole.max_active_s),
        max_wall_s=_least(own.max_wall_s, before["wall_s"], whole.max_wall_s),
        max_total_tokens=_least(own.max_total_tokens, before["tokens"], whole.max_total_tokens),
        max_cost=_least(own.max_cost, before["cost"], whole.max_cost),
    )


def _least(own: Any, before: Any, whole: Any) -> Any:
    """The lower of a step's own limit, counted from its beginning, and that of the flow; None: no limit."""
    counted = None if own is None else before + own
    return min((value for value in (counted, whole) if value is not None), default=None)
