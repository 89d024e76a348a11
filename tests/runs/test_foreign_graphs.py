"""A LangGraph graph of one's own at the top, as a specialist, and as a step of a flow (C-79 to C-82)."""

import asyncio
import operator
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, interrupt
from pydantic import BaseModel, field_validator
from sqlalchemy import text

from adjourn.checkpoints import journal
from adjourn.checkpoints.errors import InvalidAnswer, UsageError
from adjourn.graph import (
    Limits,
    Runner,
    Specialist,
    build_react,
    build_serial,
    build_supervisor,
    from_langgraph,
)
from adjourn.nodes import FunctionStep, GraphStep, ScriptedModel, tool
from adjourn.nodes.scripted import call, says


def hand(specialist: str, task: str = "go", id: str = "d1") -> Any:
    return call("delegate", {"specialist": specialist, "task": task}, id=id)


def scripted(*turns: Any, **settings: Any) -> ScriptedModel:
    return ScriptedModel(turns=list(turns), by_history=True, **settings)


class World:
    """What nodes really did, over one store; each process is a runner."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/own.db"
        self.done: list[str] = []

    def node(self, name: str) -> Any:
        async def work(state: Any) -> dict[str, Any]:
            self.done.append(name)
            return {"messages": [AIMessage(f"{name} done")]}

        return work

    def gate(self, name: str, schema: Any = None) -> Any:
        async def ask(state: Any) -> dict[str, Any]:
            said = interrupt({"ask": name}, response_schema=schema or {"type": "boolean"})
            self.done.append(f"{name} {said}")
            return {"messages": [AIMessage(f"{name}: {said}")]}

        return ask

    def graph(self, *names: str, ask: str | None = "ask", schema: Any = None) -> Any:
        """Nodes in a row, one of which asks."""
        builder: Any = StateGraph(MessagesState)
        before = START
        for name in names:
            builder.add_node(name, self.gate(name, schema) if name == ask else self.node(name))
            builder.add_edge(before, name)
            before = name
        builder.add_edge(before, END)
        return builder.compile(name="own")

    def supervisor(self, *turns: Any, **graphs: Any) -> Any:
        team = [Specialist(name=name, about="works", graph=graph) for name, graph in graphs.items()]
        return build_supervisor(scripted(*turns), team, name="boss")

    async def rows(self) -> list[Any]:
        with Runner(self.graph("x", ask=None), self.url) as looking:
            found = await looking.database.aread(lambda c: journal.list_runs(c, limit=None))
        return sorted(found, key=lambda one: (one.path, one.created_at))


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


async def test_c80_c82_a_graph_of_ones_own_is_a_specialist_and_its_question_comes_up(world):
    def graph():
        return world.supervisor(says("", hand("own")), "all done", own=world.graph("first", "ask", "last"))

    with Runner(graph(), world.url) as one:
        run = await one.start("go", by="wang")
    (question,) = run.interrupts
    assert (run.status, question.path, question.type) == ("interrupted", "own", "custom")
    assert question.payload == {"value": {"ask": "ask"}}
    top, child = await world.rows()
    assert (child.parent_run_id, child.path, child.status, child.input) == (
        top.id,
        "own",
        "interrupted",
        "go",
    )
    assert child.thread_id.startswith(f"{top.id}/1/d1")
    with Runner(graph(), world.url) as other:
        with pytest.raises(InvalidAnswer):
            await other.resume(run.id, {question.id: "yes"}, by="li")
        over = await other.resume(run.id, {question.id: True}, by="li")
    assert (over.status, over.answer) == ("finished", "all done")
    assert over.calls[0].result == '{"ok": true, "data": {"specialist": "own", "answer": "last done"}}'
    assert world.done == ["first", "ask True", "last"]  # what was done before the question was not done again
    assert [row.status for row in await world.rows()] == ["finished"] * 2
    assert over.children[0].questions[0].answered_by == "li"


async def test_c79_a_graph_of_ones_own_is_the_step_of_a_flow(world):
    @tool(effect="read")
    def told(own: str) -> str:
        """What came of it."""
        return f"told: {own}"

    def graph():
        steps = [
            GraphStep(name="own", graph=world.graph("first", "ask", "last"), task="Do it."),
            FunctionStep(name="told", function=told),
        ]
        return build_serial(scripted(), steps, closing=False, name="flow")

    with Runner(graph(), world.url) as one:
        run = await one.start("go")
    assert [(one.path, one.type) for one in run.interrupts] == [("own", "custom")]
    assert [(one.step, one.status) for one in run.flow] == [("own", "running"), ("told", "pending")]
    assert [row.input for row in await world.rows()] == ["go", "Do it."]
    with Runner(graph(), world.url) as other:
        over = await other.resume(run.id, {run.interrupts[0].id: True}, by="li")
    assert [(one.step, one.status) for one in over.flow] == [("own", "done"), ("told", "done")]
    assert over.calls[-1].result == '{"ok": true, "data": "told: last done"}'
    assert world.done == ["first", "ask True", "last"]


async def test_c37_a_graph_of_ones_own_is_driven_at_the_top_and_keeps_its_conversation(world):
    with Runner(world.graph("ask", "last"), world.url) as one:
        run = await one.start("go", thread_id="t")
    with Runner(world.graph("ask", "last"), world.url) as other:
        over = await other.resume(run.id, {run.interrupts[0].id: False}, by="li")
        assert (over.status, over.stop_reason, over.answer) == ("finished", "answered", "last done")
        again = await other.start("again", thread_id="t")
        state = await other.graph.aget_state({"configurable": {"thread_id": "t"}})
    assert again.status == "interrupted"
    assert [one.text for one in state.values["messages"]] == ["go", "last done", "again"]


class Sums(TypedDict):
    numbers: Annotated[list[int], operator.add]
    total: int


def adder() -> Any:
    """A graph without messages."""
    builder = StateGraph(Sums)
    builder.add_node("double", lambda state: {"numbers": state["numbers"]})
    builder.add_node("total", lambda state: {"total": sum(state["numbers"])})
    builder.add_edge(START, "double")
    builder.add_edge("double", "total")
    builder.add_edge("total", END)
    return builder.compile(name="adder")


def mapped() -> Any:
    return from_langgraph(
        adder(),
        input=lambda task: {"numbers": [int(one) for one in task.split()]},
        output=lambda values: {"total": values["total"]},
        effect="read",
    )


async def test_c79_c80_a_graph_without_messages_has_its_input_and_output_mapped(world):
    flow = build_serial(
        scripted(says("", hand("adder", "1 2")), "six"),
        [GraphStep(name="sum", graph=mapped(), task="1 2")],
        closing=False,
        name="flow",
    )
    with Runner(flow, world.url) as runner:
        run = await runner.start("go")
        assert run.calls[0].result == '{"ok": true, "data": "{\\"total\\": 6}"}'
    graph = world.supervisor(says("", hand("adder", "3 4")), "14", adder=mapped())
    with Runner(graph, world.url) as runner:
        assert '{\\"total\\": 14}' in (await runner.start("go")).calls[0].result


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda world: from_langgraph(adder()), "no channel `messages`"),
        (lambda world: Runner(adder(), world.url), "no channel `messages`"),
        (lambda world: Specialist(name="a", about="x", graph=adder()).as_tool(), "no channel `messages`"),
        (lambda world: from_langgraph("graph"), "no compiled graph"),
        (
            lambda world: from_langgraph(StateGraph(MessagesState)),
            "no compiled graph",
        ),
        (lambda world: from_langgraph(kept_elsewhere()), "without a checkpointer"),
        (lambda world: from_langgraph(holds_ours()), "a run of its own"),
        (lambda world: from_langgraph(one_node(echo, interrupt_before=["node"])), "call interrupt"),
        (
            lambda world: Runner(one_node(one_node(echo, interrupt_after=["node"])), world.url),
            "call interrupt",
        ),
    ],
)
def test_what_cannot_be_driven_is_refused_when_it_is_built(world, made, why):
    with pytest.raises(UsageError, match=why):
        made(world)


def one_node(node: Any, **settings: Any) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(**settings)


def echo(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage("done")]}


async def test_c79_a_graph_keeps_the_store_and_the_cache_that_it_was_compiled_with(world):
    done = []

    def noted(state: Any, runtime: Runtime[None]) -> dict[str, Any]:
        done.append("noted")
        assert runtime.store is not None
        return {"messages": [AIMessage(runtime.store.get(("u",), "k").value["name"])]}

    store, builder = InMemoryStore(), StateGraph(MessagesState)
    store.put(("u",), "k", {"name": "li"})
    builder.add_node("noted", noted, cache_policy=CachePolicy(key_func=lambda state: b"same"))
    builder.add_edge(START, "noted")
    builder.add_edge("noted", END)
    graph = from_langgraph(builder.compile(name="noted", store=store, cache=InMemoryCache()))
    with Runner(graph, world.url) as runner:
        answers = [(await runner.start("go")).answer for _ in range(2)]
    assert (answers, done) == (["li", "li"], ["noted"])


def kept_elsewhere() -> Any:
    return one_node(lambda state: {}, checkpointer=InMemorySaver())


def holds_ours() -> Any:
    return one_node(build_react(scripted()))


def asking(model: Any, times: int) -> Any:
    """A graph that asks its model so many times, one node after the other."""
    builder: Any = StateGraph(MessagesState)
    before = START
    for number in range(times):

        async def ask(state: Any) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder.add_node(f"ask{number}", ask)
        builder.add_edge(before, f"ask{number}")
        before = f"ask{number}"
    builder.add_edge(before, END)
    return builder.compile(name="asking")


async def test_c81_what_its_models_spend_is_written_down_and_counts_above(world):
    model = scripted(*[says(f"t{n}", usage=(400, 100)) for n in range(3)])
    boss = scripted(says("", hand("own")), "never said")
    team = [Specialist(name="own", about="asks", graph=asking(model, 3))]
    graph = build_supervisor(boss, team, limits=Limits(max_total_tokens=1200), name="boss")
    with Runner(graph, world.url) as runner:
        run = await runner.start("go")
        assert run.stop_reason == "budget_spent" and "t2" in run.calls[0].result
        (child,) = run.children
    assert [(one.step, one.input_tokens, one.output_tokens) for one in child.steps] == [
        (n, 400, 100) for n in (1, 2, 3)
    ]
    assert (child.row.steps, child.row.input_tokens, child.row.output_tokens) == (3, 1200, 300)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(max_steps=2), "max_steps"), (Limits(max_total_tokens=900), "budget_spent")],
)
async def test_c81_a_graph_at_its_limit_tells_what_it_found(world, limits, reason):
    model = scripted(*[says(f"t{n}", usage=(400, 100)) for n in range(9)])
    team = [Specialist(name="own", about="asks", graph=asking(model, 9), limits=limits)]
    graph = build_supervisor(scripted(says("", hand("own")), "enough"), team, name="boss")
    with Runner(graph, world.url) as runner:
        run = await runner.start("go")
    (only,) = run.calls
    assert (only.error_code, run.answer) == ("specialist_stopped", "enough")
    assert reason in only.result and "t1" in only.result and "t2" not in only.result
    assert (run.children[0].stop_reason, run.children[0].row.steps) == (reason, 2)


async def test_c53_c81_a_graph_spends_no_more_than_its_supervisor_has(world):
    model = scripted(*[says(f"t{n}", usage=(400, 100)) for n in range(9)])
    team = [Specialist(name="own", about="asks", graph=asking(model, 9))]
    graph = build_supervisor(
        scripted(says("", hand("own")), "never"), team, limits=Limits(max_total_tokens=1200), name="boss"
    )
    with Runner(graph, world.url) as runner:
        run = await runner.start("go")
    assert (run.stop_reason, run.children[0].stop_reason) == ("budget_spent", "budget_spent")
    assert run.children[0].row.steps == 3 and "t2" in run.calls[0].result


async def test_c81_a_graph_whose_time_is_over_is_stopped(world):
    async def slow(state: Any) -> Any:
        world.done.append("slow")
        await asyncio.sleep(60)

    team = [Specialist(name="own", about="slow", graph=one_node(slow), limits=Limits(max_active_s=0.3))]
    graph = build_supervisor(scripted(says("", hand("own")), "enough"), team, name="boss")
    with Runner(graph, world.url) as runner:
        run = await runner.start("go")
    assert (run.calls[0].error_code, run.children[0].stop_reason, world.done) == (
        "specialist_stopped",
        "timeout",
        ["slow"],
    )


async def test_c82_a_cancel_reaches_a_graph_at_work_and_one_that_waits(world):
    entered = asyncio.Event()

    async def slow(state: Any) -> Any:
        entered.set()
        await asyncio.sleep(60)

    graph = world.supervisor(
        says("", hand("slow", id="d1"), hand("asks", id="d2")),
        "never",
        slow=from_langgraph(one_node(slow), effect="read"),
        asks=from_langgraph(world.graph("ask"), effect="read"),
    )
    with Runner(graph, world.url) as runner:
        running = asyncio.create_task(runner.start("go", run_id="run_c"))
        await entered.wait()
        began = asyncio.get_running_loop().time()
        over = await runner.cancel("run_c")
        assert asyncio.get_running_loop().time() - began < 2
        await running
    assert over.status == "cancelled" and over.interrupts == ()
    assert {row.status for row in await world.rows()} == {"cancelled"}
    assert world.done == []


async def test_c81_a_graph_that_fails_is_told_and_goes_on_behind_what_it_did(world):
    fails = [True]

    async def flaky(state: Any) -> Any:
        if fails.pop() if fails else False:
            raise RuntimeError("the link is down")
        return await world.node("flaky")(state)

    def own():
        builder: Any = StateGraph(MessagesState)
        builder.add_node("first", world.node("first"))
        builder.add_node("flaky", flaky)
        builder.add_edge(START, "first")
        builder.add_edge("first", "flaky")
        builder.add_edge("flaky", END)
        return builder.compile(name="flaky")

    with Runner(own(), world.url) as runner:
        run = await runner.start("go")
        assert run.status == "failed" and "the link is down" in run.error["message"]
    with Runner(own(), world.url) as runner:
        run = await runner.resume(run.id)
        assert (run.status, world.done) == ("finished", ["first", "flaky"])
    fails.append(True)
    turns = [says("", hand("own", id="d1")), says("", hand("own", id="d2")), "done"]
    with Runner(world.supervisor(*turns, own=own()), world.url) as runner:
        run = await runner.start("go")
    assert [one.error_code for one in run.calls] == ["unavailable", None]
    assert "the link is down" in run.calls[0].result


async def test_c46_nodes_that_ask_at_once_and_one_that_asks_twice(world):
    async def twice(state: Any) -> Any:
        answers = [interrupt(f"twice {n}", response_schema={"type": "integer"}) for n in (1, 2)]
        world.done.append(f"twice {answers}")

    def own():
        builder: Any = StateGraph(MessagesState)
        builder.add_node("twice", twice)
        builder.add_node("once", world.gate("once"))
        builder.add_node("work", world.node("work"))
        for name in ("twice", "once", "work"):
            builder.add_edge(START, name)
            builder.add_edge(name, END)
        return builder.compile(name="many")

    def graph():
        return world.supervisor(says("", hand("own")), "done", own=own())

    with Runner(graph(), world.url) as runner:
        run = await runner.start("go")
    assert len(run.interrupts) == 2 and world.done == ["work"]
    asked = 0
    while run.status == "interrupted":
        asked += 1
        question = run.interrupts[-1]
        answer = True if question.payload == {"value": {"ask": "once"}} else asked
        with Runner(graph(), world.url) as runner:
            run = await runner.resume(run.id, {question.id: answer}, by="li")
    assert (run.status, asked) == ("finished", 3)
    assert world.done[0] == "work" and sorted(world.done[1:]) in (
        ["once True", "twice [1, 3]"],
        ["once True", "twice [2, 3]"],
    )


async def test_c21_graphs_that_write_work_one_after_the_other_and_those_that_read_side_by_side(world):
    inside: list[int] = [0, 0]

    async def node(state: Any) -> Any:
        inside[0] += 1
        inside[1] = max(inside)
        await asyncio.sleep(0.1)
        inside[0] -= 1
        return {"messages": [AIMessage("x")]}

    for effect, most in (("write", 1), ("read", 2)):
        inside[:] = [0, 0]
        one, other = (from_langgraph(one_node(node), effect=effect, name=name) for name in "ab")
        graph = world.supervisor(
            says("", hand("one", id="d1"), hand("other", id="d2")), "done", one=one, other=other
        )
        with Runner(graph, world.url) as runner:
            assert (await runner.start("go")).status == "finished"
        assert inside[1] == most


async def test_c53_models_asked_on_threads_are_counted_too(world):
    model = ScriptedModel(turns=[says(f"t{n}", usage=(40, 10)) for n in range(4)])

    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder: Any = StateGraph(MessagesState)
    for name in ("a", "b", "c"):
        builder.add_node(name, ask)
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    with Runner(builder.compile(name="threads"), world.url) as runner:
        run = await runner.start("go")
    assert (run.status, run.row.steps, run.row.input_tokens, run.row.output_tokens) == (
        "finished",
        3,
        120,
        30,
    )
    assert [one.step for one in run.steps] == [1, 2, 3]


async def test_c59_a_cancel_does_not_wait_for_a_node_on_a_thread(world):
    entered, go = threading.Event(), threading.Event()

    def stuck(state: Any) -> Any:
        entered.set()
        go.wait(30)

    with Runner(one_node(stuck, name="stuck"), world.url) as runner:
        running = asyncio.create_task(runner.start("go", run_id="run_s"))
        await asyncio.to_thread(entered.wait, 10)
        began = time.monotonic()
        over = await runner.cancel("run_s")
        took = time.monotonic() - began
        go.set()
        await running
    assert (over.status, over.stop_reason) == ("cancelled", "cancelled") and took < 2


async def test_c50_a_plain_message_on_a_waiting_graph_begins_it_anew(world):
    with Runner(world.graph("first", "ask"), world.url) as runner:
        run = await runner.start("go", thread_id="t")
        again = await runner.start("leave it", thread_id="t")
        assert (await runner.get(run.id)).stop_reason == "dismissed"
        over = await runner.resume(again.id, {again.interrupts[0].id: True}, by="li")
        state = await runner.graph.aget_state({"configurable": {"thread_id": "t"}})
    assert (over.status, world.done) == ("finished", ["first", "first", "ask True"])
    assert [one.text for one in state.values["messages"]] == ["go", "leave it", "ask: True"]


async def test_c92_a_waiting_graph_is_forked_and_both_go_on(world):
    with Runner(world.graph("first", "ask", "last"), world.url) as runner:
        run = await runner.start("go")
        fork = await runner.fork(run.id)
        assert fork.status == "interrupted" and fork.interrupts[0].id != run.interrupts[0].id
        other = await runner.resume(fork.id, {fork.interrupts[0].id: False}, by="li")
        over = await runner.resume(run.id, {run.interrupts[0].id: True}, by="li")
    assert (other.status, over.status) == ("finished", "finished")
    assert sorted(one for one in world.done if one.startswith("ask")) == ["ask False", "ask True"]


async def test_c91_a_killed_owner_s_graph_goes_on_behind_what_it_did(world):
    """Before the first node has ended, and behind the last one: see also the kill tests."""
    with Runner(world.graph("first", "ask", "last"), world.url) as runner:
        run = await runner.start("go")
        await runner.database.awrite(
            lambda c: c.execute(
                text(
                    "UPDATE runs SET status = 'running', lease_owner = 'gone', lease_until = '2000-01-01T00:00:00.000000Z'"
                )
            )
        )
    with Runner(world.graph("first", "ask", "last"), world.url) as other:
        again = await other.recover(run.id)
        assert [one.id for one in again.interrupts] == [run.interrupts[0].id]
        over = await other.resume(run.id, {run.interrupts[0].id: True}, by="li")
    assert over.status == "finished" and world.done == ["first", "ask True", "last"]


async def test_an_agent_of_langchains_own_is_a_specialist(world):
    """`create_agent`, with a tool that asks by LangGraph's `interrupt()`."""

    def pay(amount: int) -> str:
        """Pay."""
        said = interrupt(f"Pay {amount}?", response_schema={"type": "boolean"})
        world.done.append(f"paid {amount} {said}")
        return "paid"

    def graph():
        turns = [
            says("", call("pay", {"amount": 7}, id="p"), usage=(10, 5)),
            says("it is paid", usage=(20, 5)),
        ]
        agent = create_agent(scripted(*turns), [pay], name="agent")
        return world.supervisor(says("", hand("agent")), "all done", agent=agent)

    with Runner(graph(), world.url) as runner:
        run = await runner.start("go")
    (question,) = run.interrupts
    assert (question.path, question.reason) == ("agent", "Pay 7?")
    with Runner(graph(), world.url) as runner:
        over = await runner.resume(run.id, {question.id: True}, by="li")
    assert (over.status, world.done) == ("finished", ["paid 7 True"])
    assert "it is paid" in over.calls[0].result
    (child,) = over.children
    assert (child.row.steps, child.row.input_tokens, child.row.output_tokens) == (2, 30, 10)


