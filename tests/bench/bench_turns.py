"""Whole turns side by side: LangChain's `create_agent` with its SQLite saver, and Adjourn, on the same model and tool.

    python tests/bench/bench_turns.py [--rounds 3] [--docs]

One read per turn, `sync` durability, both in this process and in turns; medians of rounds, and their ratio (below 1
Adjourn is faster). The floor is the ratio of create_agent without any store. Each side has had a run of two turns on another
thread before: connections are open. `as shipped`: SqliteSaver leaves SQLite at synchronous=FULL, Adjourn is at NORMAL and syncs
where a write must be on the disk; `FULL`: both at FULL. `--docs` writes the table into docs/compared.md.
"""

import asyncio
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compared import arguments, write
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from adjourn.checkpoints.database import Database
from adjourn.graph import Limits, Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

CASES = ((10, 300), (50, 300), (200, 300), (200, 5_000))  # turns, characters of each result
AIMS = {("as shipped", 10, 300): 0.7, ("as shipped", 200, 300): 0.5, ("as shipped", 200, 5_000): 0.27,
        ("FULL", 10, 300): 1.0, ("FULL", 200, 300): 0.65, ("FULL", 200, 5_000): 0.35}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds a turn, by the clock and of the processors; KB a turn in the file."""

    wall_ms: float
    cpu_ms: float
    kb: float


def model(turns: int) -> ScriptedModel:
    """One call per turn, then an answer; before that a run of two turns."""

    def script(turns: int) -> list[Any]:
        return [
            *(says("", call("look", {"query": str(n)}, id=f"c{n}")) for n in range(turns - 1)),
            "done",
        ]

    return ScriptedModel(turns=[*script(2), *script(turns)], check=False)


def look_of(size: int) -> Callable[[str], str]:
    """A read with a result of so many characters."""

    def look(query: str) -> str:
        """Look."""
        return (query + " ") + "x" * size

    return look


class Clock:
    """Measures between `start` and `stop`: neither making tables nor closing files is part of a turn."""

    wall_s = cpu_s = 0.0

    def start(self) -> None:
        self.wall_s, self.cpu_s = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self.wall_s, self.cpu_s = time.perf_counter() - self.wall_s, time.process_time() - self.cpu_s


async def peer(turns: int, size: int, folder: Path, full: bool, clock: Clock) -> None:
    """create_agent's run."""
    del full  # it is always at FULL
    async with AsyncSqliteSaver.from_conn_string(str(folder / "state.db")) as saver:
        await saver.setup()
        await _agent_runs(turns, size, clock, checkpointer=saver)


async def alone(turns: int, size: int, folder: Path, full: bool, clock: Clock) -> None:
    """create_agent's run without any store: what LangGraph and LangChain take by themselves."""
    del folder, full
    await _agent_runs(turns, size, clock)


async def _agent_runs(turns: int, size: int, clock: Clock, **stored: Any) -> None:
    agent = create_agent(model(turns), [look_of(size)], **stored)
    durable: Any = {"durability": "sync"} if stored else {}

    async def go(thread: str) -> None:
        config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}
        await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]}, config, **durable)

    await go("first")
    clock.start()
    await go("t")
    clock.stop()


async def ours(turns: int, size: int, folder: Path, full: bool, clock: Clock) -> None:
    """Adjourn's run."""
    limits = Limits(max_steps=turns + 1, max_active_s=None)
    graph = build_react(model(turns), [tool(effect="read")(look_of(size))], limits=limits)
    database = Database(f"sqlite:///{folder / 'state.db'}", synchronous="FULL" if full else "NORMAL")
    database.setup()
    try:
        with Runner(graph, database) as runner:
            await runner.start("go")
            clock.start()
            run = await runner.start("go")
            clock.stop()
            assert (run.status, run.row.steps) == ("finished", turns), run.error
    finally:
        database.close()


async def timed(side: Callable[..., Awaitable[None]], turns: int, size: int, full: bool) -> Took:
    """One run of a side in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        await side(turns, size, Path(folder), full, clock)
        kb = sum(one.stat().st_size for one in Path(folder).iterdir()) / 1024
    return Took(clock.wall_s * 1000 / turns, clock.cpu_s * 1000 / turns, kb / turns)


def median(rounds: list[Took]) -> Took:
    """The middle of each figure."""
    return Took(*(statistics.median(getattr(one, name) for one in rounds) for name in Took.__slots__))


async def table(rounds: int) -> list[str]:
    """The table's lines."""
    lines = [
        "| | turns × result | ms per turn: create_agent, Adjourn | ratio (aim) | floor "
        "| CPU ms per turn | CPU ratio | floor | KB per turn | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for setting, full in (("as shipped", False), ("FULL", True)):
        for turns, size in CASES:
            found = [
                [await timed(side, turns, size, full) for side in (peer, ours, alone)] for _ in range(rounds)
            ]
            theirs, mine, _ = (median(list(series)) for series in zip(*found, strict=True))
            wall, floor = (
                statistics.median(row[n].wall_ms / row[0].wall_ms for row in found) for n in (1, 2)
            )
            cpu, cpu_floor = (
                statistics.median(row[n].cpu_ms / row[0].cpu_ms for row in found) for n in (1, 2)
            )
            aim = AIMS.get((setting, turns, size))
            aimed = f" ({aim:g})" if aim else ""
            lines.append(
                f"| {setting} | {turns} × {size:,} | {theirs.wall_ms:.1f}, {mine.wall_ms:.1f} | {wall:.2f}{aimed} "
                f"| {floor:.2f} | {theirs.cpu_ms:.1f}, {mine.cpu_ms:.1f} | {cpu:.2f} | {cpu_floor:.2f} "
                f"| {theirs.kb:.1f}, {mine.kb:.1f} | {mine.kb / theirs.kb:.3f} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print, and write where asked."""
    given = arguments(__doc__).parse_args()
    warnings.simplefilter("ignore")
    lines = asyncio.run(table(given.rounds))
    if given.docs:
        write("turns", "python tests/bench/bench_turns.py --docs", lines)


if __name__ == "__main__":
    main()
