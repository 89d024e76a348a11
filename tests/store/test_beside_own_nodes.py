"""Our nodes beside somebody's own in one graph: what rides on whose checkpoint, is counted and is told (C-53, C-65)."""

import asyncio
import operator
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from store.stored_runs import run_row

from adjourn.checkpoints import event_rows, journal, run_rows
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import LeaseLost
from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.hooks import FENCE, OUTBOX
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import Runner
from adjourn.graph.routes import ROUTES
from adjourn.graph.run_log import Before, RunLog
from adjourn.nodes import AskNode, FinishNode, ModelNode, RunState, ScriptedModel, ToolsNode, tool
from adjourn.nodes.masking import Masker
from adjourn.nodes.scripted import call, says

TURNS = [
    *(says("", call("look", {"query": str(one)}, id=f"c{one}"), usage=(10, 1)) for one in range(4)),
    says("done", usage=(10, 1)),
]


@tool(effect="read")
def look(query: str) -> str:
    """Look."""
    return f"found {query}"


def four_nodes(between=None):
    """Our four nodes in a graph of one's own; `between`: a node between tools and model."""
    builder = StateGraph(RunState)
    builder.add_node("model", ModelNode(ScriptedModel(turns=TURNS, by_history=True), [look]))
    builder.add_node("tools", ToolsNode([look]))
    builder.add_node("ask", AskNode())
    builder.add_node("finish", FinishNode())
    builder.add_node("between", between or (lambda state: {}))
    builder.add_edge(START, "model")
    for node in ("model", "tools", "ask"):
        builder.add_conditional_edges(node, _route(node))
    builder.add_edge("between", "model")
    builder.add_edge("finish", END)
    return builder.compile(name="own")


def _route(node):
    def route(state):
        to = ROUTES[node][state["outcome"]]
        return "between" if to == "model" else to

    return route


async def counted(runner, run):
    """Tokens by the run's row, tokens by its steps, and the words of its events with how often each was told."""
    row = await runner.database.aread(lambda c: journal.read_run(c, run.id))
    steps = await runner.database.aread(lambda c: run_rows.steps(c, run.id)())
    events = await runner.database.aread(lambda c: event_rows.read(c, run.id))
    assert [one.number for one in events] == list(range(1, len(events) + 1))
    words = [one.word for one in events]
    return (
        (row.steps, row.input_tokens, row.output_tokens),
        (len(steps), sum(one.input_tokens for one in steps), sum(one.output_tokens for one in steps)),
        {word: words.count(word) for word in dict.fromkeys(words)},
    )


async def test_a_message_that_an_own_node_changes_in_place_is_stored(shared_url):
    async def change(state: RunState):
        first = state["messages"][0]
        first.content = f"seen {sum(one.type == 'tool' for one in state['messages'])}"
        return {"messages": [first]}

    with Runner(four_nodes(change), shared_url) as runner:
        run = await runner.start("go")
        assert run.answer == "done"
    with SQLAlchemySaver(shared_url) as saver:
        stored = saver.get_tuple({"configurable": {"thread_id": run.thread_id}})
    assert stored.checkpoint["channel_values"]["messages"][0].content == "seen 4"


async def test_c53_an_own_node_that_asks_our_model_twice_is_counted_twice(shared_url):
    asks = ModelNode(ScriptedModel(turns=[says("one", usage=(10, 1)), says("two", usage=(20, 2))]), [])

    async def twice(state, config):
        first = await asks(state, config)
        second = await asks({**state, **first, "messages": [*state["messages"], *first["messages"]]}, config)
        return {**second, "messages": [*first["messages"], *second["messages"]]}

    builder = StateGraph(RunState)
    builder.add_node("twice", twice)
    builder.add_node("finish", FinishNode())
    builder.add_edge(START, "twice")
    builder.add_edge("twice", "finish")
    builder.add_edge("finish", END)
    with Runner(builder.compile(name="own"), shared_url) as runner:
        run = await runner.start("go")
        on_the_run, by_steps, _ = await counted(runner, run)
    assert on_the_run == by_steps == (2, 30, 3)


class Marks(TypedDict):
    marks: Annotated[list, operator.add]


class Both(RunState, total=False):
    marks: Annotated[list, operator.add]


def steps_of_their_own(many):
    """A chain of nodes of one's own, each with its checkpoint."""
    builder = StateGraph(Marks)
    before = START
    for number in range(many):

        async def mark(state, number=number):
            await asyncio.sleep(0)
            return {"marks": [number]}

        builder.add_node(f"n{number}", mark)
        builder.add_edge(before, f"n{number}")
        before = f"n{number}"
    builder.add_edge(before, END)
    return builder.compile(name="theirs")


async def test_c53_c65_checkpoints_of_a_branch_beside_it_lose_nothing_of_a_loop(shared_url):
    builder = StateGraph(Both)
    builder.add_node("ours", four_nodes())
    builder.add_node("theirs", steps_of_their_own(40))
    for node in ("ours", "theirs"):
        builder.add_edge(START, node)
    builder.add_edge(["ours", "theirs"], END)
    told = {"run_started": 1, "step_started": 5, "message": 5, "tool_call": 4, "tool_result": 4}
    with Runner(builder.compile(name="both"), shared_url) as runner:
        for number in range(3):
            run = await runner.start(f"go {number}")
            on_the_run, by_steps, words = await counted(runner, run)
            assert on_the_run == by_steps == (5, 50, 5), run.error
            assert words == {**told, "run_finished": 1}


def test_c65_a_put_that_begins_before_the_last_one_was_told_forgets_none_of_its_events(shared_url):
    heard = []
    row = run_row("r", thread_id="t")
    with SQLAlchemySaver(shared_url) as saver:
        saver.database.write(lambda c: journal.insert_run(c, row))
        log = RunLog(saver.database, row, Before(), heard.append, Masker())

        def put(ns):
            named = {"thread_id": "t", "checkpoint_ns": ns, FENCE: log, OUTBOX: log}
            metadata = {"source": "loop", "step": 1, "parents": {}}
            return saver._put({"configurable": named}, empty_checkpoint(), metadata, {})[1]

        log.emit(StepStarted(run_id="r", path="", step=1))
        first = put("a")
        log.emit(StepStarted(run_id="r", path="", step=2))
        second = put("b")
        second.committed()
        assert heard == []  # the first one's number comes first
        first.committed()
        assert [(one.number, one.step) for one in heard] == [(1, 1), (2, 2)]
        assert saver.database.read(lambda c: event_rows.read(c, "r")) == heard


def test_c90_a_put_of_a_stale_owner_is_refused_with_and_without_rows(shared_url):
    row = run_row("r", thread_id="t")
    database = Database(shared_url)
    with SQLAlchemySaver(database) as saver:
        database.write(lambda c: journal.insert_run(c, row))
        log = RunLog(database, row, Before(), lambda _: None, Masker())
        log.fence = 7
        where = {"configurable": {"thread_id": "t", "checkpoint_ns": "", FENCE: log, OUTBOX: log}}
        for _ in range(2):
            with pytest.raises(LeaseLost):
                saver.put(where, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})
            log.emit(StepStarted(run_id="r", path="", step=1))
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
        assert database.read(lambda c: event_rows.read(c, "r")) == []
    database.close()
