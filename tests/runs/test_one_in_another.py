"""Each builder, and a graph of one's own, as a tool, a specialist, a step and a node of each other (C-79 to C-82)."""

import operator
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from sqlalchemy import text

from adjourn.checkpoints.errors import UsageError
from adjourn.graph import Runner, Specialist, build_react, build_serial, build_supervisor, from_langgraph
from adjourn.graph.cli import main
from adjourn.graph.drawing import drawing_of
from adjourn.nodes import FunctionStep, GraphStep, LoopStep, RunState, ScriptedModel, ToolStep, approve, tool
from adjourn.nodes.history import is_legal
from adjourn.nodes.scripted import call, says


def scripted(*turns: Any) -> ScriptedModel:
    return ScriptedModel(turns=list(turns), by_history=True)


class World:
    """What was really done."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/nested.db"
        self.done: list[str] = []

    def publish(self) -> Any:
        @tool(effect="write", confirm="Publish?")
        def publish() -> str:
            """Publish."""
            self.done.append("published")
            return "out"

        return publish

    def inner(self, kind: str) -> Any:
        """A graph that reads, asks a person, writes once, and answers `inner done`."""
        turns = (says("", call("publish", {}, id="p")), "inner done")
        if kind == "react":
            return build_react(scripted(*turns), [self.publish()], name="inner")
        if kind == "serial":
            return build_serial(
                scripted(turns[0], "inner done"),
                [ToolStep(name="out", tool=self.publish())],
                name="inner",
            )
        if kind == "supervisor":
            deep = Specialist(name="deep", about="publishes", tools=[self.publish()], model=scripted(*turns))
            hands = says("", call("delegate", {"specialist": "deep", "task": "go"}, id="d"))
            return build_supervisor(scripted(hands, "inner done"), [deep], name="inner")
        return self.own()

    def own(self) -> Any:
        async def ask(state: Any) -> Any:
            said = interrupt("Publish?", response_schema={"type": "object"})
            self.done.append("published")
            return {"messages": [AIMessage("inner done" if said["action"] == "approve" else "no")]}

        builder: Any = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        builder.add_edge("ask", END)
        return builder.compile(name="inner")

    def outer(self, way: str, inner: Any) -> Any:
        one = Specialist(name="one", about="publishes", graph=inner)
        hands = says("", call("one", {"task": "go"}, id="h"))
        told = FunctionStep(name="told", function=told_of("one"))
        if way == "tool":
            return build_react(scripted(hands, "all done"), [one.as_tool()], name="outer")
        if way == "specialist":
            hands = says("", call("delegate", {"specialist": "one", "task": "go"}, id="h"))
            return build_supervisor(scripted(hands, "all done"), [one], name="outer")
        if way == "step":
            return build_serial(
                scripted(), [GraphStep(name="one", graph=inner), told], closing=False, name="outer"
            )
        if way == "tool of a step":
            steps = [ToolStep(name="first", tool=one.as_tool())]
            return build_serial(scripted(hands), steps, closing=False, name="outer")
        if way == "tool of a loop":
            steps = [LoopStep(name="first", tools=[one.as_tool()], prompt="Go.")]
            return build_serial(scripted(hands, "looped"), steps, closing=False, name="outer")
        return self.by_hand(one)

    def by_hand(self, one: Specialist) -> Any:
        """A graph of one's own with the other one as a node between two others."""

        async def before(state: Any) -> Any:
            self.done.append("before")
            return {}

        async def after(state: Any) -> Any:
            self.done.append("after")
            return {"messages": [AIMessage(f"all done: {state['messages'][-1].text}")]}

        builder: Any = StateGraph(MessagesState)
        for name, node in (("before", before), ("one", one.as_node()), ("after", after)):
            builder.add_node(name, node)
        for left, right in ((START, "before"), ("before", "one"), ("one", "after"), ("after", END)):
            builder.add_edge(left, right)
        return builder.compile(name="outer")


