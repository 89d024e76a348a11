"""Delete, copy, prune: what goes, and what must stay (C-93)."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from store.stored_graphs import config, put, scalar, values_of

from adjourn.checkpoints import statements
from adjourn.checkpoints.errors import UsageError
from adjourn.checkpoints.saver import SQLAlchemySaver

TABLES = ("threads", "namespaces", "messages", "channel_values", "checkpoints", "checkpoint_writes")
pytestmark = pytest.mark.filterwarnings("ignore:.*DeltaChannel.*")


def counts(saver: SQLAlchemySaver) -> dict[str, int]:
    return {table: scalar(saver, f"SELECT count(*) FROM {table}") for table in TABLES}


def fill(saver: SQLAlchemySaver, thread: str = "t", **metadata: Any) -> Any:
    where = config(thread)
    for step in range(1, 6):
        value = {"messages": [HumanMessage(f"{n}", id=f"{step if n == 0 else n}") for n in range(step)]}
        big = [{"n": n, "step": step if n == 0 else 0, "text": "x" * 400} for n in range(step + 8)]
        where = put(saver, where, {**value, "big": big}, step, **metadata)
        saver.put_writes(where, [("messages", [HumanMessage(f"w{step}", id=f"w{step}")])], "task")
    return where


def test_deleting_a_thread_leaves_no_row(saver: SQLAlchemySaver) -> None:
    fill(saver)
    saver.delete_thread("t")
    assert counts(saver) == dict.fromkeys(TABLES, 0)
    fill(saver)  # the saver has forgotten it as well
    assert len(values_of(saver, config())["messages"]) == 5


def test_pruning_keeps_the_newest_whole_and_drops_what_nothing_refers_to(saver: SQLAlchemySaver) -> None:
    last = fill(saver)
    before = saver.get_tuple(config())
    saver.prune(["t"])
    assert saver.get_tuple(config()) == before
    after = counts(saver)
    assert after["checkpoints"] == 1
    assert after["messages"] == 5 + 1  # those of the channel, and the pending write's
    assert after["channel_values"] == 1 + 13  # the list and its parts
    # and it goes on, with messages that were stored once and are gone now
    put(saver, last, {"messages": [HumanMessage("0", id="1")]}, 9)
    assert values_of(saver, config())["messages"] == [HumanMessage("0", id="1")]


def test_another_process_notices_that_rows_were_taken_away(shared_saver: SQLAlchemySaver) -> None:
    last = fill(shared_saver)
    with SQLAlchemySaver(shared_saver.database.url.render_as_string(hide_password=False)) as other:
        other.prune(["t"])
        # it remembers a row that is gone
        put(shared_saver, last, {"messages": [HumanMessage("0", id="1")]}, 9)
        shared_saver.put_writes(last, [("messages", [HumanMessage("w1", id="w1")])], "late")
        assert values_of(shared_saver, config())["messages"] == [HumanMessage("0", id="1")]
        other.delete_thread("t")
        put(shared_saver, config(), {"messages": [HumanMessage("0", id="1")]}, 10)
        assert values_of(other, config())["messages"] == [HumanMessage("0", id="1")]


def test_a_copy_lives_on_its_own(saver: SQLAlchemySaver) -> None:
    fill(saver)
    original = [found.checkpoint for found in saver.list(config())]
    saver.copy_thread("t", "copy")
    assert [found.checkpoint for found in saver.list(config("copy"))] == original
    saver.delete_thread("t")
    assert [found.checkpoint for found in saver.list(config("copy"))] == original
    with pytest.raises(UsageError, match="exists already"):
        saver.copy_thread("copy", "copy")
    saver.copy_thread("missing", "other")
    assert saver.get_tuple(config("other")) is None


def test_deleting_a_runs_checkpoints_in_all_threads(saver: SQLAlchemySaver) -> None:
    fill(saver, "t", run_id="r1")
    fill(saver, "u", run_id="r1")
    put(saver, config("u"), {"a": 1}, 9, run_id="r2")
    saver.delete_for_runs(["r1"])
    assert [found.metadata["run_id"] for found in saver.list(None)] == ["r2"]
    assert counts(saver)["messages"] == 0
    assert counts(saver)["threads"] == 1


def test_an_unknown_strategy_is_refused(saver: SQLAlchemySaver) -> None:
    with pytest.raises(UsageError, match="keep_latest"):
        saver.prune(["t"], strategy="keep_some")


def delta_graph(saver: Any) -> Any:
    class State(TypedDict, total=False):
        items: Annotated[
            list[Any], DeltaChannel(lambda state, writes: sum(writes, list(state)), snapshot_frequency=3)
        ]
        n: Annotated[int, operator.add]

    graph = StateGraph(State)
    graph.add_node("add", lambda state: {"items": [f"item {state['n']}"], "n": 1})
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: "add" if state["n"] < 7 else END)
    return graph.compile(checkpointer=saver)


def test_delta_channels_are_rebuilt_and_survive_pruning(saver: SQLAlchemySaver) -> None:
    expected, ours = delta_graph(InMemorySaver()), delta_graph(saver)
    for graph in (expected, ours):
        graph.invoke({"items": ["first"], "n": 0}, config(), durability="sync")
    values = [s.values for s in expected.get_state_history(config())]
    assert [s.values for s in ours.get_state_history(config())] == values
    before = counts(saver)["checkpoints"]
    saver.prune(["t"])
    assert ours.get_state(config()).values == values[0]
    assert 1 < counts(saver)["checkpoints"] < before
    saver.copy_thread("t", "copy")
    assert ours.get_state(config("copy")).values == values[0]


async def test_the_async_history_of_a_delta_channel_equals_the_sync_one(saver: SQLAlchemySaver) -> None:
    await delta_graph(saver).ainvoke({"items": ["first"], "n": 0}, config(), durability="sync")
    sync = saver.get_delta_channel_history(config=config(), channels=["items", "none"])
    assert await saver.aget_delta_channel_history(config=config(), channels=["items", "none"]) == sync
    assert sync["items"]["writes"]
    assert sync["none"] == {"writes": []}
    assert saver.get_delta_channel_history(config=config("missing"), channels=["x"]) == {"x": {"writes": []}}


async def test_the_async_twins(saver: SQLAlchemySaver) -> None:
    fill(saver, run_id="r")
    await saver.acopy_thread("t", "copy")
    await saver.aprune(["copy"], strategy="keep_latest")
    assert len([one async for one in saver.alist(config("copy"))]) == 1
    await saver.adelete_for_runs(["r"])
    assert [one async for one in saver.alist(None)] == []
    fill(saver)
    await saver.adelete_thread("t")
    assert counts(saver) == dict.fromkeys(TABLES, 0)


def test_the_newest_of_all_threads_are_found_without_reading_all(file_url: str) -> None:
    with SQLAlchemySaver(file_url) as saver:
        for number in range(5):
            put(saver, config(f"t{number}"), {"a": number})
        newest = [found.config["configurable"]["thread_id"] for found in saver.list(None, limit=2)]
        assert newest == ["t4", "t3"]
        query = statements.list_checkpoints(
            thread_id=None, ns=None, checkpoint_id=None, before=None, columns={}, behind=None, limit=2
        )
        plan = saver.database.read(
            lambda connection: connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {query.compile(connection.engine, compile_kwargs={'literal_binds': True})}"
            ).all()
        )
        assert "ix_checkpoints_checkpoint_id_namespace" in plan[0][3]
        assert not any("TEMP B-TREE" in step[3] for step in plan)
