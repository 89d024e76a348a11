"""Fence and outbox: what rides on a put's transaction, and what refuses it (C-90)."""

import asyncio
import threading
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from sqlalchemy.engine import Connection
from store.stored_graphs import checkpoint, config, put, scalar

from adjourn.checkpoints import journal
from adjourn.checkpoints.compiled import Check, Statement
from adjourn.checkpoints.errors import LeaseLost
from adjourn.checkpoints.hooks import Held
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.schema import checkpoints


class Fence:
    lost = False

    def __init__(self) -> None:
        self.checks = 0

    def check(self, connection: Connection) -> None:
        STORED.value(connection, {})  # what it asks is asked in the put's transaction
        driver: Any = connection.connection.driver_connection
        if connection.dialect.name == "sqlite":
            assert driver.in_transaction
        self.checks += 1
        if self.lost:
            raise LeaseLost("run_1", 3)


STORED = Statement(lambda _: sa.select(sa.func.count()).select_from(checkpoints))


class Outbox:
    """Its own ride."""

    frozen = False

    def __init__(self, saver: SQLAlchemySaver, error: Exception | None = None) -> None:
        self.saver = saver
        self.error = error
        self.seen: list[str] = []
        self.threads: list[int] = []
        self.held: list[Held] = []
        self.holds = False

    def hold(self, writes: Held) -> bool:
        if self.holds:
            self.held.append(writes)
        return self.holds

    def open(self, connection: Connection) -> "Outbox":
        self.seen.append("open")
        return self

    def check(self) -> None:
        self.seen.append("check")

    def write(self, connection: Connection) -> list[Check]:
        self.seen.append(f"write behind {STORED.value(connection, {})}")
        journal.write_audit(connection, "r", "rode", by=None)
        if self.error:
            raise self.error
        return []

    def stored(self) -> None:
        # another connection of a file sees the row: it is committed
        self.seen.append(f"stored {scalar(self.saver, 'SELECT count(*) FROM audit')}")

    def committed(self) -> None:
        self.threads.append(threading.get_ident())
        self.seen.append("committed")


def test_a_lost_lease_refuses_put_and_put_writes_and_changes_nothing(saver: SQLAlchemySaver) -> None:
    fence = Fence()
    where = put(saver, config(__adjourn_fence=fence), {"messages": [HumanMessage("x", id="1")]})
    saver.put_writes(
        config(checkpoint_id=where["configurable"]["checkpoint_id"], __adjourn_fence=fence), [("a", 1)], "t"
    )
    assert fence.checks == 2
    before = list(saver.list(config()))
    fence.lost = True
    lost = config(checkpoint_id=where["configurable"]["checkpoint_id"], __adjourn_fence=fence)
    with pytest.raises(LeaseLost):
        put(saver, lost, {"messages": [HumanMessage("y", id="2")]}, 2)
    with pytest.raises(LeaseLost):
        saver.put_writes(lost, [("messages", [HumanMessage("z", id="3")])], "t2")
    assert list(saver.list(config())) == before
    assert scalar(saver, "SELECT count(*) FROM messages") == 1
    # what was refused is not taken for stored afterwards
    put(saver, where, {"messages": [HumanMessage("y", id="2")]}, 2)
    assert scalar(saver, "SELECT count(*) FROM messages") == 2
    assert saver.get_tuple(config()).checkpoint["channel_values"]["messages"][0].content == "y"  # type: ignore[union-attr]


def test_the_outbox_writes_behind_the_checkpoint_and_hears_of_the_commit(saver: SQLAlchemySaver) -> None:
    outbox = Outbox(saver)
    put(saver, config(__adjourn_outbox=outbox), {"a": 1})
    assert outbox.seen == ["open", "write behind 1", "check", "stored 1", "committed"]
    assert outbox.threads == [threading.get_ident()]


