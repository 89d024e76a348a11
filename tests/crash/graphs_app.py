"""A flow with a LangGraph graph of one's own, a branch, a free loop and a step that is undone, killed at any point."""

from pathlib import Path
from typing import Any

from crash.kill_app import Points, counted_database, to_its_end
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from adjourn.graph import Run, Runner, build_serial
from adjourn.nodes import BranchStep, FunctionStep, GraphStep, LoopStep, ScriptedModel, ToolError, tool
from adjourn.nodes.scripted import call, says

RUN = "run_graphs"
NO_TURN = "the flow itself makes the call in this place"


def done(effects: Path) -> list[str]:
    """What was really done, in its order."""
    return effects.read_text().split("\n")[:-1] if effects.exists() else []


class World:
    """What nodes and tools do."""

    def __init__(self, effects: Path, points: Points) -> None:
        self.effects, self.points = effects, points

    def act(self, line: str) -> str:
        """One effect, with a point before and behind it."""
        self.points.reach()
        with self.effects.open("a") as out:
            out.write(f"{line}\n")
        self.points.reach()
        return line

    def own(self) -> Any:
        """A graph of one's own: it works, asks, and works again."""

        async def first(state: Any) -> Any:
            return {"messages": [AIMessage(self.act("first"))]}

        async def ask(state: Any) -> Any:
            return {"messages": [AIMessage(str(interrupt("Go on?", response_schema={"type": "boolean"})))]}

        def last(state: Any) -> Any:
            return {"messages": [AIMessage(self.act("last"))]}

        builder: Any = StateGraph(MessagesState)
        for before, name, node in ((START, "first", first), ("first", "ask", ask), ("ask", "last", last)):
            builder.add_node(name, node)
            builder.add_edge(before, name)
        builder.add_edge("last", END)
        return builder.compile(name="own")

    def steps(self) -> list[Any]:
        """The flow."""

        @tool(effect="write")
        async def note() -> str:
            """Note."""
            return self.act("note")

        @tool(effect="read", retries=0)
        async def check(loop: str) -> str:
            """Check."""
            raise ToolError(f"it does not hold: {loop}")

        @tool(effect="write")
        async def undo(own: str) -> str:
            """Undo."""
            return self.act(f"undo {own}")

        return [
            GraphStep(name="own", graph=self.own(), task="Do it."),
            BranchStep(
                name="way",
                choose=lambda found: "loop" if found["own"] == "last" else "never",
                to=("never", "loop"),
            ),
            FunctionStep(name="never", function=note),
            LoopStep(name="loop", tools=[note], prompt="Note it."),
            FunctionStep(name="check", function=check, on_failure="undo"),
            FunctionStep(name="undo", function=undo),
        ]


def runner(url: str, effects: Path, points: Points) -> Runner:
    """The app over a database whose writing transactions are points too."""
    turns = [NO_TURN, says("", call("note", {}, id="n")), "noted"]
    model = ScriptedModel(turns=turns, by_history=True)
    graph = build_serial(model, World(effects, points).steps(), name="graphs")
    return Runner(graph, counted_database(url, points))


def honest(run: Run, effects: Path) -> dict[str, Any]:
    """What a person who can look at the world answers to the open questions."""
    answers: dict[str, Any] = {}
    for question in run.interrupts:
        if question.type == "custom":
            answers[question.id] = True
        elif any(line.startswith(question.tool) for line in done(effects)):
            answers[question.id] = {"action": "happened", "result": question.tool}
        else:
            answers[question.id] = {"action": "run"}
    return answers


async def go(app: Runner, effects: Path) -> Run:
    """From wherever the run stands to its end."""
    return await to_its_end(app, RUN, lambda run: honest(run, effects))
