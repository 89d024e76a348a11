"""Supersteps: both sides run the same graph in `sync` durability, in turns, each round in a new database."""

import asyncio
import gc
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barest import barest, nothing
from sides import FIRST, Side, chat, in_memory, our_postgres, our_sqlite, their_postgres, their_sqlite
from store.engines import Engines

SIZES = [(50, 300), (200, 300), (200, 5_000)]  # supersteps, bytes of each message
GET_STATES = 5  # calls of get_state, of which the median counts

Sides = Callable[[Path], tuple[Side, Side]]
Floors = Callable[[Path], tuple[Side, Side]]
"""A saver that keeps nothing, and the barest one: see `barest`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds per superstep, bytes per superstep, and milliseconds of a `get_state` at the end.

    `memory` is InMemorySaver's superstep. `ratio` and its like are medians of the rounds' ratios to the official saver,
    in which all had the same neighbours; `ratio_nothing` and `ratio_barest` are of the `Floors`, 0 where there are none.
    """

    setting: str
    steps: int
    size: int
    theirs: float
    ours: float
    theirs_async: float
    ours_async: float
    their_bytes: float
    our_bytes: float
    their_state: float
    our_state: float
    memory: float
    ratio: float
    ratio_async: float
    ratio_state: float
    ratio_nothing: float
    ratio_barest: float

    def line(self) -> str:
        """A line of the table."""
        parts = (
            (self.theirs, self.ours, self.ratio),
            (self.theirs_async, self.ours_async, self.ratio_async),
            (self.their_bytes, self.our_bytes, self.our_bytes / self.their_bytes),
            (self.their_state, self.our_state, self.ratio_state),
        )
        shown = " |".join(f"{theirs:9.2f}{ours:8.2f}{ratio:7.3f}" for theirs, ours, ratio in parts)
        floors = f"{self.ratio_nothing:9.3f}{self.ratio_barest:8.3f}" if self.ratio_barest else ""
        return f"{self.setting:10} {self.steps:4} x {self.size:4} B |{shown} |{self.memory:7.2f} |{floors}"


def settings(steps: int) -> Any:
    """The config of a run."""
    return {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}


def run_sync(side: Side, steps: int, size: int, *, reads: int = GET_STATES) -> tuple[float, float]:
    """Seconds of one run through the sync methods, and of a `get_state` behind it: the median of so many."""
    with side.opened() as saver:
        graph = chat(steps, size).compile(checkpointer=saver)
        gc.collect()  # what the other side left is not this one's to clear away
        start = time.perf_counter()
        graph.invoke(FIRST, settings(steps), durability="sync")
        took = time.perf_counter() - start
        states = [_state_s(graph, steps) for _ in range(reads)]
        return took, statistics.median(states) if states else 0.0


def _state_s(graph: Any, steps: int) -> float:
    start = time.perf_counter()
    assert len(graph.get_state(settings(steps)).values["messages"]) == steps + 1
    return time.perf_counter() - start


async def run_async(side: Side, steps: int, size: int) -> float:
    """Seconds of one run through the async methods."""
    async with side.aopened() as saver:
        graph = chat(steps, size).compile(checkpointer=saver)
        gc.collect()
        start = time.perf_counter()
        await graph.ainvoke(FIRST, settings(steps), durability="sync")
        return time.perf_counter() - start


def empty_bytes(side: Side) -> int:
    """What the database takes before anything is stored."""
    with side.opened():
        pass
    return side.size()


def measure(
    setting: str, sides: Sides, steps: int, size: int, rounds: int, floors: Floors | None = None
) -> Measured:
    """The medians over the rounds; the sides take turns, so that a noisy moment meets both."""
    rows: list[list[float]] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_round(sides, floors, Path(folder), steps, size, ours_first=bool(number % 2)))
    medians = [statistics.median(series) for series in zip(*rows, strict=True)]
    theirs, ours, their_state, our_state, theirs_async, ours_async, their_bytes, our_bytes, memory = medians[
        :9
    ]
    per_step = 1000 / steps
    return Measured(
        setting,
        steps,
        size,
        theirs * per_step,
        ours * per_step,
        theirs_async * per_step,
        ours_async * per_step,
        their_bytes / steps,
        our_bytes / steps,
        their_state * 1000,
        our_state * 1000,
        memory * per_step,
        ratio=statistics.median(row[1] / row[0] for row in rows),
        ratio_async=statistics.median(row[5] / row[4] for row in rows),
        ratio_state=statistics.median(row[3] / row[2] for row in rows),
        ratio_nothing=statistics.median(row[9] / row[0] for row in rows),
        ratio_barest=statistics.median(row[10] / row[0] for row in rows),
    )


def _round(
    sides: Sides, floors: Floors | None, folder: Path, steps: int, size: int, *, ours_first: bool
) -> list[float]:
    """Every figure of a round: theirs, ours, their and our get_state, both async, both sizes, InMemorySaver, the floors."""
    order = (1, 0) if ours_first else (0, 1)
    pair = sides(folder)
    empty = [empty_bytes(side) for side in pair]
    took = {place: run_sync(pair[place], steps, size) for place in order}
    grown = [side.size() - before for side, before in zip(pair, empty, strict=True)]
    others = sides(folder)
    for side in others:
        empty_bytes(side)  # tables are made before the clock runs
    took_async = {place: asyncio.run(run_async(others[place], steps, size)) for place in order}
    below = [
        run_sync(one, steps, size, reads=0)[0] for one in (in_memory(), *(floors(folder) if floors else ()))
    ]
    (theirs, their_state), (ours, our_state) = took[0], took[1]
    figures = [theirs, ours, their_state, our_state, took_async[0], took_async[1], *grown, *below]
    return figures if floors else [*figures, 0.0, 0.0]


def sqlite_sides(synchronous: str) -> Sides:
    """Two new SQLite files at each call."""
    made = iter(range(10**6))

    def sides(folder: Path) -> tuple[Side, Side]:
        number = next(made)
        theirs, ours = folder / f"theirs{number}.db", folder / f"ours{number}.db"
        return their_sqlite(theirs, synchronous), our_sqlite(ours, synchronous)

    return sides


def sqlite_floors(synchronous: str) -> Floors:
    """A new SQLite file at each call, for the barest saver."""
    made = iter(range(10**6))

    def floors(folder: Path) -> tuple[Side, Side]:
        return nothing(), barest(folder / f"barest{next(made)}.db", synchronous)

    return floors


def postgres_sides(servers: Engines) -> Sides:
    """Two new schemas at each call."""

    def sides(folder: Path) -> tuple[Side, Side]:
        return their_postgres(servers.new("postgresql", folder)), our_postgres(
            servers.new("postgresql", folder)
        )

    return sides


def exponent(measured: Sequence[Measured], bytes_of: Callable[[Measured], float]) -> float:
    """How the size grows with the steps: 1 is with their number, 2 with its square."""
    few, many = (one for one in measured if one.size == SIZES[0][1])
    return 1 + math.log(bytes_of(many) / bytes_of(few)) / math.log(many.steps / few.steps)
