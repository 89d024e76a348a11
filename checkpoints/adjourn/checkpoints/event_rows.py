"""The events of runs: numbered one after the other, stored, and read, inside a transaction of the caller's (C-65).

A number is taken by an UPDATE of the run's row, which also counts the steps that the events tell of and, given a fence,
refuses a stale owner. It holds the row until COMMIT, so numbers come in the order of commits: whoever has read up to a
number has missed none below it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Update, bindparam, func, select, update
from sqlalchemy import insert as sql_insert

from adjourn.checkpoints.compiled import Check, Statement
from adjourn.checkpoints.database import now
from adjourn.checkpoints.errors import LeaseLost, RunNotFound
from adjourn.checkpoints.events import Event, event_from_row
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.checkpoints.records import KEY_LENGTH, StepRow, from_json, shortened, to_json
from adjourn.checkpoints.run_rows import check_id
from adjourn.checkpoints.run_schema import events, runs


def _counting() -> Update:
    counted = {
        "last_event": runs.c.last_event + bindparam("n"),
        "updated_at": bindparam("at"),
        "steps": func.coalesce(bindparam("step"), runs.c.steps),
        "input_tokens": runs.c.input_tokens + bindparam("in_"),
        "output_tokens": runs.c.output_tokens + bindparam("out"),
        "cost": runs.c.cost + bindparam("cost_"),
    }
    return update(runs).where(runs.c.id == bindparam("id_")).values(counted)


def _counting_fenced() -> Update:
    return _counting().where(runs.c.fence == bindparam("held"), runs.c.status == RunStatus.RUNNING.value)


def _counting_from() -> Update:
    return _counting_fenced().where(runs.c.last_event == bindparam("last"))


def _telling(counting: Callable[[], Update]) -> Statement:
    """The UPDATE, which returns the number that it came to; on MySQL, which cannot return it, without."""
    return Statement(
        lambda dialect: counting().returning(runs.c.last_event) if dialect in _TELL else counting()
    )


_TELL = ("sqlite", "postgresql")


_count = _telling(_counting)
_count_fenced = _telling(_counting_fenced)
_count_from = Statement(lambda _: _counting_from())
_counted = Statement(lambda _: select(runs.c.last_event).where(runs.c.id == bindparam("id_")))


def _last_number(connection: Connection, counting: Statement, values: dict[str, Any]) -> int | None:
    """Count on, and give the number of the last event; None when the run is not the caller's."""
    if connection.dialect.name in _TELL:
        return counting.value(connection, values)  # type: ignore[no-any-return]
    return _counted.value(connection, values) if counting.change(connection, values) else None


class Counted(NamedTuple):
    """A step as its run counts it. `counts` False: its tokens and cost are counted, its number is not."""

    step: StepRow
    counts: bool = True

    @property
    def number(self) -> int:
        """How many steps the run has then."""
        return self.step.step if self.counts else self.step.step - 1


def move_on(
    connection: Connection,
    run_id: str,
    facts: Sequence[Event],
    *,
    fence: int | None = None,
    steps: Sequence[Counted] = (),
) -> list[Event]:
    """Give events the next numbers of their run, and return them numbered; `insert` stores them.

    `steps` are counted on the run as well, with their tokens and their cost. It is one UPDATE, which holds the run's
    row until the transaction ends: no number is left out or given twice.

    Raises `LeaseLost` when a `fence` is given and is stale, `RunNotFound` without one.
    """
    values = _onward(run_id, facts, steps) | {"held": fence}
    last = _last_number(connection, _count if fence is None else _count_fenced, values)
    if last is None:
        raise RunNotFound(run_id) if fence is None else LeaseLost(run_id, fence)
    return _numbered(facts, last - len(facts))


def move_on_from(
    connection: Connection,
    run_id: str,
    facts: Sequence[Event],
    *,
    fence: int,
    last: int,
    steps: Sequence[Counted] = (),
    or_else: Check,
) -> tuple[list[Event], Check]:
    """`move_on` for an owner who knows the number of the run's last event, and so need not wait for the answer.

    The check calls `or_else`, which raises, when the fence is stale or `last` is not the last number.
    """
    values = _onward(run_id, facts, steps) | {"held": fence, "last": last}
    return _numbered(facts, last), _count_from.meet(connection, values, or_else)


def _onward(run_id: str, facts: Sequence[Event], steps: Sequence[Counted]) -> dict[str, Any]:
    return {
        "id_": run_id,
        "n": len(facts),
        "at": now(),
        "step": steps[-1].number if steps else None,
        "in_": sum(one.step.input_tokens or 0 for one in steps),
        "out": sum(one.step.output_tokens or 0 for one in steps),
        "cost_": sum((one.step.cost for one in steps), 0.0),
    }


def _numbered(facts: Sequence[Event], last: int) -> list[Event]:
    return [fact.numbered(number) for number, fact in enumerate(facts, last + 1)]


_insert_event = Statement(
    lambda _: sql_insert(events).values({one.name: bindparam(one.name) for one in events.c})
)


def insert(connection: Connection, run_id: str, numbered: Sequence[Event]) -> None:
    """Store events that have their numbers.

    Two of one key are refused by the database (`sqlalchemy.exc.IntegrityError`): a caller that may tell a fact again
    asks `run_rows.keys` first.
    """
    at = now()
    _insert_event.change_many(connection, [_event_values(run_id, fact, at) for fact in numbered])


def append(
    connection: Connection, run_id: str, facts: Sequence[Event], *, fence: int | None = None
) -> list[Event]:
    """`move_on` and `insert`; without any event nothing is done."""
    if not facts:
        return []
    numbered = move_on(connection, run_id, facts, fence=fence)
    insert(connection, run_id, numbered)
    return numbered


def append_in_place(connection: Connection, run_id: str, fact: Event, *, fence: int) -> list[Event]:
    """`append` for an event that takes the run no further: where its owner dies after it, it died at the same place."""
    told = append(connection, run_id, [fact], fence=fence)
    _in_place.change(connection, {"id_": run_id})
    return told


_in_place = Statement(
    lambda _: update(runs).where(runs.c.id == bindparam("id_")).values(claimed_event=runs.c.claimed_event + 1)
)


def _event_values(run_id: str, fact: Event, at: str) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "number": fact.number,
        "type": fact.word,
        "step": fact.step,
        "path": fact.path,
        "key": shortened(fact.key, KEY_LENGTH),
        "data": to_json(fact.own()),
        "at": at,
    }


def read(connection: Connection, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
    """The stored events of a run with a number above `after`, in order."""
    statement = (
        select(events).where(events.c.run_id == run_id, events.c.number > after).order_by(events.c.number)
    )
    if limit is not None:
        statement = statement.limit(limit)
    found = []
    for row in connection.execute(statement).mappings():
        data = from_json(row["data"], "events", f"({run_id}, {row['number']})")
        told = {"word": row["type"], "step": row["step"], "path": row["path"], "data": data}
        found.append(event_from_row(run_id, row["number"], **told))
    return found


_progress = Statement(lambda _: select(runs.c.status, runs.c.last_event).where(runs.c.id == bindparam("id_")))


def read_progress(connection: Connection, run_id: str) -> tuple[str, int]:
    """The status of a run, and the number of its last event: the cheapest look at it. Raises `RunNotFound`."""
    check_id(run_id)
    row = _progress.first(connection, {"id_": run_id})
    if row is None:
        raise RunNotFound(run_id)
    return row[0], row[1]
