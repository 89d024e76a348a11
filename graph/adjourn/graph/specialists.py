"""Which specialists a graph has: they travel with its `delegate` tool, or with the nodes that hand tasks to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.graph_parts import Graph, nodes_of, tools_of
from adjourn.nodes.specialist_node import SpecialistNode
from adjourn.nodes.tool import Tool

Check = Callable[[str], str | None]
"""Told an answer, says what is wrong with it; None: nothing is."""


@dataclass(frozen=True, slots=True)
class Specialists:
    """The graphs of a supervisor's specialists by name, what each is good at, and how many tasks may be handed out.

    `max_delegations` None: their table says when they work, as that of a flow does; then they are `uncounted`.
    """

    graphs: Mapping[str, Graph]
    about: Mapping[str, str]
    max_delegations: int | None
    checks: Mapping[str, Check] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()

    @property
    def depth(self) -> int:
        """How many levels there are below the supervisor."""
        below = [specialists_of(one) for one in self.graphs.values()]
        return 1 + max((one.depth for one in below if one is not None), default=0)


def specialists_of(graph: Graph) -> Specialists | None:
    """Those that a graph's tools and nodes hand tasks to; None: it has none.

    Raises `UsageError` for two specialists of one name: their runs are found again by it.
    """
    handing: list[Tool | SpecialistNode] = [*tools_of(graph).values(), *nodes_of(graph, SpecialistNode)]
    found = [one.delegates for one in handing if isinstance(one.delegates, Specialists)]
    known: dict[str, Graph] = {}
    for name, below in ((name, below) for one in found for name, below in one.graphs.items()):
        if known.setdefault(name, below) is not below:
            raise UsageError(f"two specialists are called {name!r}; a run finds them again by name")
    if not found:
        return None
    uncounted = [name for one in found if one.max_delegations is None for name in one.graphs]
    return Specialists(
        known,
        {name: about for one in found for name, about in one.about.items()},
        max((one.max_delegations for one in found if one.max_delegations is not None), default=None),
        {name: check for one in found for name, check in one.checks.items()},
        frozenset(uncounted),
    )