async def test_aput_tells_the_outbox_on_the_event_loops_thread(shared_saver: SQLAlchemySaver) -> None:
    outbox = Outbox(shared_saver)
    state = checkpoint({"a": 1})
    await shared_saver.aput(config(__adjourn_outbox=outbox), state, {"source": "loop"}, {"a": 1})
    assert outbox.seen == ["open", "write behind 1", "check", "stored 1", "committed"]
    assert outbox.threads == [threading.get_ident()]


async def test_a_cancelled_aput_still_tells_the_outbox_what_was_committed(
    shared_saver: SQLAlchemySaver,
) -> None:
    outbox = Outbox(shared_saver)
    task = asyncio.ensure_future(
        shared_saver.aput(config(__adjourn_outbox=outbox), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while len(outbox.seen) < 4:  # noqa: ASYNC110 - the saver tells nobody else
        await asyncio.sleep(0.005)
    assert outbox.seen == ["open", "write behind 1", "check", "stored 1", "committed"]


def test_an_outbox_that_fails_takes_the_checkpoint_with_it(saver: SQLAlchemySaver) -> None:
    outbox = Outbox(saver, RuntimeError("no"))
    with pytest.raises(RuntimeError, match="no"):
        put(saver, config(__adjourn_outbox=outbox), {"a": 1})
    assert outbox.seen == ["open", "write behind 1"]
    assert scalar(saver, "SELECT (SELECT count(*) FROM checkpoints) + (SELECT count(*) FROM audit)") == 0
    assert saver.get_tuple(config()) is None


def test_hooks_reach_the_saver_through_a_graph_and_stay_out_of_the_metadata(saver: SQLAlchemySaver) -> None:
    graph = StateGraph(dict)
    graph.add_node("a", lambda _state: {"x": 1})
    graph.add_edge(START, "a")
    fence, outbox = Fence(), Outbox(saver)
    where = config(__adjourn_fence=fence, __adjourn_outbox=outbox, user="wang")
    graph.compile(checkpointer=saver).invoke({"x": 0}, where, durability="sync")
    assert fence.checks + outbox.seen.count("open") >= 4
    assert outbox.seen.count("write behind 2") == 1
    metadata: Any = [found.metadata for found in saver.list(config())]
    assert all(set(one) <= {"source", "step", "parents", "user"} for one in metadata)


async def test_f23_held_writes_are_stored_with_the_put_or_not_at_all(shared_saver: SQLAlchemySaver) -> None:
    outbox = Outbox(shared_saver)
    outbox.holds = True
    first = await shared_saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
    riding = {"configurable": {**first["configurable"], "__adjourn_outbox": outbox}}
    await shared_saver.aput_writes(riding, [("a", 2)], "task-1")
    assert scalar(shared_saver, "SELECT count(*) FROM checkpoint_writes") == 0
    outbox.error = RuntimeError("no")
    with pytest.raises(RuntimeError):
        await shared_saver.aput(riding, checkpoint({"a": 2}), {"source": "loop"}, {"a": 2})
    assert scalar(shared_saver, "SELECT count(*) FROM checkpoint_writes") == 0
    outbox.error = None
    await shared_saver.aput(riding, checkpoint({"a": 2}), {"source": "loop"}, {"a": 2})
    assert scalar(shared_saver, "SELECT count(*) FROM checkpoint_writes") == 1
    before = await shared_saver.aget_tuple(first)
    assert before is not None
    assert before.pending_writes == [("task-1", "a", 2)]


async def test_f23_writes_that_no_put_came_for_can_be_stored_by_themselves(
    shared_saver: SQLAlchemySaver,
) -> None:
    outbox = Outbox(shared_saver)
    outbox.holds = True
    first = await shared_saver.aput(config(), checkpoint({"a": 1}), {"source": "loop"}, {"a": 1})
    riding = {"configurable": {**first["configurable"], "__adjourn_outbox": outbox}}
    await shared_saver.aput_writes(riding, [("a", 2)], "task-1")
    await shared_saver.astore_held(first, outbox.held)
    await shared_saver.astore_held(first, [])
    found = await shared_saver.aget_tuple(first)
    assert found is not None
    assert found.pending_writes == [("task-1", "a", 2)]
