"""A run in a process of its own, to be killed.

Each real execution of a tool adds a line to the file EFFECTS. When a file `EFFECTS.hold-<tool>` is there, the tool
says so by creating `EFFECTS.in-<tool>` after its effect and waits until the first file is gone: that is where it is
killed or paused.
"""

import asyncio
import json
import time
from pathlib import Path

from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, Tool, tool
from adjourn.nodes.scripted import call, says

LEASE_S = 0.6


def tools(effects: Path) -> list[Tool]:
    """A read, a write that asks, a write that does not, and one that may be repeated."""

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

    return [look, pay, put, send]


def runner(url: str, effects: Path, first: str) -> Runner:
    """The app: the first turn looks and calls `first`, the second answers."""
    turns = [
        says("", call("look", {"what": "a"}, id="c1"), call(first, {"what": "b"}, id="c2")),
        "all done",
    ]
    return Runner(
        build_react(ScriptedModel(turns=turns, by_history=True), tools(effects)), url, lease_s=LEASE_S
    )


async def drive(url: str, effects: str, first: str, command: str, *rest: str) -> dict:
    """Do what the command says; give the run as JSON data."""
    app = runner(url, Path(effects), first)
    if command == "start":
        run = await app.start("go", run_id=rest[0])
    elif command == "message":
        before = await app.get(rest[0])
        run = await app.start("never mind", thread_id=before.thread_id)
        calls = [[one.tool, one.outcome] for one in (await app.get(rest[0])).calls]
        app.close()
        return {"status": run.status, "calls": calls}
    elif command == "recover":
        run = await app.recover(rest[0])
    else:
        run = await app.resume(rest[0], json.loads(rest[1]))
    app.close()
    return {"status": run.status, "answer": run.answer, "interrupts": [one.id for one in run.interrupts]}


def child(out: str, url: str, effects: str, first: str, *command: str) -> None:
    """The body of a process: what it found goes to the file `out`, written whole or not at all."""
    shown = asyncio.run(drive(url, effects, first, *command))
    part = Path(out).with_suffix(".part")
    part.write_text(json.dumps(shown))
    part.rename(out)
