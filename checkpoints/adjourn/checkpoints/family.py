"""Runs that work for other runs, inside a transaction of the caller's: who is below a run,
what they spent, and who is at the top."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import CTE, Connection, Select, bindparam, func, literal_column, or_, select, tuple_

from adjourn.checkpoints import journal
from adjourn.checkpoints.compiled import Asked, Statement, word
from adjourn.checkpoints.errors import RunNotFound, StoredDataError
from adjourn.checkpoints.lifecycle import InterruptState, RunStatus
from adjourn.checkpoints.records import Interrupt, RunRow, whole
from adjourn.checkpoints.run_schema import interrupts, runs

Place = tuple[str, str, int]
"""Where a question stands among all that are asked: its time, its run, and its number there."""

_children = Statement(
    lambda _: (
        select(runs.c.id)
        .where(runs.c.parent_run_id == bindparam("id_"))
        .order_by(runs.c.created_at, runs.c.id)
    )
)


DEEPEST = 100  # runs that work for each other: rows that somebody changed may say so without an end


def _tree() -> CTE:
    """The runs that work for a run, directly or through others: `id`, and `depth`, which is 1 for a direct one."""
    first = select(runs.c.id, literal_column("1").label("depth")).where(
        runs.c.parent_run_id == bindparam("id_")
    )
    found = first.cte("below", recursive=True)
    more = select(runs.c.id, found.c.depth + literal_column("1")).where(found.c.depth < DEEPEST)
    return found.union_all(more.where(runs.c.parent_run_id == found.c.id))


def _nearest_first() -> Select[*tuple[Any, ...]]:
    found = _tree()
    joined = select(runs.c.id, runs.c.status).join(found, found.c.id == runs.c.id)
    return joined.order_by(found.c.depth, runs.c.created_at, runs.c.id)


_below = Statement(lambda _: _nearest_first())
_spent_below = Statement(
    lambda _: select(
        func.coalesce(func.sum(runs.c.input_tokens + runs.c.output_tokens), 0),
        func.coalesce(func.sum(runs.c.cost), 0.0),
    ).where(runs.c.id.in_(select(_tree().c.id)))
)


def children(connection: Connection, run_id: str) -> Asked[list[str]]:
    """The runs that work for a run directly, oldest first."""
    asked = _children.ask(connection, {"id_": run_id})
    return lambda: [row["id"] for row in asked()]


def below(connection: Connection, run_id: str) -> list[str]:
    """The runs that work for a run, directly or through others: the nearest first, of equals the oldest."""
    return [row[0] for row in _below.rows(connection, {"id_": run_id})]


def live_below(connection: Connection, run_id: str) -> list[str]:
    """The runs below a run that have not ended, the farthest first: the order in which they can be ended."""
    ended = (RunStatus.FINISHED, RunStatus.CANCELLED)
    rows = _below.rows(connection, {"id_": run_id})
    return [one for one, status in reversed(rows) if status not in ended]


def spent_below(connection: Connection, run_id: str) -> tuple[int, float]:
    """Tokens and cost of all runs that work for this one, directly or through others."""
    row = _spent_below.first(connection, {"id_": run_id})
    return (0, 0.0) if row is None else (int(row[0]), float(row[1]))


def spent_with_below(connection: Connection, run_id: str) -> tuple[int, float]:
    """Tokens and cost of a run and of all that work for it. Raises `RunNotFound`."""
    run, (tokens, cost) = journal.read_run(connection, run_id), spent_below(connection, run_id)
    return run.input_tokens + run.output_tokens + tokens, run.cost + cost


def count_children(connection: Connection, run_id: str, *, but: Iterable[str] = ()) -> int:
    """How many runs were made to work for a run directly, without those at the paths `but`."""
    query = select(func.count()).where(runs.c.parent_run_id == run_id, runs.c.path.not_in([*but]))
    return int(connection.execute(query).scalar_one())


def top(connection: Connection, run: RunRow) -> RunRow:
    """The run that a run works for in the end: itself when it works for none.

    Raises `StoredDataError` when a run on the way is damaged, is not there, or works for itself.
    """
    met = {run.id}
    while (parent := run.parent_run_id) is not None:
        if parent in met:
            raise StoredDataError("runs", run.id, f"it works for run {parent}, which works for it")
        met.add(parent)
        try:
            run = journal.read_run(connection, parent)
        except RunNotFound:
            raise StoredDataError("runs", run.id, f"it works for run {parent}, which is not there") from None
    return run


def read_interrupts(
    connection: Connection, run_id: str, *, state: InterruptState | None = None
) -> Sequence[Interrupt]:
    """The questions of a run, then those of the runs below it."""
    found = list(journal.read_interrupts(connection, run_id, state=state))
    for one in below(connection, run_id):
        found += journal.read_interrupts(connection, one, state=state)
    return found


def asks(connection: Connection, run_id: str) -> bool:
    """Whether a run, or one below it, has an open question."""
    return _asks.first(connection, {"id_": run_id}) is not None


_asks = Statement(
    lambda _: (
        select(literal_column("1"))
        .select_from(interrupts)
        .where(
            interrupts.c.state == word(InterruptState.OPEN),
            or_(interrupts.c.run_id == bindparam("id_"), interrupts.c.run_id.in_(select(_tree().c.id))),
        )
        .limit(1)
    )
)


def open_questions(
    connection: Connection,
    graph: str,
    *,
    limit: int,
    behind: Place | None = None,
    damaged: list[StoredDataError] | None = None,
) -> tuple[list[tuple[RunRow, Interrupt]], Place | None]:
    """A page of the open questions of a graph's waiting runs and of those below them, the oldest first, `limit` at most.

    Each comes with the run at the top of its family, which shows the question and takes the answer. The second result is
    what the next page is `behind`; None: this page is the last. `damaged`: where the errors of damaged rows are added,
    whose questions are left out then; None: the first one is raised.
    """
    place = (interrupts.c.created_at, interrupts.c.run_id, interrupts.c.position)
    asking = (
        select(interrupts)
        .join(runs, runs.c.id == interrupts.c.run_id)
        .where(
            interrupts.c.state == InterruptState.OPEN.value,
            runs.c.status == RunStatus.INTERRUPTED.value,
            or_(runs.c.graph == graph, runs.c.parent_run_id.is_not(None)),
        )
        .order_by(*place)
        .limit(limit)
    )
    if behind is not None:
        asking = asking.where(tuple_(*place) > behind)
    rows = connection.execute(asking).mappings().all()
    asked = whole(rows, Interrupt.of, damaged)
    # at once: an inbox that is open asks every two seconds, and nearly all of them are at the top
    those = (
        connection.execute(select(runs).where(runs.c.id.in_({one.run_id for one in asked}))).mappings().all()
    )
    tops = dict(whole(those, lambda row: (row["id"], top(connection, RunRow.of(row))), damaged))
    found = []
    for question in asked:
        run = tops.get(question.run_id)
        if run is not None and run.graph == graph and run.status == RunStatus.INTERRUPTED:
            found.append((run, question))
    last = rows[-1] if len(rows) == limit else None
    return found, None if last is None else (last["created_at"], last["run_id"], last["position"])
