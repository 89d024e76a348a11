"""How a store stands now: what works, what waits for whom, what was lost. For `adjourn doctor` and for monitoring.

Counts only. Each is one statement over an index or over the table of runs, some tens of milliseconds for a hundred
thousand runs. Runs that work for another run are counted with it, and not by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Row, func, select

from adjourn.checkpoints.database import now
from adjourn.checkpoints.lifecycle import CallState, InterruptState, RunStatus
from adjourn.checkpoints.run_schema import calls, interrupts, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """The runs of a store, or of one graph in it.

    - `runs`: how many of each status. Of the `running` ones, `working` have an owner whose lease holds, `queued` wait
      for somebody to drive them, the longest for `queued_s` seconds (0: none waits), and `dead` lost their owner.
      `dying`: those that have lost one before.
    - `questions`: how many are open; `overdue` ones among them have passed their time, and nobody has looked.
    """

    runs: dict[str, int]
    working: int
    queued: int
    queued_s: float
    dead: int
    dying: int
    questions: int
    overdue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What all runs that are kept did, specialists' included: calls by outcome, and sums of what was spent."""

    calls: dict[str, int]
    steps: int
    input_tokens: int
    output_tokens: int
    cost: float


def read_store_figures(connection: Connection, graph: str | None = None) -> StoreFigures:
    """How the store stands; `graph`: only its runs. Questions are always those of the whole store."""
    at = now()
    mine = [] if graph is None else [runs.c.graph == graph]
    top = [*mine, runs.c.parent_run_id.is_(None)]
    running = [*top, runs.c.status == RunStatus.RUNNING.value]

    def count(*where: ColumnElement[bool]) -> int:
        return int(
            connection.execute(select(func.count()).select_from(runs).where(*running, *where)).scalar_one()
        )

    waiting_since = connection.execute(
        select(func.min(runs.c.updated_at)).where(*running, runs.c.lease_until.is_(None))
    ).scalar_one()
    opened = interrupts.c.state == InterruptState.OPEN.value
    questions, overdue = (
        connection.execute(select(func.count()).select_from(interrupts).where(opened, *more)).scalar_one()
        for more in ((), (interrupts.c.expires_at <= at,))
    )
    return StoreFigures(
        runs={one.value: 0 for one in RunStatus} | _statuses(connection, graph),
        working=count(runs.c.lease_until >= at),
        queued=count(runs.c.lease_until.is_(None)),
        queued_s=_seconds(waiting_since, at),
        dead=count(runs.c.lease_until < at),
        dying=count(runs.c.deaths > 0),
        questions=questions,
        overdue=overdue,
    )


def _statuses(connection: Connection, graph: str | None) -> dict[str, int]:
    """How many runs of each status, without those that work for others."""
    if graph is not None:
        mine = select(runs.c.status, func.count()).where(
            runs.c.graph == graph, runs.c.parent_run_id.is_(None)
        )
        return _by_word(connection.execute(mine.group_by(runs.c.status)).all())
    # One index has the statuses of all runs, and a small one those that work for others: no row of the others is read.
    # Grouped by the plain column, SQLite would read them all to have the groups in order.
    all_of_them = select(runs.c.status, func.count()).group_by(runs.c.status)
    word = func.coalesce(runs.c.status, "")
    below = select(word, func.count()).where(runs.c.parent_run_id.is_not(None)).group_by(word)
    apart = _by_word(connection.execute(below).all())
    counted = _by_word(connection.execute(all_of_them).all())
    return {status: count - apart.get(status, 0) for status, count in counted.items()}


def read_totals(connection: Connection, graph: str | None = None) -> Totals:
    """What the store's runs did; `graph`: only its runs. Calls are always those of the whole store."""
    outcomes = connection.execute(select(calls.c.outcome, func.count()).group_by(calls.c.outcome)).all()
    spent = [
        func.coalesce(func.sum(one), 0).label(one.name)
        for one in (runs.c.steps, runs.c.input_tokens, runs.c.output_tokens, runs.c.cost)
    ]
    mine = [] if graph is None else [runs.c.graph == graph]
    sums = connection.execute(select(*spent).where(*mine)).mappings().one()
    return Totals(
        calls={one.value: 0 for one in CallState} | _by_word(outcomes),
        steps=int(sums["steps"]),
        input_tokens=int(sums["input_tokens"]),
        output_tokens=int(sums["output_tokens"]),
        cost=float(sums["cost"]),
    )


def _by_word(rows: Sequence[Row[str, int]]) -> dict[str, int]:
    return {row[0]: row[1] for row in rows}


def _seconds(since: str | None, at: str) -> float:
    if since is None:
        return 0.0
    return max(0.0, round((datetime.fromisoformat(at) - datetime.fromisoformat(since)).total_seconds(), 3))
