"""The app of a fleet of workers, and the body of one of them.

Each real execution of a write adds a line `TOOL RUN KEY` to the file EFFECTS.
"""

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from adjourn.graph import Runner, build_react
from adjourn.graph.graph_parts import Graph
from adjourn.graph.worker import Worker
from adjourn.nodes import ScriptedModel, Tool, ToolContext, tool
from adjourn.nodes.scripted import call, says

ANSWER = "all done"
MOMENT_S = 0.01  # before and after an effect: a kill finds somebody in the middle of it


def tools(effects: Path, look_s: float = 0.0) -> list[Tool]:
    """A read, a write that asks before it runs, and one that may be repeated under its key.

    The read takes between no time and twice `look_s` seconds.
    """

    def act(name: str, context: ToolContext) -> str:
        time.sleep(MOMENT_S)
        line = f"{name} {context.run_id} {context.idempotency_key}\n".encode()
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)
        time.sleep(MOMENT_S)
        return f"{name} {context.run_id}"

    @tool(effect="read")
    async def look(what: str) -> str:
        """Look."""
        await asyncio.sleep(random.uniform(0, 2 * look_s))
        return what

    @tool(effect="write", confirm="Send {what}?")
    def send(what: str, context: ToolContext) -> str:
        """Send."""
        return act("send", context)

    @tool(effect="write", idempotent=True)
    def put(what: str, context: ToolContext) -> str:
        """Put."""
        return act("put", context)

    return [look, send, put]


def graph(effects: Path, look_s: float = 0.0) -> Graph:
    """Two calls, one of which asks; then a write; then the answer."""
    turns = [
        says("", call("look", {"what": "a"}, id="a"), call("send", {"what": "b"}, id="b"), usage=(100, 10)),
        says("", call("put", {"what": "c"}, id="c"), usage=(200, 20)),
        says(ANSWER, usage=(300, 30)),
    ]
    return build_react(ScriptedModel(turns=turns, by_history=True), tools(effects, look_s), name="fleet")


def work(
    url: str, effects: str, lease_s: float, concurrency: int, look_s: float = 0.0, *, listens: Any = None
) -> None:
    """The body of a worker's process: it works until SIGTERM, to which it listens once it says so, or until it is
    killed."""

    async def until_told() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        if listens is not None:
            listens.set()
        await worker.work(stop)

    with Runner(graph(Path(effects), look_s), url, lease_s=lease_s) as runner:
        worker = Worker(runner, concurrency=concurrency)
        asyncio.run(until_told())
