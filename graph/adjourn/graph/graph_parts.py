"""What a compiled graph is made of: its nodes of a kind, and what they carry; its schemas and its signature."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from langgraph.graph.state import CompiledStateGraph

from adjourn.graph.may_answer import MayAnswer
from adjourn.nodes.ask import AskNode
from adjourn.nodes.flow import FlowNode
from adjourn.nodes.flow_table import FlowTable
from adjourn.nodes.guards import Limits
from adjourn.nodes.masking import Masker
from adjourn.nodes.model import ModelNode
from adjourn.nodes.own_graph import OwnGraphNode
from adjourn.nodes.permission import Permission
from adjourn.nodes.tool import Tool
from adjourn.nodes.tools import ToolsNode

Graph = CompiledStateGraph[Any, Any, Any, Any]


def tools_of(graph: Graph) -> Mapping[str, Tool]:
    """The tools of each `ToolsNode` in a graph, also one that somebody joined by hand."""
    return {name: one for node in nodes_of(graph, ToolsNode) for name, one in node.tools.items()}


def flow_of_graph(graph: Graph) -> FlowTable | None:
    """The table of a graph that is a flow; None: it is not one."""
    node = next(nodes_of(graph, FlowNode), None)
    return None if node is None else node.table


def own_node(graph: Graph) -> OwnGraphNode | None:
    """The node in which somebody's own graph runs; None: the graph has nodes of ours."""
    return next(nodes_of(graph, OwnGraphNode), None)


def masker_of(graph: Graph) -> Masker:
    """What the graph's `ToolsNode` masks by; the default rules where there is none."""
    return next((node.masker for node in nodes_of(graph, ToolsNode)), Masker())


def permission_of(graph: Graph) -> Permission:
    """The rule and the mode that the graph's `ToolsNode` asks; everything is allowed where there is none."""
    return next((node.permission for node in nodes_of(graph, ToolsNode)), Permission())


def limits_of(graph: Graph) -> Limits | None:
    """How far its runs may go, as its nodes say; None: none of them does."""
    kinds: tuple[type[FlowNode | ModelNode | OwnGraphNode], ...] = (FlowNode, ModelNode, OwnGraphNode)
    return next((node.limits for kind in kinds for node in nodes_of(graph, kind)), None)


def may_answer_of(graph: Graph) -> MayAnswer | None:
    """The rule of who may answer that the graph's `AskNode` carries; None: everybody."""
    return next((node.may_answer for node in nodes_of(graph, AskNode)), None)


N = TypeVar("N")


def nodes_of(graph: Graph, kind: type[N]) -> Iterator[N]:
    """The nodes of a kind in a graph and in the graphs that are nodes of it."""
    for one in graphs_in(graph):
        for node in _all_nodes(one):
            if isinstance(node, kind):
                yield node


def graphs_in(graph: Graph) -> Iterator[Graph]:
    """The graph, and the graphs that are nodes in it, at all depths."""
    yield graph
    for inner in _inner(graph):
        yield from graphs_in(inner)


def _all_nodes(graph: Graph) -> Iterator[Any]:
    """What stands behind each node."""
    for spec in graph.builder.nodes.values():
        seen: list[Any] = []
        for bound in (getattr(spec.runnable, "afunc", None), getattr(spec.runnable, "func", None)):
            node = getattr(bound, "__self__", bound)
            if node is not None and not any(node is one for one in seen):
                seen.append(node)
        yield from seen


def _inner(graph: Graph) -> Iterator[Graph]:
    """The graphs that are nodes of a graph."""
    for spec in graph.builder.nodes.values():
        if isinstance(spec.runnable, CompiledStateGraph):
            yield spec.runnable
    for node in _all_nodes(graph):
        if isinstance(node, OwnGraphNode):
            yield node.graph


def schemas_of(graph: Graph) -> list[Any]:
    """The schemas of the graph's state: the classes that they name survive a checkpoint."""
    builder = graph.builder
    nodes = [spec.input_schema for spec in builder.nodes.values()]
    inner = [schema for one in _inner(graph) for schema in schemas_of(one)]
    return [builder.state_schema, builder.input_schema, builder.output_schema, *nodes, *inner]


def signature_of(graph: Graph) -> str:
    """A hash of a graph's nodes, edges and tool schemas: runs store it, so that a changed graph is noticed."""
    tools = {name: one.for_model for name, one in sorted(tools_of(graph).items())}
    shape: dict[str, Any] = {
        "nodes": sorted(graph.builder.nodes),
        "edges": sorted(map(str, graph.builder.edges)),
        "tools": tools,
    }
    if inner := [signature_of(one) for one in _inner(graph)]:
        shape["inner"] = inner
    return hashlib.sha256(json.dumps(shape, sort_keys=True, default=str).encode()).hexdigest()[:16]
