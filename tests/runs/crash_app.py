"""A run in a process of its own, to be killed: `python crash_app.py URL EFFECTS COMMAND [RUN_ID [ANSWERS]]`.

Each real execution of a tool adds a line to the file EFFECTS. When a file `EFFECTS.hold-<tool>` is there, the tool
says so by creating `EFFECTS.in-<tool>` after its effect and then waits for ever: that is where it is killed.
"""

import asyncio
import json
import sys
import threading
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
            threading.Event().wait()
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
    return Runner(build_react(ScriptedModel(turns=turns, by_history=True), tools(effects)), url, lease_s=LEASE_S)


async def main() -> None:
    """Do what the command line says and print the run as JSON."""
    url, effects, first, command, *rest = sys.argv[1:]
    app = runner(url, Path(effects), first)
    if command == "start":
        run = await app.start("go", run_id=rest[0])
    elif command == "recover":
        run = await app.recover(rest[0])
    else:
        run = await app.resume(rest[0], json.loads(rest[1]))
    app.close()
    print(json.dumps({"status": run.status, "answer": run.answer, "interrupts": [one.id for one in run.interrupts]}))


if __name__ == "__main__":
    asyncio.run(main())
