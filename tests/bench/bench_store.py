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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
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


def run_sync(saver: Any, steps: int, size: int) -> float:
    """Seconds of one run through the sync methods."""
    graph = chat(steps, size).compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}
    start = time.perf_counter()
    graph.invoke({"messages": [HumanMessage("go", id="h")]}, config, durability="sync")
    return time.perf_counter() - start


def run_async(saver: Any, steps: int, size: int) -> float:
    """Seconds of one run through the async methods."""
    graph = chat(steps, size).compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}

    async def once() -> float:
        start = time.perf_counter()
        await graph.ainvoke({"messages": [HumanMessage("go", id="h")]}, config, durability="sync")
        return time.perf_counter() - start

    return asyncio.run(once())


@asynccontextmanager
async def official_async(path: Path, synchronous: str) -> AsyncIterator[Any]:
    """AsyncSqliteSaver over a file."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        await saver.conn.execute(f"PRAGMA synchronous={synchronous}")
        yield saver


def official(path: Path, synchronous: str, steps: int, size: int) -> float:
    """Seconds with SqliteSaver."""
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute(f"PRAGMA synchronous={synchronous}")
    try:
        return run_sync(saver, steps, size)
    finally:
        connection.close()


def ours(path: Path, synchronous: str, steps: int, size: int, runner: Any = run_sync) -> float:
    """Seconds with this store."""
    database = Database(f"sqlite:///{path}", synchronous=synchronous)
    saver = SQLAlchemySaver(database)
    saver.setup()
    try:
        return float(runner(saver, steps, size))
    finally:
        database.close()


def file_bytes(path: Path) -> int:
    """Size of a closed database."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


def measure(synchronous: str, steps: int, size: int, rounds: int) -> tuple[float, float, float, float, float]:
    """Milliseconds per superstep (theirs, ours, ours async) and bytes per superstep (theirs, ours)."""
    times: list[list[float]] = [[], [], []]
    sizes = [0, 0]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            there, here, here_async = (Path(folder) / name for name in ("theirs.db", "ours.db", "async.db"))
            times[0].append(official(there, synchronous, steps, size))
            times[1].append(ours(here, synchronous, steps, size))
            times[2].append(ours(here_async, synchronous, steps, size, run_async))
            sizes = [file_bytes(there), file_bytes(here)]
    medians = [statistics.median(series) * 1000 / steps for series in times]
    return medians[0], medians[1], medians[2], sizes[0] / steps, sizes[1] / steps


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="NORMAL only, one round")
    options = parser.parse_args()
    print(
        f"{'synchronous':12}{'steps':>6}{'bytes':>7} |{'theirs ms':>10}{'ours ms':>9}{'ratio':>7}{'async ms':>10} |{'theirs B':>10}{'ours B':>8}"
    )
    for synchronous in ("NORMAL",) if options.quick else ("NORMAL", "FULL"):
        for steps, size in SIZES:
            row = measure(synchronous, steps, size, 1 if options.quick else options.rounds)
            theirs, mine, mine_async, their_bytes, my_bytes = row
            print(
                f"{synchronous:12}{steps:6}{size:7} |{theirs:10.2f}{mine:9.2f}{mine / theirs:7.2f}{mine_async:10.2f}"
                f" |{their_bytes:10.0f}{my_bytes:8.0f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
