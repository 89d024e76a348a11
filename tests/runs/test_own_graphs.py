"""Adjourn's nodes in a graph of one's own, and LangGraph's `interrupt()` in a node of one's own (C-37)."""

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from runs.shop import Shop

from adjourn.checkpoints.errors import InvalidAnswer
from adjourn.graph import Limits, Runner
from adjourn.graph.routes import ROUTES
from adjourn.nodes import AskNode, FinishNode, ModelNode, RunState, ScriptedModel, ToolsNode
from adjourn.nodes.scripted import call, says


def own_graph(gate, shop, turns):
    tools = shop.tools()
    builder = StateGraph(RunState)
    builder.add_node("gate", gate)
    builder.add_node("model", ModelNode(ScriptedModel(turns=turns, by_history=True), tools))
    builder.add_node("tools", ToolsNode(tools))
    builder.add_node("ask", AskNode())
    builder.add_node("finish", FinishNode())
    builder.add_edge(START, "gate")
    builder.add_edge("gate", "model")
    for node in ("model", "tools", "ask"):
        builder.add_conditional_edges(
            node,
            lambda state, node=node: ROUTES[node][state["outcome"]],
            ["model", "tools", "ask", "finish"],
        )
    builder.add_edge("finish", END)
    return builder.compile(name="own")


class Chat(MessagesState):
    plan: str


