"""A run that can be killed at any labelled point: before and after each durable write, and inside each tool.

The points are counted in the order in which the process comes by them; at the given one it kills itself
with SIGKILL, so that nothing after it is done, no handler runs and no buffer is flushed.
"""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from adjourn.checkpoints.database import Database
from adjourn.graph import Run, Runner, build_react
from adjourn.nodes import Happened, ScriptedModel, Tool, ToolContext, tool
from adjourn.nodes.scripted import call, says

RUN = "run_killed"
CALLS = ("a", "b", "c", "d", "e", "f", "g")
TURNS = [
    says(
        "looking",
        call("look", {"what": "a"}, id="a"),
        call("look", {"what": "b"}, id="b"),
        call("pay", {"what": "c"}, id="c"),
        call("put", {"what": "d"}, id="d"),
        call("send", {"what": "e"}, id="e"),
        call("look", {"what": "f"}, id="f"),
        usage=(100, 10),
    ),
    says("", call("book", {"what": "g"}, id="g"), usage=(200, 20)),
    says("all done", usage=(300, 30)),
]


class Points:
    """Counts the points that the process has come by; at `last` it is killed. None: it goes on for ever."""

    def __init__(self, last: int | None = None) -> None:
        self.count = 0
        self.last = last

    def reach(self) -> None:
        """One more point."""
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def tools(effects: Path, points: Points) -> list[Tool]:
    """A read; writes that cannot be verified, can be repeated, need agreement, and can be verified."""

    def act(name: str, what: str, key: str = "") -> str:
        points.reach()
        with effects.open("a") as out:
            out.write(f"{name} {what} {key}\n")
        points.reach()
        return f"{name} {what}"

    def booked(context: ToolContext) -> Happened | bool:
        happened = f"book {context.arguments['what']}" in effects.read_text()
        return Happened(f"book {context.arguments['what']}") if happened else False

    @tool(effect="read")
    async def look(what: str) -> str:
        """Look."""
        return act("look", what)

    @tool(effect="write")
    async def pay(what: str) -> str:
        """Pay."""
        return act("pay", what)

    @tool(effect="write", idempotent=True)
    async def put(what: str, context: ToolContext) -> str:
        """Put."""
        return act("put", what, context.idempotency_key)

    @tool(effect="write", confirm="Send {what}?")
    async def send(what: str) -> str:
        """Send."""
        return act("send", what)

    @tool(effect="write", verify=booked)
    async def book(what: str) -> str:
        """Book."""
        return act("book", what)

    return [look, pay, put, send, book]


def counted_database(url: str, points: Points) -> Database:
    """A database that comes by a point before and after each of its writing transactions."""
    database = Database(url)
    database.setup()
    write = database.write_unprepared  # what every writing transaction goes through

    def counted(work: Callable[[Any], Any], *, synced: bool = False) -> Any:
        points.reach()
        result = write(work, synced=synced)
        points.reach()
        return result

    database.write_unprepared = counted  # type: ignore[method-assign]
    return database


def runner(url: str, effects: Path, points: Points) -> Runner:
    """The app over a database whose transactions are counted."""
    graph = build_react(ScriptedModel(turns=TURNS, by_history=True), tools(effects, points))
    return Runner(graph, counted_database(url, points))


def honest(run: Run, effects: Path) -> Mapping[str, Any]:
    """What a person who can look at the world answers to the open questions."""
    done = effects.read_text() if effects.exists() else ""
    answers: dict[str, Any] = {}
    for question in run.interrupts:
        what = f"{question.tool} {question.arguments['what']}"
        if question.type == "confirm_risky":
            answers[question.id] = {"action": "approve"}
        elif what in done:
            answers[question.id] = {"action": "happened", "result": what}
        else:
            answers[question.id] = {"action": "run"}
    return answers


async def to_its_end(app: Runner, run_id: str, answers: Callable[[Run], Mapping[str, Any]]) -> Run:
    """From wherever the run stands to its end, as its owners and an honest person would do it together."""
    rows = await app.list(statuses=(), limit=None)
    run = await app.get(run_id) if rows else await app.start("go", run_id=run_id, thread_id="t")
    while run.status in ("running", "interrupted"):
        if run.status == "interrupted":
            run = await app.resume(run_id, answers(run), by="li")
        else:
            run = await app.recover(run_id)
    return run


async def go(app: Runner, effects: Path) -> Run:
    """From wherever the run stands to its end."""
    return await to_its_end(app, RUN, lambda run: honest(run, effects))
