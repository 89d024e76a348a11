"""A supervisor with two specialists, one that writes and one that asks, which can be killed at any point."""

from pathlib import Path
from typing import Any

from crash.kill_app import Points, counted_database, to_its_end

from adjourn.graph import Run, Runner, Specialist, build_supervisor
from adjourn.nodes import ScriptedModel, Tool, tool
from adjourn.nodes.scripted import call, says

RUN = "run_team"


def hand(specialist: str, id: str) -> Any:
    """A task for a specialist."""
    return call("delegate", {"specialist": specialist, "task": "go"}, id=id)


def done(effects: Path) -> list[str]:
    """What was really done, in its order."""
    return effects.read_text().split("\n")[:-1] if effects.exists() else []


def tools(effects: Path, points: Points) -> dict[str, Tool]:
    """A read, a write that cannot be verified, and a write that needs agreement."""

    def act(line: str) -> str:
        points.reach()
        with effects.open("a") as out:
            out.write(f"{line}\n")
        points.reach()
        return line

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return act("look")

    @tool(effect="write")
    async def note() -> str:
        """Note."""
        return act("note")

    @tool(effect="write", confirm="Publish?")
    async def publish() -> str:
        """Publish."""
        return act("publish")

    return {one.name: one for one in (look, note, publish)}


def scripted(*turns: Any) -> ScriptedModel:
    """A model whose turn follows from its history."""
    return ScriptedModel(turns=list(turns), by_history=True)


def runner(url: str, effects: Path, points: Points) -> Runner:
    """The app over a database whose writing transactions are points too."""
    made = tools(effects, points)
    graph = build_supervisor(
        scripted(says("", hand("writer", "d1"), hand("asker", "d2")), "all done"),
        [
            Specialist(
                name="writer",
                about="writes",
                tools=[made["look"], made["note"]],
                model=scripted(
                    says("", call("look", {}, id="c")), says("", call("note", {}, id="c")), "noted"
                ),
            ),
            Specialist(
                name="asker",
                about="asks",
                tools=[made["publish"]],
                model=scripted(says("", call("publish", {}, id="c")), "published"),
            ),
        ],
        name="team",
    )
    return Runner(graph, counted_database(url, points))


def honest(run: Run, effects: Path) -> dict[str, Any]:
    """What a person who can look at the world answers to the open questions, those of specialists included."""
    answers: dict[str, Any] = {}
    for question in run.interrupts:
        if question.type != "outcome_unknown":
            answers[question.id] = {"action": "approve"}
        elif question.tool in done(effects):
            answers[question.id] = {"action": "happened", "result": question.tool}
        else:
            answers[question.id] = {"action": "run"}
    return answers


async def go(app: Runner, effects: Path) -> Run:
    """From wherever the run stands to its end."""
    return await to_its_end(app, RUN, lambda run: honest(run, effects))
