"""Adjourn's nodes in a graph of one's own, and LangGraph's `interrupt()` in a node of one's own (C-37)."""

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from runs.shop import Shop

from adjourn.checkpoints.errors import InvalidAnswer
from adjourn.graph import Runner
from adjourn.graph.routes import next_node
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
            lambda state, node=node: next_node(node, state["outcome"]),
            ["model", "tools", "ask", "finish"],
        )
    builder.add_edge("finish", END)
    return builder.compile(name="own")


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


async def test_nodes_without_a_runner_say_that_there_is_no_ledger():
    async def gate(state: RunState) -> RunState:
        return {}

    graph = own_graph(gate, Shop(), ["hello"])
    with pytest.warns(RuntimeWarning, match="without a ledger"):
        state = await graph.ainvoke({"messages": [("user", "hi")]})
    assert state["messages"][-1].text == "hello"
