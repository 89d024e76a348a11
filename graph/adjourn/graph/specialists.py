"""Which specialists a graph has: they travel with its `delegate` tool."""

from collections.abc import Mapping
from dataclasses import dataclass

from adjourn.checkpoints.errors import UsageError
from adjourn.graph.react import Graph, tools_of


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
    """Those that a graph's tools hand tasks to; None: it has none.

    Raises `UsageError` for two specialists of one name: their runs are found again by it.
    """
    found = [one.delegates for one in tools_of(graph).values() if isinstance(one.delegates, Specialists)]
    known: dict[str, Graph] = {}
    for name, below in ((name, below) for one in found for name, below in one.graphs.items()):
        if known.setdefault(name, below) is not below:
            raise UsageError(f"two specialists are called {name!r}; a run finds them again by name")
    if len(found) <= 1:
        return found[0] if found else None
    return Specialists(
        {name: below for one in found for name, below in one.graphs.items()},
        {name: about for one in found for name, about in one.about.items()},
        max(one.max_delegations for one in found),
    )
