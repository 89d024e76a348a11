"""A put_writes that waits for its run's row while a prune commits: what it refers to may be gone by then."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from store.stored_runs import run_row

from adjourn.checkpoints import journal, leases, thread_ops
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.saver import SQLAlchemySaver

THREAD = {"thread_id": "t", "checkpoint_ns": ""}


class Fence:
    def check(self, connection: sa.Connection) -> None:
        leases.hold(connection, "r", 1)


def put(saver: SQLAlchemySaver, parent: dict[str, str], messages: list[BaseMessage], version: int) -> str:
    state = empty_checkpoint()
    state["channel_values"], state["channel_versions"] = {"messages": messages}, {"messages": version}
    versions: Any = {"messages": version}
    where = saver.put({"configurable": {**THREAD, **parent}}, state, {"step": version}, versions)
    return str(where["configurable"]["checkpoint_id"])


@pytest.mark.parametrize("fenced", [True, False])
def test_writes_refer_to_nothing_that_a_prune_took_away_while_they_waited(
    shared_url: str, fenced: bool
) -> None:
    first, second = Database(shared_url), Database(shared_url)
    saver, other = SQLAlchemySaver(first), SQLAlchemySaver(second)
    first.write(lambda c: journal.insert_run(c, run_row("r", thread_id="t", fence=1, lease_owner="me")))
    messages: list[BaseMessage] = [HumanMessage("old", id="m0"), HumanMessage("older", id="m1")]
    older = put(saver, {}, messages, 1)
    newest = put(saver, {"checkpoint_id": older}, messages[1:], 2)  # the first one is in the older one alone
    free, holds = threading.Event(), threading.Event()

    def hold(connection: sa.Connection) -> None:
        """As a renewal of the lease does."""
        connection.execute(sa.text("UPDATE runs SET active_ms = active_ms WHERE id = 'r'"))
        holds.set()
        assert free.wait(20)

    on_sqlite = first.is_sqlite  # where nobody else writes meanwhile
    holder = threading.Thread(target=second.write, args=(hold,))
    if not on_sqlite:
        holder.start()
        assert holds.wait(20)
    where: Any = {"configurable": {**THREAD, "checkpoint_id": newest}}
    if fenced:
        where["configurable"]["__adjourn_fence"] = Fence()
    writing = threading.Thread(
        target=saver.put_writes, args=(where, [("messages", messages[0])], "task", "path")
    )
    writing.start()
    writing.join(0.5)  # on a server it waits for the row now, where it has a fence
    other.prune(["t"])
    free.set()
    writing.join()
    if not on_sqlite:
        holder.join()
    with SQLAlchemySaver(shared_url) as fresh:
        found = fresh.get_tuple({"configurable": THREAD})
    assert found is not None and found.pending_writes is not None
    told = [one.id for _, _, one in found.pending_writes]
    assert told in ([], ["m0"])  # pruned with it, or stored anew
    for one in (first, second):
        one.close()


def test_what_another_process_stores_while_a_prune_looks_is_not_taken_away(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver, other = SQLAlchemySaver(shared_url), SQLAlchemySaver(shared_url)
    where: Any = {
        "configurable": {**THREAD, "checkpoint_id": put(saver, {}, [HumanMessage("old", id="m0")], 1)}
    }
    looks, goes_on = threading.Event(), threading.Event()
    roots = thread_ops._roots

    def slowly(connection: sa.Connection, thread: int) -> Iterator[Any]:
        yield from roots(connection, thread)
        looks.set()
        assert goes_on.wait(20)

    monkeypatch.setattr(thread_ops, "_roots", slowly)
    pruning = threading.Thread(target=other.prune, args=(["t"],))
    pruning.start()
    assert looks.wait(20)
    new = HumanMessage("new", id="m1")
    writing = threading.Thread(target=saver.put_writes, args=(where, [("messages", [new])], "task", ""))
    writing.start()
    writing.join(0.5)  # long enough for it to come through, were nobody in its way
    goes_on.set()
    writing.join()
    pruning.join()
    with SQLAlchemySaver(shared_url) as fresh:
        found = fresh.get_tuple({"configurable": THREAD})
    assert found is not None and found.pending_writes is not None
    assert [[one.id for one in value] for _, _, value in found.pending_writes] == [["m1"]]
    for one in (saver, other):
        one.close()
