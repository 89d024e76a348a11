"""Threads of the official savers go on in this store where they stood."""

import operator
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from store.engines import Engines
from store.stored_graphs import config, put, scalar, values_of

from adjourn.checkpoints.errors import StoreError, UsageError
from adjourn.checkpoints.importing import Imported, import_threads, old_store
from adjourn.checkpoints.saver import SQLAlchemySaver


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[Any], operator.add]


class Inner(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


def build(saver: Any) -> Any:
    """Two steps side by side, then a subgraph that asks."""

    def ask(state: Inner) -> dict[str, Any]:
        said = interrupt({"question": "go on?"})
        return {"messages": [HumanMessage(str(said), id="answer")]}

    inner = StateGraph(Inner)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer = StateGraph(State)
    for name in ("left", "right"):
        outer.add_node(
            name, lambda _state, name=name: {"log": [name], "messages": [HumanMessage(name, id=name)]}
        )
        outer.add_edge(START, name)
    outer.add_node("inner", inner.compile())
    outer.add_edge(["left", "right"], "inner")
    return outer.compile(checkpointer=saver)


Old = tuple[str, Callable[[], AbstractContextManager[Any]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> Iterator[Old]:
    """The URL of a database for an official saver, and how to open that saver."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/old.db", lambda: SqliteSaver.from_conn_string(f"{tmp_path}/old.db")
        return
    url = servers.new("postgresql", tmp_path)

    @contextmanager
    def opened() -> Iterator[Any]:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            yield saver

    yield url, opened


def history(graph: Any, thread_id: str) -> list[Any]:
    return [
        (
            one.values,
            one.next,
            one.metadata,
            one.created_at,
            one.config["configurable"]["checkpoint_id"],
            one.parent_config and one.parent_config["configurable"]["checkpoint_id"],
            one.interrupts,
        )
        for one in graph.get_state_history(config(thread_id))
    ]


def test_an_interrupted_thread_goes_on_where_it_stood(old: Old, url: str) -> None:
    source, opened = old
    with opened() as theirs:
        graph = build(theirs)
        for thread_id in ("first", "asks"):
            graph.invoke({"messages": [HumanMessage("支付", id="h")], "log": []}, config(thread_id))
        graph.invoke(Command(resume="fine"), config("first"))
        early = list(graph.get_state_history(config("first")))[-1]
        graph.update_state(early.config, {"log": ["forked"]}, as_node="left")
        expected = {name: history(graph, name) for name in ("first", "asks")}
        inside = graph.get_state(config("asks"), subgraphs=True).tasks[0].state.values
    with SQLAlchemySaver(url) as saver:
        with old_store(source) as reading:
            found = list(import_threads(reading, saver))
            assert [one.thread_id for one in found] == ["asks", "first"]
            assert sum(one.checkpoints for one in found) == scalar(saver, "SELECT count(*) FROM checkpoints")
        ours = build(saver)
        assert {name: history(ours, name) for name in ("first", "asks")} == expected
        assert ours.get_state(config("asks"), subgraphs=True).tasks[0].state.values == inside
        ours.invoke(Command(resume="yes"), config("asks"))
        state = ours.get_state(config("asks"))
        assert [one.id for one in state.values["messages"]] == ["h", "left", "right", "answer"]
        assert (state.next, state.values["messages"][-1].content) == ((), "yes")
        assert scalar(saver, "SELECT count(*) FROM messages WHERE message_id = 'h'") == 2


def test_one_thread_by_name_and_never_over_one_that_is_there(old: Old) -> None:
    source, opened = old
    with opened() as theirs:
        for thread_id in ("a", "b"):
            build(theirs).invoke({"messages": [HumanMessage("x", id="h")]}, config(thread_id))
    with SQLAlchemySaver("sqlite://") as saver, old_store(source) as reading:
        (found,) = import_threads(reading, saver, ["b"])
        assert found == Imported("b", scalar(saver, "SELECT count(*) FROM checkpoints"))
        put(saver, config("a"), {"mine": 1})
        with pytest.raises(UsageError, match="'a' exists in this store already"):
            list(import_threads(reading, saver, ["a"]))
        assert values_of(saver, config("a")) == {"mine": 1}
        with pytest.raises(UsageError, match="no thread 'c'"):
            list(import_threads(reading, saver, ["c"]))


def test_c71_hostile_rows_run_nothing_and_the_old_file_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        put(theirs, config(), {"a": "good"})  # type: ignore[arg-type]
        evil = ormsgpack.Ext(0, ormsgpack.packb(("os", "system", "touch PWNED")))
        state = theirs.get_tuple(config()).checkpoint  # type: ignore[union-attr]
        row = ormsgpack.packb({**state, "channel_values": {"a": evil, "b": 1}})
        theirs.conn.execute("UPDATE checkpoints SET checkpoint = ?", (row,))
        theirs.conn.commit()
    before = path.read_bytes()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("it ran"))
    with SQLAlchemySaver("sqlite://") as saver, old_store(f"sqlite:///{path}") as reading:
        list(import_threads(reading, saver))
        assert values_of(saver, config()) == {"a": "touch PWNED", "b": 1}
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "is no database URL"),
        ("mysql://u@h/d", "from sqlite:///FILE and postgresql"),
        (
            "postgresql://u:secret@h:port/d?password=secret",
            r"u:\*\*\*@h:port/d\?password=\*\*\*. is no database URL",
        ),
        ("sqlite:///missing.db", "there is no file missing.db"),
    ],
)
def test_a_source_that_is_not_usable_says_so(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message), old_store(url):
        pass


def test_a_file_without_their_tables_and_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.db"
    sqlite3.connect(path).executescript("CREATE TABLE x (y)").connection.close()
    with pytest.raises(StoreError, match="holds no checkpoints"), old_store(f"sqlite:///{path}"):
        pass
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    with (
        pytest.raises(StoreError, match="pip install langgraph-checkpoint-sqlite"),
        old_store(f"sqlite:///{path}"),
    ):
        pass