def told_of(name: str) -> Any:
    @tool(effect="read")
    def told(one: str) -> str:
        """What came of it."""
        return one

    return told


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


WAYS = ("tool", "specialist", "step", "tool of a step", "tool of a loop", "node")
KINDS = ("react", "serial", "supervisor", "own")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
async def test_c79_c80_one_works_inside_another_and_asks_and_is_answered_elsewhere(world, way, kind):
    def graph():
        return world.outer(way, world.inner(kind))

    with Runner(graph(), world.url) as one:
        run = await one.start("go")
    (question,) = run.interrupts
    assert (run.status, question.path) == ("interrupted", "one/deep" if kind == "supervisor" else "one")
    with Runner(graph(), world.url) as other:
        over = await other.resume(run.id, {question.id: approve()}, by="li")
        assert over.status == "finished", over.error
        state = await other.graph.aget_state({"configurable": {"thread_id": over.thread_id}})
    assert is_legal(state.values["messages"])
    middle = ["before"] if way == "node" else []
    assert world.done == [*middle, "published", *(["after"] if way == "node" else [])]
    (child,) = over.children
    assert (child.answer, child.row.path, child.row.parent_run_id) == ("inner done", "one", over.id)
    said = over.answer if way == "node" else str([one.result for one in over.calls])
    assert "inner done" in str(said)


@pytest.mark.parametrize("kind", KINDS)
async def test_c82_a_cancel_and_a_recovery_reach_through_a_node(world, kind):
    def graph():
        return world.outer("node", world.inner(kind))

    with Runner(graph(), world.url) as one:
        run = await one.start("go")
        over = await one.cancel(run.id)
        assert (over.status, over.children[0].status) == ("cancelled", "cancelled")
        again = await one.start("go")
        (question,) = again.interrupts
    with Runner(graph(), world.url) as other:  # its owner dies behind the answer
        await other.database.awrite(
            lambda c: c.execute(
                text(
                    "UPDATE runs SET status = 'running', lease_owner = 'gone', lease_until = '2000-01-01T00:00:00.000000Z'"
                    f" WHERE id = '{again.id}'"
                )
            )
        )
        over = await other.recover(again.id)
        assert over.status == "interrupted" and over.interrupts[0].id == question.id
        over = await other.resume(again.id, {question.id: approve()}, by="li")
    assert over.status == "finished" and world.done.count("published") == 1
    assert world.done.count("before") == 2  # once for each run


class Said(MessagesState):
    """A state of one's own."""

    said: Annotated[list[str], operator.add]


def looping(node: Any) -> Any:
    """A graph that comes to one node three times."""

    async def end(state: Any) -> Any:
        return {"messages": [AIMessage(" ".join(state["said"]))]}

    builder: Any = StateGraph(Said)
    builder.add_node("one", node)
    builder.add_node("end", end)
    builder.add_edge(START, "one")
    builder.add_conditional_edges("one", lambda state: "one" if len(state["said"]) < 3 else "end")
    builder.add_edge("end", END)
    return builder.compile(name="looping")


async def test_c81_a_node_is_another_task_each_time_the_graph_comes_to_it(world):
    """And its task and its answer can be mapped."""
    one = Specialist(name="one", about="counts", model=ScriptedModel(turns=["one", "two", "three"]))
    node = one.as_node(
        task=lambda state: f"turn {len(state['said'])}", write=lambda answer: {"said": [answer]}
    )
    with Runner(looping(node), world.url) as runner:
        run = await runner.start("go")
    assert (run.status, run.answer) == ("finished", "one two three")
    assert [child.row.input for child in run.children] == ["turn 0", "turn 1", "turn 2"]


