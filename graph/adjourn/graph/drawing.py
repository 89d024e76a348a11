"""What a graph does, as a mermaid diagram: its flow, its specialists, or the machine of the free loop."""

from collections.abc import Iterator

from adjourn.graph import routes
from adjourn.graph.graph_parts import Graph, flow_of_graph, own_node
from adjourn.graph.specialists import Specialists, specialists_of


def drawing_of(graph: Graph) -> str:
    """The diagram of a graph that one of the builders made; of any other graph, LangGraph's own."""
    names, own = set(graph.builder.nodes), own_node(graph)
    flow = flow_of_graph(graph) if names == set(routes.SERIAL) else None
    if flow is not None:
        return flow.mermaid()
    if names == set(routes.ROUTES):
        team = specialists_of(graph)
        return (
            routes.mermaid()
            if team is None
            else "\n".join(["flowchart TD", *_team(graph.get_name(), team, "top")])
        )
    shown = graph if own is None else own.graph
    return str(shown.get_graph().draw_mermaid())


def _team(name: str, team: Specialists, node: str) -> Iterator[str]:
    """A supervisor, and each of its specialists as a node that a task goes to and an answer comes from."""
    yield f'    {node}["{name}"]'
    for place, (one, graph) in enumerate(team.graphs.items()):
        child = f"{node}_{place}"
        below = specialists_of(graph)
        if below is None:
            yield f'    {child}("{one}")'
        else:
            yield from _team(one, below, child)
        yield f"    {node} -->|task| {child}"
        yield f"    {child} -.->|answer| {node}"
