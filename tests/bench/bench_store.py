"""The store beside LangGraph's own SqliteSaver: milliseconds and bytes per superstep.

    python tests/bench/bench_store.py [--rounds 3] [--quick]

Both sides run the same graph in `sync` durability with the same `synchronous` setting, in turns, each round
in a new file. Reported is the median over the rounds, and the ratio (below 1: this store is faster). A
superstep appends one message.
"""

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.saver import SQLAlchemySaver

SIZES = [(50, 300), (200, 300), (200, 5_000)]  # supersteps, bytes of each message


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def chat(steps: int, size: int) -> StateGraph[Any, Any, Any, Any]:
    """A graph of `steps` supersteps, each of which appends a message of `size` bytes."""

    def say(state: State) -> dict[str, Any]:
        number = len(state["messages"])
        return {"messages": [AIMessage(content=f"{number:06d}".ljust(size, "x"), id=f"m{number}")]}

    def more(state: State) -> str:
        return "say" if len(state["messages"]) <= steps else END

    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", more)
    return graph


def settings(steps: int) -> Any:
    """The config of a run."""
    return {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}


FIRST: Any = {"messages": [HumanMessage("go", id="h")]}


def run_sync(saver: Any, steps: int, size: int) -> float:
    """Seconds of one run through the sync methods."""
    graph = chat(steps, size).compile(checkpointer=saver)
    start = time.perf_counter()
    graph.invoke(FIRST, settings(steps), durability="sync")
    return time.perf_counter() - start


async def run_async(saver: Any, steps: int, size: int) -> float:
    """Seconds of one run through the async methods."""
    graph = chat(steps, size).compile(checkpointer=saver)
    start = time.perf_counter()
    await graph.ainvoke(FIRST, settings(steps), durability="sync")
    return time.perf_counter() - start


def theirs(path: Path, synchronous: str, steps: int, size: int) -> float:
    """Seconds with SqliteSaver."""
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute(f"PRAGMA synchronous={synchronous}")
    try:
        return run_sync(saver, steps, size)
    finally:
        connection.close()


async def theirs_async(path: Path, synchronous: str, steps: int, size: int) -> float:
    """Seconds with AsyncSqliteSaver."""
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        await saver.conn.execute(f"PRAGMA synchronous={synchronous}")
        return await run_async(saver, steps, size)


def ours(path: Path, synchronous: str, steps: int, size: int) -> float:
    """Seconds with this store, sync."""
    database = Database(f"sqlite:///{path}", synchronous=synchronous)
    saver = SQLAlchemySaver(database)
    saver.setup()
    try:
        return run_sync(saver, steps, size)
    finally:
        database.close()


async def ours_async(path: Path, synchronous: str, steps: int, size: int) -> float:
    """Seconds with this store, async."""
    database = Database(f"sqlite:///{path}", synchronous=synchronous)
    saver = SQLAlchemySaver(database)
    saver.setup()
    try:
        return await run_async(saver, steps, size)
    finally:
        database.close()


def file_bytes(path: Path) -> int:
    """Size of a closed database."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


class Measured(NamedTuple):
    """Milliseconds per superstep and bytes per superstep."""

    theirs: float
    ours: float
    theirs_async: float
    ours_async: float
    their_bytes: float
    our_bytes: float

    def line(self, label: str) -> str:
        """A line of the table."""
        return (
            f"{label:20} |{self.theirs:8.2f}{self.ours:8.2f}{self.ours / self.theirs:7.2f}"
            f" |{self.theirs_async:8.2f}{self.ours_async:8.2f}{self.ours_async / self.theirs_async:7.2f}"
            f" |{self.their_bytes:9.0f}{self.our_bytes:8.0f}{self.our_bytes / self.their_bytes:7.3f}"
        )


def measure(synchronous: str, steps: int, size: int, rounds: int) -> Measured:
    """The medians over the rounds; the sides take turns, so that a noisy moment meets all."""
    times: list[list[float]] = [[], [], [], []]
    sizes = [0, 0]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.db" for number in range(4)]
            times[0].append(theirs(paths[0], synchronous, steps, size))
            times[1].append(ours(paths[1], synchronous, steps, size))
            times[2].append(asyncio.run(theirs_async(paths[2], synchronous, steps, size)))
            times[3].append(asyncio.run(ours_async(paths[3], synchronous, steps, size)))
            sizes = [file_bytes(path) for path in paths[:2]]
    medians = [statistics.median(series) * 1000 / steps for series in times]
    return Measured(*medians, sizes[0] / steps, sizes[1] / steps)


HEAD = f"{'':20} |{'sync, ms':^23} |{'async, ms':^23} |{'bytes':^24}"
SIDES = f"{'':20} |" + f"{'theirs':>8}{'ours':>8}{'ratio':>7} |" * 2 + f"{'theirs':>9}{'ours':>8}{'ratio':>7}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="NORMAL only, one round")
    options = parser.parse_args()
    print(f"{HEAD}\n{SIDES}")
    for synchronous in ("NORMAL",) if options.quick else ("NORMAL", "FULL"):
        for steps, size in SIZES:
            measured = measure(synchronous, steps, size, 1 if options.quick else options.rounds)
            print(measured.line(f"{synchronous:6} {steps:4} x {size:4} B"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
