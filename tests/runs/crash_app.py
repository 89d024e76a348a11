"""A run in a process of its own, to be killed.

Each real execution of a tool adds a line to the file EFFECTS. When a file `EFFECTS.hold-<tool>` is there, the tool
says so by creating `EFFECTS.in-<tool>` after its effect and waits until the first file is gone: that is where it is
killed or paused.
"""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

from adjourn.graph import Runner, build_react
from adjourn.graph.drive import Drive
from adjourn.graph.graph_parts import Graph
from adjourn.nodes import ScriptedModel, Tool, tool
from adjourn.nodes.scripted import call, says

LEASE_S = 0.6


def tools(effects: Path) -> list[Tool]:
    """A read, a write that asks, one that does not, one that may be repeated, and a read that blocks everything."""

    def act(name: str, what: str) -> str:
        with effects.open("a") as out:
            out.write(f"{name} {what}\n")
        if effects.with_suffix(f".hold-{name}").exists():
            effects.with_suffix(f".in-{name}").touch()
            while effects.with_suffix(f".hold-{name}").exists():
                time.sleep(0.01)
        return f"{name} {what}"

    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return act("look", what)

    @tool(effect="write")
    def pay(what: str) -> str:
        """Pay."""
        return act("pay", what)

    @tool(effect="write", idempotent=True)
    def put(what: str) -> str:
        """Put."""
        return act("put", what)

    @tool(effect="write", confirm="Send {what}?")
    def send(what: str) -> str:
        """Send."""
        return act("send", what)

    @tool(effect="read")
    async def stall(what: str) -> str:
        """Block the event loop of the first process that comes here, until `EFFECTS.held-stall` is gone."""
        with effects.open("a") as out:
            out.write(f"stall {what}\n")
        hold = effects.with_suffix(".hold-stall")
        if hold.exists():
            held = hold.rename(effects.with_suffix(".held-stall"))
            effects.with_suffix(".in-stall").touch()
            while held.exists():
                time.sleep(0.01)  # noqa: ASYNC251 - that is the point
        return what

    return [look, pay, put, send, stall]


def graph(effects: Path, first: str) -> Graph:
    """The first turn looks and calls `first`, the second answers. `model`: it takes a while and answers."""
    turns = [
        says("", call("look", {"what": "a"}, id="c1"), call(first, {"what": "b"}, id="c2")),
        "all done",
    ]
    slow = [says("all done", delay_s=4 * LEASE_S)]
    model = ScriptedModel(turns=slow if first == "model" else turns, by_history=True)
    return build_react(model, tools(effects))


def runner(url: str, effects: Path, first: str) -> Runner:
    """The app over its store."""
    return Runner(graph(effects, first), url, lease_s=LEASE_S)


async def die(self: Drive) -> None:
    """Stands in for the driving of a run: the process is killed as it begins."""
    os.kill(os.getpid(), signal.SIGKILL)


async def drive(url: str, effects: str, first: str, command: str, *rest: str) -> dict:
    """Do what the command says; give the run as JSON data."""
    app = runner(url, Path(effects), first)
    if command == "start":
        told = Path(effects).with_suffix(".in-model")
        run = await app.start("go", run_id=rest[0], on_event=lambda event: told.touch())
    elif command == "message":
        before = await app.get(rest[0])
        run = await app.start("never mind", thread_id=before.thread_id)
        calls = [[one.tool, one.outcome] for one in (await app.get(rest[0])).calls]
        app.close()
        return {"status": run.status, "calls": calls}
    elif command == "recover":
        run = await app.recover(rest[0])
    else:
        if command == "accept":
            Drive.to_its_end = die  # type: ignore[method-assign]
        run = await app.resume(rest[0], json.loads(rest[1]))
    app.close()
    return {"status": run.status, "answer": run.answer, "interrupts": [one.id for one in run.interrupts]}


def child(out: str, url: str, effects: str, first: str, *command: str) -> None:
    """The body of a process: what it found goes to the file `out`, written whole or not at all."""
    shown = asyncio.run(drive(url, effects, first, *command))
    part = Path(out).with_suffix(".part")
    part.write_text(json.dumps(shown))
    part.rename(out)
