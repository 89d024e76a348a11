"""Which runs are to be driven next: those that nobody drives, in their order, within the shares of people and graphs.

The table of runs is the queue. What is said here may be old a moment later: who takes a run claims it (`leases`), and
whoever comes second is refused.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, RowMapping, or_, select

from adjourn.checkpoints.compiled import word
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import StoredDataError
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import RunRow, whole
from adjourn.checkpoints.run_schema import runs

_works = runs.c.status == word(RunStatus.RUNNING)  # there is an index of these runs alone
_order = runs.c.priority.desc(), runs.c.created_at, runs.c.id


def unowned(
    connection: Connection,
    *,
    graph: str,
    limit: int | None = None,
    most_per_person: int | None = None,
    most_per_graph: int | None = None,
    taken: Collection[str] = (),
    apart: Collection[str] = (),
    damaged: list[StoredDataError] | None = None,
) -> list[RunRow]:
    """The running runs of a graph that nobody drives: never taken, handed back, or their lease has run out.

    The highest priority first, then the oldest. Those that work for another run are taken over with it.

    - `most_per_person`: how many runs of one person (`started_by`) may be driven at once, whoever drives them; runs
      beyond that are left out. Runs without a name have no such limit. None: no limit.
    - `most_per_graph`: the same for all runs of the graph.
    - `taken`: ids that the caller is about to claim. They are left out, and count as driven.
    - `apart`: ids that are left out.
    - `damaged`: where the errors of damaged rows are added, which are left out then; None: the first one is raised.
    """
    at = now()
    driven: Counter[str | None] = Counter()
    if most_per_person is not None or most_per_graph is not None:
        driven.update(_driven(connection, graph, at, taken))
    if most_per_graph is not None:
        room = max(0, most_per_graph - driven.total())
        limit = room if limit is None else min(limit, room)

    def has_its_share(person: str | None) -> bool:
        return person is not None and most_per_person is not None and driven[person] >= most_per_person

    found: list[RunRow] = []
    bad: list[StoredDataError] | None = None if damaged is None else []
    while limit is None or len(found) < limit:
        wanted = None if limit is None else limit - len(found)
        without = [*taken, *apart, *(one.id for one in found), *(one.key for one in bad or ())]
        full = [one for one in driven if one is not None and has_its_share(one)]
        rows = _page(connection, graph, at, without=without, full=full, limit=wanted)
        for one in whole(rows, RunRow.of, bad):
            if not has_its_share(one.started_by):  # by those before it on this page
                driven[one.started_by] += 1
                found.append(one)
        if wanted is None or len(rows) < wanted:
            break
    if damaged is not None:
        damaged += bad or ()
    return found


def _page(
    connection: Connection,
    graph: str,
    at: str,
    *,
    without: Collection[str],
    full: Sequence[str],
    limit: int | None,
) -> Sequence[RowMapping]:
    """The next ones, without these runs and these people's."""
    free = or_(runs.c.lease_until.is_(None), runs.c.lease_until < at)
    query = select(runs).where(_works, runs.c.graph == graph, runs.c.parent_run_id.is_(None), free)
    if without:
        query = query.where(runs.c.id.not_in(without))
    if full:
        query = query.where(or_(runs.c.started_by.is_(None), runs.c.started_by.not_in(full)))
    return connection.execute(query.order_by(*_order).limit(limit)).mappings().all()


def _driven(connection: Connection, graph: str, at: str, taken: Collection[str]) -> list[str | None]:
    """Who started the runs that are driven now, and those that are about to be: one entry each."""
    mine = select(runs.c.id, runs.c.started_by).where(_works, runs.c.parent_run_id.is_(None))
    held = mine.where(runs.c.graph == graph, runs.c.lease_owner.is_not(None), runs.c.lease_until >= at)
    found = {row.id: row.started_by for row in connection.execute(held)}
    if missing := [one for one in taken if one not in found]:
        found |= {row.id: row.started_by for row in connection.execute(mine.where(runs.c.id.in_(missing)))}
    return list(found.values())
