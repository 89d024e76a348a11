"""The loop at work side by side: LangChain's `create_agent` with LangGraph's savers, and Adjourn, in this process.

    python tests/bench/bench_loop.py [--rounds 3] [--docs]

- Eight reads in one turn: what the run takes above its slowest read, 50 ms.
- Fifty runs at once: turns per second, with SQLite and with PostgreSQL, also with a server that is a millisecond away (`far.py`),
  as most are. Theirs with AsyncSqliteSaver and AsyncPostgresSaver, as `from_conn_string` makes them.
- A streamed turn of 12,800 fragments through langchain-openai, from a server on loopback to the stored state, listened to:
  CPU time of this process. `bench_stream.py` has the model's node alone, beside the bare client.

`sync` durability, the sides in turns; medians of the rounds, and the median of their ratios. `--docs` writes the table into
docs/compared.md.
"""

import asyncio
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the servers of the store's tests

import sqlalchemy as sa
from bench_stream import chat, serving
from compared import PACKAGES, arguments, write
from far import away
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from store.engines import Engines, engines

from adjourn.checkpoints.database import Database
from adjourn.graph import Limits, Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

READS, SLOWEST_S = 8, 0.05
RUNS, TURNS = 50, 10  # at once, and of each
FAR_MS = 1.0  # there and back, on top of what loopback and the proxy take
FRAGMENTS = 12_800


@dataclass(frozen=True, slots=True)
class Agent:
    """One side over a database: `go` drives a run on a new thread to its end, `listen` too, and gives the deltas it heard."""

    go: Callable[[str], Coroutine[Any, Any, None]]
    listen: Callable[[str], Coroutine[Any, Any, int]]


async def look(query: str) -> str:
    """Look."""
    return f"{query} {'x' * 300}"


async def read(number: int) -> str:
    """Read."""
    await asyncio.sleep(SLOWEST_S * (number + 1) / READS)
    return f"page {number}"


def fan_out() -> BaseChatModel:
    """Eight reads in one turn, then an answer."""
    calls = [call("read", {"number": one}, id=f"r{one}") for one in range(READS)]
    return ScriptedModel(turns=[says("", *calls), "done"], by_history=True)


def turns() -> BaseChatModel:
    """A read in each turn, then an answer."""
    script: list[Any] = [
        says("", call("look", {"query": str(one)}, id=f"c{one}")) for one in range(TURNS - 1)
    ]
    return ScriptedModel(turns=[*script, "done"], by_history=True)


@asynccontextmanager
async def theirs(model: BaseChatModel, reads: Any, url: str) -> AsyncIterator[Agent]:
    """create_agent over LangGraph's saver for this database."""
    at = sa.make_url(url)
    sqlite = at.get_backend_name() == "sqlite"
    plain = at.set(drivername="postgresql").render_as_string(hide_password=False)
    opened: Any = (
        AsyncSqliteSaver.from_conn_string(str(at.database))
        if sqlite
        else AsyncPostgresSaver.from_conn_string(plain)
    )
    async with opened as saver:
        await saver.setup()
        yield peer(model, reads, saver)


@asynccontextmanager
async def without_store(model: BaseChatModel, reads: Any, url: str) -> AsyncIterator[Agent]:
    """create_agent that stores nothing: what LangGraph and LangChain take by themselves."""
    yield peer(model, reads, None)


def peer(model: BaseChatModel, reads: Any, saver: Any) -> Agent:
    """create_agent over a saver, or without one."""
    agent = create_agent(model, [reads], checkpointer=saver)

    def given(thread: str) -> Any:
        config = {"configurable": {"thread_id": thread}, "recursion_limit": 1_000}
        durable = {} if saver is None else {"durability": "sync"}
        return {"input": {"messages": [HumanMessage("go")]}, "config": config, **durable}

    async def go(thread: str) -> None:
        state = await agent.ainvoke(**given(thread))
        assert state["messages"][-1].text == "done"

    async def listen(thread: str) -> int:
        heard = [
            bool(piece.text) async for piece, _ in agent.astream(**given(thread), stream_mode="messages")
        ]
        return sum(heard)

    return Agent(go, listen)


