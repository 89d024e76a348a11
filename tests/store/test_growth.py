"""The file grows by what was added (C-72)."""

import math
import sqlite3
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from store.stored_graphs import config, put, scalar, values_of

from adjourn.checkpoints.saver import SQLAlchemySaver


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


def chat_bytes(path: Path, steps: int, size: int) -> int:
    """Bytes of the rows and their pages after a conversation, without what an empty database takes."""

    def say(state: State) -> dict[str, Any]:
        number = len(state["messages"])
        return {"messages": [AIMessage(f"{number:06d}".ljust(size, "x"), id=f"m{number}")]}

    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say" if len(state["messages"]) <= steps else END)
    with SQLAlchemySaver(f"sqlite:///{path}") as saver:
        saver.setup()
        empty = pages(path)
        compiled = graph.compile(checkpointer=saver)
        where = {**config(), "recursion_limit": steps + 10}
        compiled.invoke({"messages": [HumanMessage("go", id="h")]}, where, durability="sync")
    return pages(path) - empty


def pages(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        count, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        return int(count * size)
    finally:
        connection.close()


def test_a_conversation_grows_with_its_length_not_with_its_square(tmp_path: Path) -> None:
    sizes = {steps: chat_bytes(tmp_path / f"{steps}.db", steps, 300) for steps in (100, 400)}
    exponent = math.log(sizes[400] / sizes[100]) / math.log(4)
    assert exponent <= 1.05, sizes
    assert sizes[400] / 400 <= 1_500, sizes


@pytest.mark.parametrize(
    "form", ["list", "dict of lists", "dict", "messages in a dict", "tuple of large texts"]
)
def test_large_values_grow_by_what_was_added(form: str) -> None:
    def value(size: int) -> Any:
        items = [{"number": number, "text": f"{number}".ljust(300, "y")} for number in range(size)]
        if form == "list":
            return items
        if form == "dict of lists":
            return {"items": items, "other": [1, 2]}
        if form == "dict":
            return {f"k{item['number']}": item for item in items}
        if form == "messages in a dict":
            return {
                "messages": [HumanMessage(item["text"], id=str(item["number"])) for item in items],
                "n": 1,
            }
        return {"first": tuple(item["text"] for item in items[:3]), "items": items}

    def stored(steps: int) -> int:
        with SQLAlchemySaver("sqlite://") as saver:
            where = config()
            for size in range(1, steps):
                where = put(saver, where, {"value": value(size)}, size)
            assert values_of(saver, config()) == {"value": value(steps - 1)}
            total = "SELECT sum(length(value)) FROM channel_values"
            messages = "SELECT coalesce(sum(length(content)), 0) FROM messages"
            return int(scalar(saver, total)) + int(scalar(saver, messages))

    small, large = stored(20), stored(80)
    # a dict names every key in each version; everything else is stored once
    assert large / small <= (9.5 if form == "dict" else 4.6), (small, large)


def test_many_small_items_do_not_become_many_rows() -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        put(saver, config(), {"value": list(range(10_000))})
        assert scalar(saver, "SELECT count(*) FROM channel_values") <= 10_000 / 16 + 1


def test_an_unchanged_value_is_stored_once() -> None:
    with SQLAlchemySaver("sqlite://") as saver:
        where = config()
        for version in range(1, 6):
            where = put(saver, where, {"value": "z" * 100, "short": version}, version)
        assert scalar(saver, "SELECT count(*) FROM channel_values") == 1
        assert [found.checkpoint["channel_values"]["short"] for found in saver.list(config())] == [
            5,
            4,
            3,
            2,
            1,
        ]