class ChatOfOurs(RunState, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.mark.parametrize("state", [MessagesState, Chat, ChatOfOurs, RunState])
async def test_our_nodes_stand_in_states_that_have_langgraph_s_own_messages(state):
    builder = StateGraph(state)
    builder.add_node("model", ModelNode(ScriptedModel(turns=["hello"]), []))
    builder.add_edge(START, "model")
    with pytest.warns(RuntimeWarning, match="without a ledger"):
        end = await builder.compile().ainvoke({"messages": [HumanMessage("hi")]})
    assert [one.text for one in end["messages"]] == ["hi", "hello"]


async def test_a_graph_that_counts_no_steps_asks_and_goes_on(url):
    class Bare(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        run_id: str
        stop_reason: str

    async def ask(state: Bare) -> dict[str, Any]:
        return {"messages": [AIMessage(f"so: {interrupt('why?')}")], "stop_reason": "answered"}

    builder = StateGraph(Bare)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    with Runner(builder.compile(name="bare"), url) as runner:
        run = await runner.start("go")
        done = await runner.resume(run.id, {run.interrupts[0].id: "because"})
    assert (run.status, done.status, done.answer) == ("interrupted", "finished", "so: because")


async def test_c37_a_question_of_a_node_of_one_s_own_is_answered_like_any_other(url):
    heard = []

    async def gate(state: RunState) -> RunState:
        heard.append(interrupt({"ask": "May I begin?"}, response_schema={"type": "boolean"}))
        return {"note": f"the gate said {heard[-1]}"}

    shop = Shop()
    turns = [says("", call("search_docs", {"query": "x"}, id="s")), "done"]
    with Runner(own_graph(gate, shop, turns), url) as first:
        run = await first.start("go")
        assert (run.status, run.interrupts[0].type) == ("interrupted", "custom")
        assert run.interrupts[0].payload == {"value": {"ask": "May I begin?"}}
        with pytest.raises(InvalidAnswer):
            await first.resume(run.id, {run.interrupts[0].id: "yes"})
    with Runner(own_graph(gate, shop, turns), url) as other:
        done = await other.resume(run.id, {run.interrupts[0].id: True}, by="li")
    assert (done.status, done.answer, heard) == ("finished", "done", [True])
    assert done.questions[0].answered_by == "li"


@dataclass
class Ticket:
    number: int
    tags: list[str]


class Owner(BaseModel):
    name: str


class OwnState(RunState, total=False):
    ticket: Ticket
    owners: dict[str, Owner]


async def test_c43_classes_that_a_state_names_are_the_same_in_another_process(url):
    seen = []

    async def gate(state: OwnState) -> OwnState:
        seen.append((state.get("ticket"), state.get("owners")))
        if "ticket" not in state:
            return {"ticket": Ticket(7, ["db"]), "owners": {"li": Owner(name="Li")}}
        interrupt("Go on?")
        return {}

    def graph():
        builder = StateGraph(OwnState)
        builder.add_node("open", gate)
        builder.add_node("gate", gate)
        builder.add_node("finish", FinishNode())
        for one, other in ((START, "open"), ("open", "gate"), ("gate", "finish"), ("finish", END)):
            builder.add_edge(one, other)
        return builder.compile(name="tickets")

    with Runner(graph(), url) as first:
        run = await first.start("go")
    with Runner(graph(), url) as other:
        await other.resume(run.id, {run.interrupts[0].id: True})
    assert seen[1:] == [(Ticket(7, ["db"]), {"li": Owner(name="Li")})] * 2


async def test_nodes_without_a_runner_say_that_there_is_no_ledger():
    async def gate(state: RunState) -> RunState:
        return {}

    graph = own_graph(gate, Shop(), ["hello"])
    with pytest.warns(RuntimeWarning, match="without a ledger"):
        state = await graph.ainvoke({"messages": [("user", "hi")]})
    assert state["messages"][-1].text == "hello"


def plain_graph(turns, tools, **settings):
    """The four nodes with LangGraph alone: no runner, no store of ours."""
    limits = settings.pop("limits", None)
    builder = StateGraph(RunState)
    builder.add_node("model", ModelNode(ScriptedModel(turns=turns), tools, limits=limits, **settings))
    builder.add_node("tools", ToolsNode(tools, limits=limits))
    builder.add_node("ask", AskNode())
    builder.add_node("finish", FinishNode())
    builder.add_edge(START, "model")
    for node in ("model", "tools", "ask"):
        builder.add_conditional_edges(
            node,
            lambda state, node=node: ROUTES[node][state["outcome"]],
            ["model", "tools", "ask", "finish"],
        )
    builder.add_edge("finish", END)
    return builder.compile(checkpointer=InMemorySaver())


T = {"configurable": {"thread_id": "t"}}


@pytest.mark.filterwarnings("ignore:these nodes run without a ledger")
async def test_c53_c54_limits_and_guards_hold_without_a_runner_and_a_message_begins_anew():
    shop = Shop()
    look = says("", call("search_docs", {"query": "x"}, id="s"))
    graph = plain_graph([look, look, look, look, "the pool"], shop.tools())
    state = await graph.ainvoke({"messages": [("user", "查一下")]}, T)
    assert (state["stop_reason"], shop.count("search_docs")) == ("loop_detected", 1)
    assert state["messages"][-1].text.startswith("同样的调用")
    state = await graph.ainvoke({"messages": [("user", "again")]}, T)  # counted from here
    assert (state["stop_reason"], state["step"], shop.count("search_docs")) == ("answered", 2, 2)
    assert state["messages"][-1].text == "the pool"


@pytest.mark.filterwarnings("ignore:these nodes run without a ledger")
@pytest.mark.alone
async def test_c53_time_is_counted_without_a_runner_and_not_while_it_waits():
    shop = Shop({"search_docs": 0.2, "restart_service": 0.2})
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    turns = [says("", call("search_docs", {"query": "x"}, id="s"), restart)]
    turns += [says("", call("search_docs", {"query": str(n)}, id="s")) for n in range(9)]
    graph = plain_graph(turns, shop.tools(), limits=Limits(max_active_s=0.7))
    state = await graph.ainvoke({"messages": [("user", "go")]}, T)
    (pending,) = state["__interrupt__"]
    (question,) = pending.value["questions"]
    await asyncio.sleep(0.5)
    state = await graph.ainvoke(Command(resume={question["id"]: {"answer": {"action": "approve"}}}), T)
    assert (state["stop_reason"], shop.count("restart_service")) == ("timeout", 1)
    assert shop.count("search_docs") in (1, 2)
    assert 0.6 <= state["counters"]["active_ms"] / 1000 < 1.2


@pytest.mark.filterwarnings("ignore:these nodes run without a ledger")
@pytest.mark.alone
async def test_c53_max_wall_s_counts_from_the_message_without_a_runner():
    shop = Shop({"search_docs": 0.1})
    turns = [says("", call("search_docs", {"query": str(n)}, id="s")) for n in range(9)]
    graph = plain_graph(turns, shop.tools(), limits=Limits(max_wall_s=0.25))
    began = time.monotonic()
    state = await graph.ainvoke({"messages": [("user", "go")]}, T)
    assert state["stop_reason"] == "timeout"
    assert time.monotonic() - began < 0.6
