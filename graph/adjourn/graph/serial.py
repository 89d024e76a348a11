"""`build_serial`: first A, then B. The order is kept by a table, whatever the model says (C-77 to C-79)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from adjourn.graph.graph_parts import Graph
from adjourn.graph.may_answer import MayAnswer
from adjourn.graph.own_graphs import adopted
from adjourn.graph.react import distinct, join
from adjourn.graph.routes import SERIAL, SERIAL_START, Node
from adjourn.graph.specialists import Specialists, specialists_of
from adjourn.graph.supervisor import DEPTH, check_depth
from adjourn.nodes.ask import AskNode
from adjourn.nodes.delegation import step_tool
from adjourn.nodes.finish import FinishNode
from adjourn.nodes.flow import FlowNode
from adjourn.nodes.flow_model import FlowModel, FlowTools
from adjourn.nodes.flow_table import FlowTable, GraphStep, Step, ToolStep
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.model import Choose, ModelNode
from adjourn.nodes.models import chat_model
from adjourn.nodes.permission import Mode, Permission, Rule
from adjourn.nodes.requesting import Prompt
from adjourn.nodes.spending import Prices
from adjourn.nodes.tool import Tool

FLOW_LIMITS = Limits(max_steps=50)  # model turns of a whole flow: four times those of a free loop


def build_serial(
    model: BaseChatModel | str,
    steps: Iterable[Step],
    *,
    fallbacks: Sequence[BaseChatModel | str] = (),
    limits: Limits = FLOW_LIMITS,
    prices: Prices | None = None,
    choose_model: Choose | None = None,
    system_prompt: Prompt | None = None,
    max_history_tokens: int | None = None,
    masker: Masker | None = None,
    permission: Rule | None = None,
    mode: Mode | str = Mode.DEFAULT,
    may_answer: MayAnswer | None = None,
    closing: bool = True,
    name: str = "serial",
) -> Graph:
    """A compiled LangGraph graph that goes through `steps` in their order.

    - `steps`: `ToolStep`, `LoopStep`, `FunctionStep`, `GraphStep`, `ApprovalStep`, `BranchStep` of `adjourn.nodes`.
    - `limits`: of the whole flow; `max_steps` counts model turns. A `LoopStep` has its own besides.
    - `closing`: the model is asked, with no tools, to tell what was done; False: a fixed sentence does.
    - the others are those of `build_react`.

    A run whose flow stops before its end is `finished` all the same, with a message that says where and why: with
    `too_many_fails` when a step failed or people said no, with `answered` when the model spoke in place of calling
    its tool. `flow_steps` holds how each step ended. Raises `UsageError` for steps that could not go in order.
    """
    table, hides = FlowTable(steps), masker or Masker()
    flow = FlowNode(table, limits=limits, masker=hides, closing=closing, graphs=_graphs(table))
    known = distinct(flow.tools)
    asked = chat_model(model)
    others = [chat_model(one) for one in fallbacks]

    def model_node(tools: Sequence[Any], step: Step | None) -> ModelNode:
        return ModelNode(
            asked,
            tools,
            fallbacks=others,
            prices=prices,
            choose_model=choose_model,
            system_prompt=system_prompt,
            max_history_tokens=max_history_tokens,
            limits=limits,
            masker=hides,
            serial=isinstance(step, ToolStep),
            forced=isinstance(step, ToolStep) and step.forced,
        )

    models = {one: model_node(tools, table.steps[one]) for one, tools in flow.of_step.items()}
    nodes: Mapping[Node, Any] = {
        "flow": flow,
        "model": FlowModel(flow, models, model_node((), None)),
        "tools": FlowTools(
            known, table=table, limits=limits, permission=Permission(permission, Mode(mode)), masker=hides
        ),
        "ask": AskNode(masker=hides, may_answer=may_answer),
        "finish": FinishNode(),
    }
    made = join(nodes, name=name, table=SERIAL, start=SERIAL_START)
    specialists_of(made)  # no two that tasks are handed to may have one name
    return made


def _graphs(table: FlowTable) -> dict[str, Tool]:
    """What stands for the graphs of the steps in which one works."""
    made = {}
    for name, step in table.steps.items():
        if isinstance(step, GraphStep):
            graph = adopted(step.graph)
            behind = Specialists({name: graph}, {name: step.shown}, None)
            check_depth(behind, DEPTH)
            made[name] = step_tool(name, step.shown, behind)
    return made
