"""The numbers that a run's owner gives to its events by itself: as the store has them, whoever else wrote (C-65, C-90)."""

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from store.stored_runs import run_row

from adjourn.checkpoints import event_rows, journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import LeaseLost
from adjourn.checkpoints.events import Event, StepStarted
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph.run_log import Before, RunLog
from adjourn.nodes.masking import Masker


def event(step: int) -> StepStarted:
    return StepStarted(run_id="r", path="", step=step)


@pytest.fixture
def owned(database: Database) -> RunLog:
    """The log of a run's first owner."""
    row = run_row("r", thread_id="t", fence=1, lease_owner="a")
    database.write(lambda connection: journal.insert_run(connection, row))
    return log_of(database)


def log_of(database: Database, **told: Any) -> RunLog:
    run = database.read(lambda connection: journal.read_run(connection, "r"))
    before = Before(**told) if told else database.read(lambda connection: Before.read(connection, run))
    return RunLog(database, run, before, HEARD.append, Masker())


HEARD: list[Event] = []


def put(database: Database, log: RunLog, version: int) -> None:
    state = empty_checkpoint()
    state["channel_values"] = {"messages": [HumanMessage("x", id=str(version))]}
    state["channel_versions"] = {"messages": version}
    named = {"thread_id": "t", "checkpoint_ns": "", "__adjourn_outbox": log, "__adjourn_fence": log}
    versions: Any = {"messages": version}
    SQLAlchemySaver(database).put({"configurable": named}, state, {"step": version}, versions)


def numbers(database: Database) -> list[tuple[int | None, int]]:
    found = database.read(lambda connection: event_rows.read(connection, "r"))
    return [(one.number, one.step) for one in found]


def test_c65_numbers_go_on_where_another_transaction_took_some_between(
    database: Database, owned: RunLog
) -> None:
    HEARD.clear()
    owned.emit(event(1))
    put(database, owned, 1)
    database.write(lambda c: event_rows.append(c, "r", [event(50)], fence=1))
    for step in (2, 3):
        owned.emit(event(step))
        put(database, owned, step)
    assert numbers(database) == [(1, 1), (2, 50), (3, 2), (4, 3)]
    assert [one.number for one in HEARD] == [1]  # in their order: the second is another one's to tell
    row = database.read(lambda connection: journal.read_run(connection, "r"))
    assert row.last_event == 4


@pytest.mark.parametrize("last_event", [0, 1, 2, 3])
def test_c90_a_stale_owner_is_refused_whatever_number_it_believes_in(
    database: Database, owned: RunLog, last_event: int
) -> None:
    owned.emit(event(1))
    put(database, owned, 1)
    stale = owned.run
    database.write(lambda c: leases.claim(c, "r", RunEvent.RECOVER, owner="b", lease_s=30, at_once=True))
    new = log_of(database)
    new.emit(event(2))
    put(database, new, 2)
    old = RunLog(database, replace(stale), Before(last_event=last_event), HEARD.append, Masker())
    with pytest.raises(LeaseLost):  # nothing rides
        put(database, old, 3)
    old.emit(event(9))
    with pytest.raises(LeaseLost):
        put(database, old, 3)
    assert numbers(database) == [(1, 1), (2, 2)]
    stored = list(SQLAlchemySaver(database).list({"configurable": {"thread_id": "t"}}))
    assert len(stored) == 2
