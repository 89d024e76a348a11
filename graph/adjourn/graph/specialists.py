"""Which specialists a graph has: they travel with its `delegate` tool."""

from collections.abc import Mapping
from dataclasses import dataclass

from adjourn.graph.react import Graph, tools_of
from adjourn.nodes.delegation import DELEGATE


@dataclass(frozen=True, slots=True)
class Specialists:
    """The graphs of a supervisor's specialists by name, what each is good at, and how many tasks may be handed out."""

    graphs: Mapping[str, Graph]
    about: Mapping[str, str]
    max_delegations: int

    @property
    def depth(self) -> int:
        """How many levels there are below the supervisor."""
        below = [specialists_of(one) for one in self.graphs.values()]
        return 1 + max((one.depth for one in below if one is not None), default=0)


def specialists_of(graph: Graph) -> Specialists | None:
    """Those of a graph that `build_supervisor` made; None: it has none."""
    tool = tools_of(graph).get(DELEGATE)
    behind = None if tool is None else tool.delegates
    return behind if isinstance(behind, Specialists) else None