@asynccontextmanager
async def ours(model: BaseChatModel, reads: Any, url: str) -> AsyncIterator[Agent]:
    """Adjourn over this database."""
    limits = Limits(max_steps=TURNS + 1)
    database = Database(url)
    database.setup()
    try:
        with Runner(build_react(model, [tool(effect="read")(reads)], limits=limits), database) as runner:

            async def go(thread: str) -> None:
                run = await runner.start("go", thread_id=thread)
                assert run.answer == "done", run.error

            async def listen(thread: str) -> int:
                heard = [one.word == "text_delta" async for one in runner.stream("go", thread_id=thread)]
                return sum(heard)

            yield Agent(go, listen)
    finally:
        database.close()


async def fan_out_ms(side: Any, url: str) -> float:
    """Milliseconds of a run above its slowest read; the median of five runs behind a first one."""
    async with side(fan_out(), read, url) as agent:
        took = []
        for number in range(6):
            began = time.perf_counter()
            await agent.go(f"t{number}")
            took.append(time.perf_counter() - began - SLOWEST_S)
    return statistics.median(took[1:]) * 1000


async def turns_per_s(side: Any, url: str) -> float:
    """Turns per second of fifty runs at once."""
    async with side(turns(), look, url) as agent:
        await agent.go("first")
        began = time.perf_counter()
        await asyncio.gather(*(agent.go(f"t{number}") for number in range(RUNS)))
        return RUNS * TURNS / (time.perf_counter() - began)


async def far_turns_per_s(side: Any, url: str) -> float:
    """`turns_per_s`, with the database a millisecond away."""
    with away(url, FAR_MS) as far:
        return await turns_per_s(side, far)


async def rounds_of(
    measure: Callable[[Any, str], Coroutine[Any, Any, float]], servers: Engines, engine: str, rounds: int
) -> list[tuple[float, float]]:
    """(theirs, ours) of each round, each in a new database; who begins changes."""
    found = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            pair = [theirs, ours] if number % 2 == 0 else [ours, theirs]
            took = {side: await measure(side, servers.new(engine, Path(folder))) for side in pair}
        found.append((took[theirs], took[ours]))
    return found


def line(what: str, unit: str, pairs: list[tuple[float, float]], aim: str = "", digits: int = 1) -> str:
    """A line of the table."""
    mine, other = (statistics.median(one[place] for one in pairs) for place in (1, 0))
    ratio = statistics.median(b / a for a, b in pairs)
    shown = f"| {what} | {unit} | {other:,.{digits}f} | {mine:,.{digits}f} | {ratio:.2f}{aim} |"
    print(shown, flush=True)
    return shown


async def streamed_s(side: Any, url: str) -> float:
    """CPU seconds of a turn that is streamed, behind a short one."""
    with serving() as server:
        async with chat(server, "text/50") as short, side(short, look, url) as agent:
            await agent.listen("first")
        async with chat(server, f"text/{FRAGMENTS}") as model, side(model, look, url) as agent:
            began = time.process_time()
            assert await agent.listen("t") == FRAGMENTS
            return time.process_time() - began


async def table(rounds: int) -> list[str]:
    """The table's lines."""
    lines = ["| | | `create_agent` | Adjourn | ratio (aim) |", "|---|---|---|---|---|"]
    print("\n".join(lines))
    with engines() as servers:
        took = await rounds_of(fan_out_ms, servers, "file", rounds)
        lines.append(line("8 reads in one turn, SQLite: above the slowest", "ms", took))
        took = await rounds_of(turns_per_s, servers, "file", rounds)
        lines.append(line("50 runs at once, SQLite", "turns/s", took, digits=0))
        took = await rounds_of(turns_per_s, servers, "postgresql", rounds)
        lines.append(line("50 runs at once, PostgreSQL", "turns/s", took, " (2)", digits=0))
        took = await rounds_of(far_turns_per_s, servers, "postgresql", rounds)
        lines.append(line("50 runs at once, PostgreSQL a millisecond away", "turns/s", took, digits=0))
        alone = statistics.median([await turns_per_s(without_store, "") for _ in range(rounds)])
        lines.append(f"| the same without any store | turns/s | {alone:,.0f} | | |")
        print(lines[-1], flush=True)
        took = await rounds_of(streamed_s, servers, "file", rounds)
        lines.append(line("a streamed turn of 12,800 fragments, SQLite", "CPU s", took, digits=2))
    return lines


def main() -> None:
    """Measure, print, and write where asked."""
    given = arguments(__doc__).parse_args()
    warnings.simplefilter("ignore")
    lines = asyncio.run(table(given.rounds))
    if given.docs:
        packages = (*PACKAGES, "langgraph-checkpoint-postgres")
        write("loop", "python tests/bench/bench_loop.py --docs", lines, packages=packages)


if __name__ == "__main__":
    main()
