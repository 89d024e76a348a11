"""This store beside LangGraph's own savers: milliseconds and bytes per superstep, and what many runs cost.

    python tests/bench/bench_store.py [--rounds 2] [--quick] [--waiting 100000] [--json FILE]

Both sides run the same graph in `sync` durability with the same `synchronous` setting, in turns, each round
in a new database. Reported is the median over the rounds, and the ratio (below 1: this store is faster). A
superstep appends one message. The figures go to a JSON file as well, beside this one if none is named.
"""

import argparse
import asyncio
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the servers of the store's tests

from sides import FIRST, Side, chat, our_postgres, our_sqlite, their_postgres, their_sqlite
from store.engines import Engines, engines
from waiting import measure as measure_waiting

SIZES = [(50, 300), (200, 300), (200, 5_000)]  # supersteps, bytes of each message
WAITING = 10_000  # interrupted runs in one file
GET_STATES = 5  # calls of get_state, of which the median counts

Sides = Callable[[Path], tuple[Side, Side]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds per superstep, bytes per superstep, and milliseconds of a `get_state` at the end."""

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

    def line(self) -> str:
        """A line of the table."""
        pairs = (
            (self.theirs, self.ours),
            (self.theirs_async, self.ours_async),
            (self.their_bytes, self.our_bytes),
            (self.their_state, self.our_state),
        )
        shown = " |".join(f"{theirs:9.2f}{ours:8.2f}{ours / theirs:7.3f}" for theirs, ours in pairs)
        return f"{self.setting:10} {self.steps:4} x {self.size:4} B |{shown}"


def settings(steps: int) -> Any:
    """The config of a run."""
    return {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}


def run_sync(side: Side, steps: int, size: int) -> tuple[float, float]:
    """Seconds of one run through the sync methods, and of a `get_state` behind it."""
    with side.opened() as saver:
        graph = chat(steps, size).compile(checkpointer=saver)
        start = time.perf_counter()
        graph.invoke(FIRST, settings(steps), durability="sync")
        took = time.perf_counter() - start
        return took, statistics.median(_state_s(graph, steps) for _ in range(GET_STATES))


def _state_s(graph: Any, steps: int) -> float:
    start = time.perf_counter()
    assert len(graph.get_state(settings(steps)).values["messages"]) == steps + 1
    return time.perf_counter() - start


async def run_async(side: Side, steps: int, size: int) -> float:
    """Seconds of one run through the async methods."""
    async with side.aopened() as saver:
        graph = chat(steps, size).compile(checkpointer=saver)
        start = time.perf_counter()
        await graph.ainvoke(FIRST, settings(steps), durability="sync")
        return time.perf_counter() - start


def empty_bytes(side: Side) -> int:
    """What the database takes before anything is stored."""
    with side.opened():
        pass
    return side.size()


def measure(setting: str, sides: Sides, steps: int, size: int, rounds: int) -> Measured:
    """The medians over the rounds; the sides take turns, so that a noisy moment meets both."""
    rows: list[list[float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_round(sides, Path(folder), steps, size))
    theirs, ours, their_state, our_state, theirs_async, ours_async, their_bytes, our_bytes = (
        statistics.median(series) for series in zip(*rows, strict=True)
    )
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
    )


def _round(sides: Sides, folder: Path, steps: int, size: int) -> list[float]:
    pair = sides(folder)
    empty = [empty_bytes(side) for side in pair]
    (theirs, their_state), (ours, our_state) = (run_sync(side, steps, size) for side in pair)
    grown = [side.size() - before for side, before in zip(pair, empty, strict=True)]
    others = sides(folder)
    for side in others:
        empty_bytes(side)  # tables are made before the clock runs
    theirs_async, ours_async = (asyncio.run(run_async(side, steps, size)) for side in others)
    return [theirs, ours, their_state, our_state, theirs_async, ours_async, *grown]


def sqlite_sides(synchronous: str) -> Sides:
    """Two new SQLite files at each call."""
    made = iter(range(10**6))

    def sides(folder: Path) -> tuple[Side, Side]:
        number = next(made)
        theirs, ours = folder / f"theirs{number}.db", folder / f"ours{number}.db"
        return their_sqlite(theirs, synchronous), our_sqlite(ours, synchronous)

    return sides


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


HEAD = f"{'':23} |{'sync, ms':^24} |{'async, ms':^24} |{'bytes':^24} |{'get_state, ms':^24}"
TITLES = f"{'':23} |" + " |".join([f"{'theirs':>9}{'ours':>8}{'ratio':>7}"] * 4)


def bench_supersteps(rounds: int, quick: bool, servers: Engines) -> dict[str, Any]:
    """Print the table of supersteps, and give its figures."""
    print(f"{HEAD}\n{TITLES}")
    kinds = {"NORMAL": sqlite_sides("NORMAL")}
    if not quick:
        kinds |= {"FULL": sqlite_sides("FULL"), "PostgreSQL": postgres_sides(servers)}
    shown: dict[str, Any] = {"supersteps": [], "growth": {}}
    for setting, sides in kinds.items():
        found = []
        for steps, size in SIZES:
            found.append(measure(setting, sides, steps, size, rounds))
            print(found[-1].line(), flush=True)
        grows = {
            "theirs": exponent(found, lambda one: one.their_bytes),
            "ours": exponent(found, lambda one: one.our_bytes),
        }
        print(f"{setting:10} growth exponent: theirs {grows['theirs']:.2f}, ours {grows['ours']:.2f}")
        shown["supersteps"] += [asdict(one) for one in found]
        shown["growth"][setting] = grows
    return shown


def bench_waiting(count: int) -> dict[str, float]:
    """Print what the questions over many waiting runs cost, and give the figures."""
    print(f"\n{count} interrupted runs in one SQLite file, ms")
    with tempfile.TemporaryDirectory() as folder:
        found = measure_waiting(Path(folder), count)
    for name, value in found.items():
        print(f"  {name:26}{value:10.3f}")
    return found


def main() -> int:
    """Print the tables and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="SQLite NORMAL only, one round")
    parser.add_argument("--waiting", type=int, default=WAITING, help="interrupted runs in one file")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_name("bench_store.json"))
    options = parser.parse_args()
    with engines() as servers:
        shown = bench_supersteps(1 if options.quick else options.rounds, options.quick, servers)
    shown["waiting"] = {"runs": options.waiting, **bench_waiting(options.waiting)}
    options.json.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
