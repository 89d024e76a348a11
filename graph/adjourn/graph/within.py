"""What a run gets from the one that it works for: the gate of their family, a permission, and budgets (C-21, C-27, C-53)."""

from collections.abc import Sequence
from dataclasses import dataclass

from adjourn.checkpoints import family
from adjourn.checkpoints.database import Database
from adjourn.graph.graph_parts import Graph, limits_of, permission_of
from adjourn.nodes.delegation import Gate
from adjourn.nodes.guards import Limits
from adjourn.nodes.permission import Permission


@dataclass(frozen=True, slots=True)
class Budgets:
    """What the runs above may spend, each together with all that work for it. Implements the nodes' `Budgets`."""

    database: Database
    of: Sequence[tuple[str, Limits]] = ()

    async def are_spent(self) -> bool:
        """See `Budgets.are_spent`."""
        for run_id, limits in self.of:
            tokens, cost = await self.database.aread(
                lambda connection, one=run_id: family.spent_with_below(connection, one)  # type: ignore[misc]
            )
            if limits.is_spent(tokens, cost):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Within:
    """What holds for a run that works for others. `permission` is that of all runs above it; None: there are none."""

    gate: Gate
    permission: Permission | None = None
    budgets: Budgets | None = None

    def below(self, database: Database, run_id: str, graph: Graph) -> "Within":
        """What holds for those that work for this run."""
        limits, above = limits_of(graph), self.budgets.of if self.budgets is not None else ()
        of = [*above, (run_id, limits)] if limits is not None and limits.counts_children() else above
        permission = permission_of(graph).below(self.permission)
        return Within(self.gate, permission, Budgets(database, of) if of else None)
