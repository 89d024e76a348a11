"""The body of a fresh process of `bench_start.py`: python start_app.py MODE SIDE FOLDER. Prints one line of JSON.

- `ask`: a run stops at a question about a write.
- `resume`: answers it; says when the tool was entered, and when `resume` was called.
- `crowd`: a thousand runs stop at their questions, all begun at once; says the peak of the memory (RSS), with the imports' share.

`SIDE`: `theirs` (create_agent, HumanInTheLoopMiddleware, AsyncSqliteSaver) or `ours`. Each imports only what it uses.
"""

import asyncio
import json
import resource
import sys
import time
import warnings
from typing import Any

CROWD = 1_000
MB = 1024  # ru_maxrss is in KB

entered: list[float] = []


def send(what: str) -> str:
    """Send."""
    entered.append(time.time())
    return "sent"


def model() -> Any:
    """Asks for one write, then answers."""
    from adjourn.nodes.scripted import ScriptedModel, call, says

    return ScriptedModel(turns=[says("", call("send", {"what": "a"}, id="a")), "Sent."], by_history=True)


def peak_mb() -> float:
    """The most memory that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB


async def theirs(mode: str, folder: str) -> dict[str, float]:
    """create_agent's side."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.types import Command

    async with AsyncSqliteSaver.from_conn_string(f"{folder}/theirs.db") as saver:
        await saver.setup()
        asks = HumanInTheLoopMiddleware(interrupt_on={"send": True})
        agent = create_agent(model(), [send], checkpointer=saver, middleware=[asks])
        first: Any = {"messages": [{"role": "user", "content": "go"}]}

        async def go(thread: str, given: Any) -> Any:
            return await agent.ainvoke(given, {"configurable": {"thread_id": thread}}, durability="sync")

        if mode == "resume":
            called = time.time()
            await go("t", Command(resume={"decisions": [{"type": "approve"}]}))
            return {"called": called, "entered": entered[0]}
        before = peak_mb()
        ends = await asyncio.gather(*(go(f"t{number}" if number else "t", first) for number in many(mode)))
        assert all("__interrupt__" in one for one in ends)
        return {"mb": peak_mb(), "before_mb": before}


async def ours(mode: str, folder: str) -> dict[str, float]:
    """Adjourn's side."""
    from adjourn.graph import Runner, build_react
    from adjourn.nodes import approve, tool

    graph = build_react(model(), [tool(effect="write", confirm="Send {what}?")(send)])
    with Runner(graph, f"sqlite:///{folder}/ours.db") as runner:
        if mode == "resume":
            (row,) = await runner.list()
            run = await runner.get(row.id)
            called = time.time()
            await runner.resume(run.id, {run.interrupts[0].id: approve()})
            return {"called": called, "entered": entered[0]}
        before = peak_mb()
        ends = await asyncio.gather(*(runner.start("go", thread_id=f"t{number}") for number in many(mode)))
        assert {one.status for one in ends} == {"interrupted"}
        return {"mb": peak_mb(), "before_mb": before}


def many(mode: str) -> range:
    """How many runs, by number."""
    return range(CROWD if mode == "crowd" else 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(asyncio.run({"theirs": theirs, "ours": ours}[sys.argv[2]](sys.argv[1], sys.argv[3]))))
