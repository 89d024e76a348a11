"""The saver under real graphs, with LangGraph's InMemorySaver as the measure of what is right."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Send, interrupt
from sqlalchemy.engine import Connection
from store.stored_graphs import config, scalar

from adjourn.checkpoints.compiled import Check
from adjourn.checkpoints.hooks import Held
from adjourn.checkpoints.saver import SQLAlchemySaver


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[Any], operator.add]
    facts: dict[str, Any]
    turn: int


def call(number: int) -> AIMessage:
    arguments = {"query": "支付服务", "n": number, "deep": {"x": [1, 2.5, None]}}
    return AIMessage(
        content=f"looking {number}",
        id=f"a{number}",
        tool_calls=[{"id": f"c{number}", "name": "search", "args": arguments, "type": "tool_call"}],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    )


def assistant(state: State) -> dict[str, Any]:
    turn = state.get("turn", 0)
    if turn == 2:  # takes its first message back, and replaces one by its id
        return {"messages": [RemoveMessage(id="a0"), HumanMessage("changed", id="h")], "turn": 3}
    return {
        "messages": [call(turn)],
        "notes": [HumanMessage(f"note {turn}", id=f"n{turn}")],
        "turn": turn + 1,
    }


def tools(state: State) -> dict[str, Any]:
    turn = state["turn"]
    result = ToolMessage(
        f"found {turn}", id=f"t{turn}", tool_call_id=f"c{turn - 1}", name="search", artifact=[1, {2}]
    )
    return {
        "messages": [result],
        "log": [{"turn": turn, "text": "x" * 300}],
        "facts": {"last": turn, 5: "five"},
    }


def chat() -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(State)
    graph.add_node("assistant", assistant)
    graph.add_node("tools", tools)
    graph.add_edge(START, "assistant")
    graph.add_edge("assistant", "tools")
    graph.add_conditional_edges("tools", lambda state: "assistant" if state["turn"] < 5 else END)
    return graph


def history(graph: Any, where: Any) -> list[Any]:
    return [
        (snapshot.values, snapshot.next, snapshot.metadata, len(snapshot.tasks))
        for snapshot in graph.get_state_history(where)
    ]


def test_a_graphs_whole_history_equals_the_in_memory_savers(saver: SQLAlchemySaver) -> None:
    expected, ours = (chat().compile(checkpointer=one) for one in (InMemorySaver(), saver))
    for graph in (expected, ours):
        graph.invoke({"messages": [HumanMessage("go", id="h")], "log": []}, config())
        graph.invoke({"messages": [HumanMessage("again", id="h2")], "turn": 4}, config())
    assert history(ours, config()) == history(expected, config())
    kept = ours.get_state(config()).values["messages"]
    assert [message.id for message in kept] == [m.id for m in expected.get_state(config()).values["messages"]]
    assert kept[1].artifact == [1, {2}]


async def test_async_methods_store_what_sync_methods_store(saver: SQLAlchemySaver) -> None:
    graph = chat().compile(checkpointer=saver)
    first = {"messages": [HumanMessage("go", id="h")]}
    graph.invoke(first, config("sync"))
    await graph.ainvoke(first, config("async"))
    sync = history(graph, config("sync"))
    assert [s[:2] for s in history(graph, config("async"))] == [s[:2] for s in sync]
    listed = [item async for item in saver.alist(config("sync"))]
    assert [item.checkpoint for item in listed] == [item.checkpoint for item in saver.list(config("sync"))]
    newest, anewest = saver.get_tuple(config("sync")), await saver.aget_tuple(config("sync"))
    assert newest == anewest


def test_each_message_is_stored_once(shared_saver: SQLAlchemySaver) -> None:
    graph = chat().compile(checkpointer=shared_saver)
    graph.invoke({"messages": [HumanMessage("go", id="h")]}, config())
    stored = scalar(shared_saver, "SELECT count(*) FROM messages")
    assert stored == scalar(shared_saver, "SELECT count(DISTINCT hash) FROM messages")
    # go, changed, five assistant turns but one, five results, four notes
    assert stored == 2 + 4 + 5 + 4
    # another process goes on
    with SQLAlchemySaver(shared_saver.database.url.render_as_string(hide_password=False)) as other:
        second = chat().compile(checkpointer=other)
        second.invoke({"messages": [HumanMessage("more", id="h3")], "turn": 4}, config())
        assert scalar(other, "SELECT count(*) FROM messages") == scalar(
            other, "SELECT count(DISTINCT hash) FROM messages"
        )


def test_ranges_stay_whole_over_many_processes(shared_url: str) -> None:
    for number in range(12):
        with SQLAlchemySaver(shared_url) as saver:
            chat().compile(checkpointer=saver).invoke(
                {"messages": [HumanMessage("go", id=f"h{number}")], "turn": 4}, config()
            )
            newest = scalar(saver, "SELECT channels FROM checkpoints ORDER BY checkpoint_id DESC LIMIT 1")
    assert newest.count("],[") <= 6  # 36 messages and their notes, in blocks of 16


def test_a_fork_and_its_origin_keep_their_own_messages(saver: SQLAlchemySaver) -> None:
    graph = chat().compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("go", id="h")]}, config())
    before = history(graph, config())
    early = [s for s in graph.get_state_history(config()) if s.next == ("tools",)][-1]
    fork = graph.update_state(early.config, {"messages": [AIMessage("another way", id="a0")]})
    graph.invoke(None, fork)
    assert graph.get_state(early.config).values["messages"][-1].content == "looking 0"
    ids = {s.config["configurable"]["checkpoint_id"] for s in graph.get_state_history(config())}
    assert len(ids) > len(before)
    assert "another way" in [m.content for m in graph.get_state(fork).values["messages"]]
    assert history(graph, config())[-len(before) :] == before


def test_a_message_changed_in_place_becomes_a_new_row_and_old_checkpoints_keep_the_old_one(
    saver: SQLAlchemySaver,
) -> None:
    def change(state: State) -> dict[str, Any]:
        state["messages"][0].content = "rewritten"
        state["messages"][1].tool_calls[0]["args"]["deep"]["x"].append("late")
        return {"messages": [AIMessage("done", id="z")]}

    graph = StateGraph(State)
    graph.add_node("change", change)
    graph.add_edge(START, "change")
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("first", id="h"), call(0)]}, config(), durability="sync")
    newest, before, *_ = compiled.get_state_history(config())
    assert newest.values["messages"][0].content == "rewritten"
    assert newest.values["messages"][1].tool_calls[0]["args"]["deep"]["x"] == [1, 2.5, None, "late"]
    assert before.values["messages"][0].content == "first"
    assert before.values["messages"][1] == call(0)


def test_a_value_changed_in_place_is_stored_as_it_stands_at_each_checkpoint(saver: SQLAlchemySaver) -> None:
    class Counting(TypedDict):
        seen: dict[str, Any]

    def count(state: Counting) -> dict[str, Any]:
        state["seen"]["times"] += 1  # and hands on the same object
        return {"seen": state["seen"]}

    graph = StateGraph(Counting)
    for name in ("a", "b", "c"):
        graph.add_node(name, count)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("b", "c")
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"seen": {"times": 0}}, config(), durability="sync")
    told = [one.values["seen"]["times"] for one in compiled.get_state_history(config()) if one.values]
    assert told == [3, 2, 1, 0]


class Frozen:
    """An outbox whose owner changes no message in place; nothing rides on it."""

    frozen = True
    held: Sequence[Held] = ()

    def hold(self, writes: Held) -> bool:
        return False

    def open(self, connection: Connection) -> "Frozen":
        return self

    def check(self) -> None: ...

    def write(self, connection: Connection) -> list[Check]:
        return []

    def stored(self) -> None: ...

    def committed(self) -> None: ...


def test_messages_that_are_said_to_be_frozen_are_not_looked_at_again_and_new_objects_are_seen(
    saver: SQLAlchemySaver,
) -> None:
    def breaks_its_promise(state: State) -> dict[str, Any]:
        state["messages"][0].content = "changed in place"
        return {"messages": [AIMessage("done", id="z")]}

    def replaces(state: State) -> dict[str, Any]:
        return {"messages": [state["messages"][1].model_copy(update={"content": "said anew"})]}

    graph = StateGraph(State)
    graph.add_node("breaks", breaks_its_promise)
    graph.add_node("replaces", replaces)
    graph.add_edge(START, "breaks")
    graph.add_edge("breaks", "replaces")
    compiled = graph.compile(checkpointer=saver)
    first = {"messages": [HumanMessage("first", id="h")]}
    compiled.invoke(first, config(__adjourn_outbox=Frozen()), durability="sync")
    newest, before, *_ = compiled.get_state_history(config())
    assert [one.content for one in before.values["messages"]] == ["first", "done"]
    assert newest.values["messages"][1].content == "said anew"


def test_removing_everything_and_starting_again(saver: SQLAlchemySaver) -> None:
    graph = chat().compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("go", id="h")]}, config())
    mended = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("new", id="x"), HumanMessage("order", id="y")]
    graph.update_state(config(), {"messages": mended}, as_node="tools")
    assert [m.id for m in graph.get_state(config()).values["messages"]] == ["x", "y"]


@pytest.mark.parametrize("answer", ["yes", {"approved": True}])
def test_interrupts_in_subgraphs_survive_a_new_process(shared_url: str, answer: Any) -> None:
    class Inner(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]

    def ask(state: Inner) -> dict[str, Any]:
        said = interrupt({"question": "go on?"})
        return {"messages": [HumanMessage(str(said), id="answer")]}

    def build(saver: SQLAlchemySaver) -> Any:
        inner = StateGraph(Inner)
        inner.add_node("ask", ask)
        inner.add_edge(START, "ask")
        outer = StateGraph(State)
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        return outer.compile(checkpointer=saver)

    with SQLAlchemySaver(shared_url) as saver:
        build(saver).invoke({"messages": [HumanMessage("go", id="h")]}, config())
    with SQLAlchemySaver(shared_url) as saver:
        graph = build(saver)
        waiting = graph.get_state(config(), subgraphs=True)
        assert waiting.interrupts[0].value == {"question": "go on?"}
        assert waiting.tasks[0].state.values["messages"] == [HumanMessage("go", id="h")]
        graph.invoke(Command(resume=answer), config())
        assert graph.get_state(config()).values["messages"][-1].content == str(answer)
        # the subgraph shares its parent's messages
        assert scalar(saver, "SELECT count(*) FROM messages WHERE message_id = 'h'") == 1


def test_parallel_sends_apply_in_langgraphs_order(saver: SQLAlchemySaver) -> None:
    def fan(state: State) -> list[Send]:
        return [
            Send("work", {"turn": number, "messages": [HumanMessage(f"s{number}", id=f"s{number}")]})
            for number in range(7)
        ]

    def build(one: Any) -> Any:
        graph = StateGraph(State)
        graph.add_node("work", lambda state: {"log": [state["turn"]], "messages": state["messages"]})
        graph.add_conditional_edges(START, fan, ["work"])
        return graph.compile(checkpointer=one)

    results = []
    for one in (InMemorySaver(), saver):
        graph = build(one)
        graph.invoke({"log": []}, config())
        results.append(history(graph, config()))
    assert results[0] == results[1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_ends_in_the_same_state(saver: SQLAlchemySaver, durability: Any) -> None:
    graph = chat().compile(checkpointer=saver)
    result = graph.invoke({"messages": [HumanMessage("go", id="h")]}, config(), durability=durability)
    assert graph.get_state(config()).values == result


def test_a_thread_whose_versions_are_text_is_counted_on(saver: SQLAlchemySaver) -> None:
    text = f"{2:032}.0.4837261"  # as SqliteSaver writes them
    following = saver.get_next_version(text, None)
    assert type(following) is str
    assert following > text
    assert saver.get_next_version(following, None) > following
    assert (saver.get_next_version(None, None), saver.get_next_version(1, None)) == (1, 2)


def test_messages_that_are_read_twice_are_equal_and_not_the_same(saver: SQLAlchemySaver) -> None:
    graph = StateGraph(State)
    graph.add_node("say", lambda _state: {"messages": [call(1)]})
    graph.add_edge(START, "say")
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("go", id="h")]}, config())
    first, second, third = (compiled.get_state(config()).values["messages"] for _ in range(3))
    assert first == second == third
    first[1].tool_calls[0]["args"]["deep"]["x"].append("changed")
    second[0].additional_kwargs["note"] = "changed"
    second[0].content = "changed"
    assert compiled.get_state(config()).values["messages"] == third
    assert third[1].tool_calls[0]["args"]["deep"]["x"] == [1, 2.5, None]


def test_why_a_node_failed_is_kept_as_a_text_and_nobody_is_warned_of_its_class(
    saver: SQLAlchemySaver, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Exception):
        pass

    def breaks(state: State) -> dict[str, Any]:
        raise Broken("no disk")

    graph = StateGraph(State)
    graph.add_node("breaks", breaks)
    graph.add_edge(START, "breaks")
    compiled = graph.compile(checkpointer=saver)
    with pytest.raises(Broken):
        compiled.invoke({"turn": 1}, config())
    assert compiled.get_state(config()).tasks[0].error == "Broken('no disk')"
    assert (
        scalar(saver, "SELECT value FROM checkpoint_writes WHERE channel = '__error__'")
        == "\"Broken('no disk')\""
    )
    assert caplog.records == []


async def test_a_saver_is_opened_by_async_with_like_langgraph_s_own(shared_url: str) -> None:
    graph = StateGraph(State)
    graph.add_node("say", lambda _state: {"messages": [call(1)]})
    graph.add_edge(START, "say")
    async with SQLAlchemySaver(shared_url) as saver:
        compiled = graph.compile(checkpointer=saver)
        said = await compiled.ainvoke({"messages": [HumanMessage("go", id="h")]}, config())
        assert (await compiled.aget_state(config())).values == said
