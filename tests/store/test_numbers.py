"""Numbers of rows: given once, and near each other where they are read together (C-72)."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from store.stored_graphs import config, scalar

from adjourn.checkpoints.importing import import_threads, old_store
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.thread_memory import BLOCK, MOST_LISTS, Numbers

OWNERS = st.sampled_from([("", "messages", "whole"), ("sub", "messages", "whole"), ("", "memo", "whole")])


@given(st.lists(st.tuples(st.sampled_from(["take", "stand"]), OWNERS, st.integers(0, 60)), max_size=120))
def test_no_number_is_given_twice_whoever_stands_where(moves: list[tuple[str, Any, int]]) -> None:
    numbers = Numbers()
    given_: list[int] = []
    for move, owner, which in moves:
        if move == "take" or not given_:
            given_.append(numbers.take(owner))
        else:
            numbers.stand(owner, given_[which % len(given_)])
    assert len(set(given_)) == len(given_)
    assert numbers.top == max(given_, default=0)


class Shared(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    memo: Annotated[list[AnyMessage], add_messages]
    draft: str
    final: str


def noting(state: Shared) -> Shared:
    """Both channels get a message of their own, and the memo one of the conversation's; two texts are equal at first."""
    number = len(state["messages"])
    draft = f"draft {number} " * 20
    return {
        "messages": [AIMessage(f"answer {number}", id=f"a{number}")],
        "memo": [AIMessage(f"note {number}", id=f"n{number}"), state["messages"][-1]],
        "draft": draft,
        "final": draft if number == 1 else f"final {number} " * 20,
    }


def of_both(turn: int) -> Any:
    question = HumanMessage(f"q{turn}", id=f"q{turn}")
    return {"messages": [question], "memo": [HumanMessage(f"s{turn}", id=f"s{turn}")]}


def shared() -> Any:
    return StateGraph(Shared).add_node("node", noting).add_edge(START, "node")


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_channels_that_share_a_row_go_on_in_another_process(shared_url: str, durability: Any) -> None:
    there = InMemorySaver()
    for turn in range(4):
        shared().compile(checkpointer=there).invoke(of_both(turn), config())
        with SQLAlchemySaver(shared_url) as saver:
            here = shared().compile(checkpointer=saver)
            here.invoke(of_both(turn), config(), durability=durability)
            assert here.get_state(config()).values == there_values(there)


def there_values(there: InMemorySaver) -> Any:
    return shared().compile(checkpointer=there).get_state(config()).values


def test_channels_that_share_a_row_are_brought_over(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "old.db")) as theirs:
        agent = shared().compile(checkpointer=theirs)
        for turn in range(4):
            agent.invoke(of_both(turn), config())
        expected = agent.get_state(config()).values
    with (
        old_store(f"sqlite:///{tmp_path / 'old.db'}") as old,
        SQLAlchemySaver(f"sqlite:///{tmp_path / 'new.db'}") as ours,
    ):
        assert [one.thread_id for one in import_threads(old, ours)] == ["t"]
        assert shared().compile(checkpointer=ours).get_state(config()).values == expected


def answering(state: Any) -> Any:
    return {"messages": [AIMessage("answer", id=f"answer to {state['messages'][-1].id}")]}


def with_agent_as_node(saver: SQLAlchemySaver) -> Any:
    """The conversation is the subgraph's too."""
    inner = StateGraph(MessagesState).add_node("x", answering).add_edge(START, "x").compile()
    return StateGraph(MessagesState).add_node("agent", inner).add_edge(START, "agent").compile(saver)


def with_agent_called(saver: SQLAlchemySaver) -> Any:
    """The subgraph has a conversation of its own under the same name, of which the other one sees the last message."""
    inner = StateGraph(MessagesState).add_node("x", answering).add_edge(START, "x").compile()

    def node(state: Any) -> Any:
        asked = [HumanMessage("do", id=f"{state['messages'][-1].id}, {part}") for part in range(4)]
        return {"messages": inner.invoke({"messages": asked})["messages"][-1]}

    return StateGraph(MessagesState).add_node("agent", node).add_edge(START, "agent").compile(saver)


TURNS = 3 * BLOCK


# of a conversation of its own only the answer is the other's as well, which begins a range with it in each turn
@pytest.mark.parametrize(
    ("build", "rows", "ranges"),
    [(with_agent_as_node, 2, 2 * TURNS / BLOCK + 2), (with_agent_called, 6, TURNS + 2)],
)
def test_c72_a_subgraphs_messages_are_stored_once_and_ranges_stay_whole(
    tmp_path: Path, build: Callable[[SQLAlchemySaver], Any], rows: int, ranges: float
) -> None:
    with SQLAlchemySaver(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        graph = build(saver)
        for turn in range(TURNS):
            graph.invoke({"messages": [HumanMessage("question", id=f"q{turn}")]}, config())
        assert scalar(saver, "SELECT count(*) FROM messages") == rows * TURNS
        newest = scalar(
            saver,
            "SELECT channels FROM checkpoints c JOIN threads t USING (checkpoint_id) WHERE t.thread_id='t'",
        )
        stored = sqlite3.connect(":memory:").execute("SELECT json_extract(?, '$.messages')", [newest])
        assert stored.fetchone()[0].count("[") - 1 <= ranges
        assert len(saver._memories.of("t").lists) <= MOST_LISTS


class Array:
    """What is neither equal nor unequal, as numpy's arrays are."""

    def __eq__(self, other: object) -> Any:
        return Array()

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_a_message_with_an_array_in_its_artifact_is_met_again(tmp_path: Path) -> None:
    held = ToolMessage("found", tool_call_id="c", id="m", artifact={"table": Array()})
    with SQLAlchemySaver(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        graph = StateGraph(MessagesState).add_node("x", lambda _: {"messages": [held]}).add_edge(START, "x")
        for _ in range(3):
            graph.compile(checkpointer=saver).invoke({"messages": [HumanMessage("go")]}, config())
        assert scalar(saver, "SELECT count(*) FROM messages WHERE message_id = 'm'") == 1