async def test_c84_classes_of_its_state_are_the_same_in_another_process(world):
    @dataclass
    class Ticket:
        number: int

    class State(MessagesState):
        ticket: Ticket

    seen: list[Any] = []

    async def make(state: Any) -> Any:
        return {"ticket": Ticket(7)}

    async def ask(state: Any) -> Any:
        interrupt("Go on?", response_schema={"type": "boolean"})
        seen.append(state["ticket"])
        return {"messages": [AIMessage("x")]}

    def own() -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("make", make)
        builder.add_node("ask", ask)
        builder.add_edge(START, "make")
        builder.add_edge("make", "ask")
        builder.add_edge("ask", END)
        return builder.compile(name="tickets")

    with Runner(world.supervisor(says("", hand("own")), "done", own=own()), world.url) as runner:
        run = await runner.start("go")
    with Runner(world.supervisor(says("", hand("own")), "done", own=own()), world.url) as runner:
        await runner.resume(run.id, {run.interrupts[0].id: True}, by="li")
    assert seen == [Ticket(7)]


class Ticket(BaseModel):
    """What has to be known."""

    reason: str

    @field_validator("reason")
    @classmethod
    def is_told(cls, value: str) -> str:
        if value == "x":
            raise ValueError("say more than x")
        return value


@pytest.mark.parametrize("top", [True, False])
async def test_c45_an_answer_that_only_the_node_s_validators_refuse_is_asked_again(world, top):
    async def ask(state: Any) -> Any:
        world.done.append(interrupt("Which ticket?", response_schema=Ticket).reason)
        return {"messages": [AIMessage("well")]}

    def graph():
        own = one_node(ask, name="own")
        return own if top else world.supervisor(says("", hand("own")), "all done", own=own)

    with Runner(graph(), world.url) as runner:
        run = await runner.start("go")
        first = run.interrupts[0].id
        run = await runner.resume(run.id, {first: {"reason": "x"}}, by="li")
        (again,) = run.interrupts
        assert (run.status, again.id == first, world.done) == ("interrupted", False, [])
        assert "say more than x" in again.reason
    with Runner(graph(), world.url) as other:
        run = await other.resume(run.id, {again.id: {"reason": "disk"}}, by="wang")
    assert (run.status, world.done) == ("finished", ["disk"])