@pytest.mark.filterwarnings("ignore:these nodes run without a ledger")
async def test_a_node_that_hands_on_says_that_it_needs_a_runner(world):
    one = Specialist(name="one", about="x", model=ScriptedModel(turns=[]))
    with pytest.raises(UsageError, match="specialists need a runner"):
        await world.by_hand(one).ainvoke({"messages": [("user", "go")]})


async def test_c81_nodes_at_once_each_with_its_question_are_answered_in_any_order(world):
    def graph():
        builder: Any = StateGraph(MessagesState)
        for name in ("left", "right"):
            one = Specialist(name=name, about="publishes", graph=world.inner("react"))
            builder.add_node(name, one.as_node())
            builder.add_edge(START, name)
            builder.add_edge(name, END)
        return builder.compile(name="both")

    with Runner(graph(), world.url) as runner:
        run = await runner.start("go")
    assert sorted(one.path for one in run.interrupts) == ["left", "right"]
    with Runner(graph(), world.url) as runner:
        once = await runner.resume(run.id, {run.interrupts[1].id: approve()}, by="li")
        assert once.status == "interrupted" and world.done == []
    with Runner(graph(), world.url) as runner:
        over = await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="wang")
    assert over.status == "finished" and world.done == ["published"] * 2


async def test_c81_a_node_whose_specialist_has_no_answer_fails_and_a_resume_lets_it_try_again(world):
    tries: list[int] = []

    async def flaky(state: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("the link is down")
        return {"messages": [AIMessage("inner done")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("flaky", flaky)
    builder.add_edge(START, "flaky")
    builder.add_edge("flaky", END)
    graph = world.outer("node", builder.compile(name="flaky"))
    with Runner(graph, world.url) as runner:
        run = await runner.start("go")
        assert run.status == "failed" and "the link is down" in run.error["message"]
        run = await runner.resume(run.id)
    assert (run.status, run.answer, len(run.children)) == ("finished", "all done: inner done", 1)
    assert world.done == ["before", "after"]


async def test_c27_a_node_asks_before_a_graph_of_ones_own_works_where_a_rule_says_so(world):
    def graph():
        top = Specialist(name="top", about="x", graph=from_langgraph(world.by_hand(own), effect="read"))
        hands = says("", call("delegate", {"specialist": "top", "task": "go"}, id="d"))
        rule = lambda request: "ask" if request.tool == "one" else "allow"  # noqa: E731
        return build_supervisor(scripted(hands, "all done"), [top], permission=rule, name="boss")

    own = Specialist(name="one", about="x", graph=world.own())
    with Runner(graph(), world.url) as runner:
        run = await runner.start("go")
        (question,) = run.interrupts
        assert (question.path, question.type, question.reason) == ("top", "custom", "May one run?")
        run = await runner.resume(run.id, {question.id: True}, by="li")
        (question,) = run.interrupts
        assert question.path == "top/one"
        run = await runner.resume(run.id, {question.id: approve()}, by="li")
        assert run.status == "finished" and world.done == ["before", "published", "after"]
        run = await runner.start("go")
        run = await runner.resume(run.id, {run.interrupts[0].id: False}, by="li")
    assert run.calls[0].error_code == "unavailable" and "said no" in run.calls[0].result


async def test_a_look_at_a_graph_of_ones_own_shows_what_its_nodes_asked_and_handed_out(world, capsys):
    async def gate(state: Any) -> Any:
        interrupt("May I begin?", response_schema={"type": "boolean"})

    builder: Any = StateGraph(MessagesState)
    one = Specialist(name="one", about="publishes", graph=world.inner("react"))
    builder.add_node("gate", gate)
    builder.add_node("one", one.as_node())
    builder.add_edge(START, "gate")
    builder.add_edge("gate", "one")
    builder.add_edge("one", END)
    with Runner(builder.compile(name="outer"), world.url) as runner:
        run = await runner.start("go")
        run = await runner.resume(run.id, {run.interrupts[0].id: True}, by="li")
        run = await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="wang")
    (child,) = run.children
    store = ["--store", world.url, "--lang", "en"]
    assert main(["show", run.id, *store]) == 0
    shown = capsys.readouterr().out
    assert f"↳ one {child.id} finished" in shown and "custom: May I begin?" in shown and "by li" in shown
    assert main(["show", run.id, "--timeline", *store]) == 0
    lines = [
        line[:24].rstrip() for line in capsys.readouterr().out.splitlines() if " ms" in line or "┌" in line
    ]
    assert "publish" in " ".join(lines) and any(line.strip(" ┌└│") == "one" for line in lines)
    assert main(["show", run.id, "--html", "-", *store]) == 0
    page = capsys.readouterr().out
    links = set(re.findall(r'<a href="#([^"]+)" aria-label', page))
    assert child.id in links and {one for one in links if f'id="{one}"' not in page} == set()


def in_run_state(**nodes: Any) -> Any:
    """Graphs of the builders as plain LangGraph subgraphs, which share the run of the graph that they are nodes of."""
    builder: Any = StateGraph(RunState)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile(name="shared")


@pytest.mark.parametrize("kind", ["react", "serial", "supervisor"])
async def test_c79_a_builders_graph_is_a_subgraph_of_a_graph_with_its_state(world, kind):
    def graph():
        return in_run_state(
            first=world.inner(kind), second=build_react(scripted(*SECOND[kind]), name="second")
        )

    with Runner(graph(), world.url) as one:
        run = await one.start("go")
    (question,) = run.interrupts
    assert question.path == ("deep" if kind == "supervisor" else "")
    with Runner(graph(), world.url) as other:
        over = await other.resume(run.id, {question.id: approve()}, by="li")
    assert (over.status, over.answer, world.done) == ("finished", "second done", ["published"])
    assert [one.step for one in over.steps] == list(range(1, len(over.steps) + 1))


SECOND = {kind: ["-", "-", "second done"] for kind in ("react", "serial", "supervisor")}


@pytest.mark.parametrize("kind", ["react", "serial", "supervisor"])
async def test_c34_a_graph_that_is_called_inside_a_node_is_not_taken_for_the_run_s_own(world, kind):
    """Its calls would be found in the ledger of the other run, under the same steps."""

    async def node(state: Any) -> Any:
        return await world.inner(kind).ainvoke({"messages": state["messages"]})

    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    with Runner(builder.compile(name="calls"), world.url) as runner:
        run = await runner.start("go")
    assert run.status == "failed" and "as_node()" in run.error["message"] and world.done == []


async def test_c34_nor_one_that_is_called_inside_a_tool(world):
    @tool(effect="read")
    async def asks() -> str:
        """Ask another graph."""
        await world.inner("react").ainvoke({"messages": [("user", "go")]})
        return "never"

    model = scripted(says("", call("asks", {}, id="a")), "so be it")
    with Runner(build_react(model, [asks]), world.url) as runner:
        run = await runner.start("go")
    assert (run.answer, run.calls[0].error_code, world.done) == ("so be it", "tool_error", [])
    assert "as_tool()" in run.calls[0].result and [one.step for one in run.steps] == [1, 2]


def test_two_flows_in_one_run_are_refused(world):
    graph = in_run_state(first=world.inner("serial"), second=world.inner("serial"))
    with pytest.raises(UsageError, match=r"as_node\(\)"):
        Runner(graph, world.url)


def test_each_is_drawn(world):
    assert drawing_of(world.outer("step", world.inner("own"))).count("s_one") >= 3
    assert '[/"one"/]' in drawing_of(world.outer("step", world.inner("react")))
    drawn = drawing_of(world.outer("specialist", world.inner("supervisor")))
    assert 'top_0["one"]' in drawn and 'top_0_0("deep")' in drawn
    drawn = drawing_of(from_langgraph(world.outer("node", world.inner("react"))))
    assert "before --> one" in drawn and "one --> after" in drawn
