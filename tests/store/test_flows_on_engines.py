"""Flows and specialists on every engine: the rows that hold where each of them stands."""

from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from runs.flow_app import World, build

from adjourn.graph import Runner, Specialist, build_serial, build_supervisor
from adjourn.nodes import GraphStep, ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says


def test_c78_a_flow_goes_in_order(shared_url: str, tmp_path: Path) -> None:
    def runner() -> Runner:
        return Runner(build(tmp_path / "effects"), shared_url)

    with runner() as one:
        run = one.start_sync("go")
    assert [row.status for row in run.flow] == ["done", "done", "running", "pending"]
    with runner() as other:
        over = other.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert [row.status for row in over.flow] == ["done"] * 4
    assert World(tmp_path / "effects").done() == ["find", "quota", "create", "verify"]


def test_c82_a_question_of_a_specialist_is_answered_elsewhere(shared_url: str) -> None:
    published: list[str] = []

    @tool(effect="write", confirm="Publish?")
    def publish() -> str:
        """Publish."""
        published.append("it")
        return "out"

    def scripted(*turns: Any) -> ScriptedModel:
        return ScriptedModel(turns=list(turns), by_history=True)

    def runner() -> Runner:
        asker = Specialist(
            name="asker",
            about="asks",
            tools=[publish],
            model=scripted(says("", call("publish", {}, id="c")), "it is out"),
        )
        boss = scripted(says("", call("delegate", {"specialist": "asker", "task": "go"}, id="d")), "all done")
        return Runner(build_supervisor(boss, [asker], name="team"), shared_url)

    with runner() as one:
        run = one.start_sync("go", thread_id="t")
        assert [question.path for question in run.interrupts] == ["asker"]
        assert one.expire_sync() == []  # it waits for its specialist, and cannot go on
    with runner() as other:
        over = other.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (over.status, over.answer, published) == ("finished", "all done", ["it"])


def test_c79_c82_a_graph_of_ones_own_in_a_step_is_answered_elsewhere(shared_url: str) -> None:
    done: list[str] = []

    async def first(state: Any) -> Any:
        done.append("first")
        return {"messages": [AIMessage("first")]}

    async def ask(state: Any) -> Any:
        done.append(f"asked {interrupt('Go on?', response_schema={'type': 'boolean'})}")
        return {"messages": [AIMessage("own done")]}

    def runner() -> Runner:
        builder: Any = StateGraph(MessagesState)
        builder.add_node("first", first)
        builder.add_node("ask", ask)
        builder.add_edge(START, "first")
        builder.add_edge("first", "ask")
        builder.add_edge("ask", END)
        own = builder.compile(name="own")
        model = ScriptedModel(turns=[], by_history=True)
        steps = [GraphStep(name="own", graph=own, task="Go."), GraphStep(name="again", graph=own, task="Go.")]
        return Runner(build_serial(model, steps, closing=False, name="flow"), shared_url)

    with runner() as one:
        run = one.start_sync("go")
    for path in ("own", "again"):
        (question,) = run.interrupts
        assert (question.path, question.type) == (path, "custom")
        with runner() as other:
            run = other.resume_sync(run.id, {question.id: True}, by="li")
    assert (run.status, [row.status for row in run.flow]) == ("finished", ["done", "done"])
    assert done == ["first", "asked True"] * 2
