"""LangGraph graphs of somebody's own, made into graphs that a `Runner` drives: at the top, as a specialist, as a step."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from langgraph.graph.state import CompiledStateGraph

from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.lifecycle import Effect
from adjourn.graph.graph_parts import Graph, graphs_in, nodes_of, own_node
from adjourn.graph.react import Shown, join
from adjourn.graph.routes import OWN, OWN_START, Node
from adjourn.nodes.finish import FinishNode
from adjourn.nodes.flow import FlowNode
from adjourn.nodes.guards import Limits
from adjourn.nodes.model import ModelNode
from adjourn.nodes.own_graph import GiveOut, OwnGraphNode, TakeIn
from adjourn.nodes.specialist_node import SpecialistNode
from adjourn.nodes.spending import Prices
from adjourn.nodes.tools import ToolsNode

_OURS = ("messages", "run_id", "stop_reason")  # channels that each graph with nodes of ours has


def from_langgraph(
    graph: Any,
    *,
    input: TakeIn | None = None,
    output: GiveOut | None = None,
    effect: Literal["read", "write"] = "write",
    limits: Limits | None = None,
    prices: Prices | None = None,
    name: str | None = None,
) -> Graph:
    """A compiled LangGraph graph of one's own, as one that a `Runner`, a `Specialist` or a `GraphStep` takes.

    - `graph`: any `StateGraph` compiled without a checkpointer: the runner brings the store.
    - `input`: from what the graph is asked to do to its input; None: `{"messages": [...]}`, the conversation.
    - `output`: from its last values to its answer, a text or JSON data; None: the text of the last assistant message.
    - `effect`: what it may do to the world. `read` runs beside others and where a run is read-only; `write` does not.
    - `limits`: `max_steps` counts its model calls; time, tokens and cost hold too. The other limits are for calls,
      which such a graph has none of that could be seen.
    - `prices`: those of its models, by their names (C-53).
    - `name`: stored with its runs; None: the graph's.

    Its runs have rows, events and questions like any other; LangGraph's `interrupt()` in its nodes is a question. What
    its nodes have done is kept by LangGraph's checkpoints: a node that was killed or interrupted runs again from its
    beginning. The `store` and the `cache` that it was compiled with are its own. Raises `UsageError` for a graph without
    `messages` where a mapping is missing, one with a checkpointer or with breakpoints, and one whose nodes are Adjourn's
    though its state is not.
    """
    _check(graph, input, output)
    below = list(nodes_of(graph, SpecialistNode))
    work = OwnGraphNode(
        graph,
        limits=limits,
        prices=prices,
        take_in=input,
        give_out=output,
        effect=Effect(effect),
        hands_on=bool(below),
    )
    nodes: Mapping[Node, Any] = {"work": work, "finish": FinishNode()}
    made = join(nodes, name=name or graph.get_name(), table=OWN, start=OWN_START)
    # a graph inside another one gets those of the outer one
    made.store, made.cache = graph.store, graph.cache
    return made


def adopted(graph: Any, *, limits: Limits | None = None) -> Graph:
    """The graph itself where it has nodes of ours, else what `from_langgraph` makes of it.

    Raises `UsageError` for what is no graph that can be driven.
    """
    channels = graph.builder.channels if isinstance(graph, CompiledStateGraph) else {}
    if not all(one in channels for one in _OURS):
        return from_langgraph(graph, limits=limits)
    _check_breakpoints(graph)
    if len(list(nodes_of(graph, FlowNode))) > 1:
        raise UsageError(
            "a run has one flow, and this graph has two; let each be a run of its own: "
            "add_node(name, Specialist(name=..., about=..., graph=...).as_node())"
        )
    return cast(Graph, graph)


def is_ours_alone(graph: Graph) -> bool:
    """Whether all nodes are ours: they put new messages in place of old ones, and change none."""
    return isinstance(graph, Shown) and own_node(graph) is None


def _check(graph: Any, take_in: TakeIn | None, give_out: GiveOut | None) -> None:
    if not isinstance(graph, CompiledStateGraph):
        raise UsageError(f"{graph!r} is no compiled graph; give what StateGraph(...).compile() returns")
    if graph.checkpointer is not None:
        raise UsageError("compile the graph without a checkpointer: the runner brings the store")
    _check_breakpoints(graph)
    if "messages" not in graph.builder.channels and (take_in is None or give_out is None):
        raise UsageError(
            f"graph {graph.get_name()!r} has no channel `messages`; say with from_langgraph(graph, input=..., output=...) "
            "what it is given and what its answer is"
        )
    kinds = (ModelNode, ToolsNode, FlowNode)
    if any(True for kind in kinds for _ in nodes_of(graph, kind)):
        raise UsageError(
            f"graph {graph.get_name()!r} has nodes of Adjourn in a state that is not RunState: use RunState, or let what "
            "has them be a run of its own: add_node(name, Specialist(name=..., about=..., graph=...).as_node())"
        )


def _check_breakpoints(graph: Any) -> None:
    """A breakpoint stops a graph without a question: nobody would be asked, and nothing could go on."""
    if any(one.interrupt_before_nodes or one.interrupt_after_nodes for one in graphs_in(graph)):
        raise UsageError(
            f"graph {graph.get_name()!r} has breakpoints (interrupt_before, interrupt_after), which ask nobody anything: "
            "compile it without them, and call interrupt(...) in the node that has to wait"
        )
