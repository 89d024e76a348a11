"""This store beside LangGraph's own savers: milliseconds and bytes per superstep, and what many runs cost.

    python tests/bench/bench_store.py [--quick] [--rounds N] [--waiting 100000] [--json FILE] [--readme]

Both sides run the same graph in `sync` durability with the same `synchronous` setting, in turns, each round
in a new database. Reported is the median over the rounds, and the ratio (below 1: this store is faster). A
superstep appends one message. The figures go to a JSON file as well, beside this one if none is named; with
`--readme` the tables of both READMEs are made from it. A busy machine makes every figure doubtful: the load
before and behind is in the file.
"""

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the servers of the store's tests

from crowds import at_once, short_threads
from readme_table import write_tables
from store.engines import Engines, engines
from supersteps import SIZES, Floors, Sides, exponent, measure, postgres_sides, sqlite_floors, sqlite_sides
from waiting import measure as measure_waiting

WAITING = 10_000  # interrupted runs in one file
SHORT = 500  # short threads
ROUNDS = {(50, 300): 11, (200, 300): 5, (200, 5_000): 3}  # the shorter a run, the more it is disturbed
PACKAGES = (
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langchain-core",
    "sqlalchemy",
    "psycopg",
)

HEAD = f"{'':23} |{'sync, ms':^24} |{'async, ms':^24} |{'bytes':^24} |{'get_state, ms':^24} |{'memory':>7} |{'floors':^17}"
TITLES = (
    f"{'':23} |"
    + " |".join([f"{'theirs':>9}{'ours':>8}{'ratio':>7}"] * 4)
    + f" |{'':7} |{'nothing':>9}{'barest':>8}"
)


def circumstances() -> dict[str, Any]:
    """When, where and with what."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": {name: version(name) for name in PACKAGES},
        "load": [round(one, 1) for one in os.getloadavg()],
    }


def bench_supersteps(quick: bool, rounds: int | None, servers: Engines) -> dict[str, Any]:
    """Print the table of supersteps, and give its figures. `rounds` None: as many as each row needs."""
    print(f"{HEAD}\n{TITLES}")
    kinds: dict[str, tuple[Sides, Floors | None]] = {
        "NORMAL": (sqlite_sides("NORMAL"), sqlite_floors("NORMAL"))
    }
    if not quick:
        kinds["FULL"] = sqlite_sides("FULL"), sqlite_floors("FULL")
        kinds["PostgreSQL"] = postgres_sides(servers), None
    shown: dict[str, Any] = {"supersteps": [], "growth": {}}
    for setting, (sides, floors) in kinds.items():
        found = []
        for steps, size in SIZES:
            found.append(measure(setting, sides, steps, size, rounds or ROUNDS[steps, size], floors))
            print(found[-1].line(), flush=True)
        grows = {
            "theirs": exponent(found, lambda one: one.their_bytes),
            "ours": exponent(found, lambda one: one.our_bytes),
        }
        print(f"{setting:10} growth exponent: theirs {grows['theirs']:.2f}, ours {grows['ours']:.2f}")
        shown["supersteps"] += [asdict(one) for one in found]
        shown["growth"][setting] = grows
    return shown


def bench_crowds(quick: bool) -> dict[str, Any]:
    """Print what many threads cost, and give the figures."""
    found = {"short": short_threads(SHORT // 10 if quick else SHORT), "at_once": at_once()}
    print("\nms per superstep, SQLite NORMAL: theirs, ours, ratio")
    for name, one in found.items():
        print(
            f"  {one['threads']:5.0f} threads, {name:8}{one['theirs']:9.2f}{one['ours']:8.2f}{one['ratio']:7.3f}"
        )
    return found


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
    parser.add_argument("--quick", action="store_true", help="SQLite NORMAL only, one round")
    parser.add_argument("--rounds", type=int, help="of each row, instead of 11, 5 and 3")
    parser.add_argument("--waiting", type=int, default=WAITING, help="interrupted runs in one file")
    parser.add_argument("--json", type=Path, default=Path(__file__).with_name("bench_store.json"))
    parser.add_argument("--readme", action="store_true", help="make the READMEs' tables from the figures")
    options = parser.parse_args()
    shown: dict[str, Any] = {"circumstances": circumstances()}
    with engines() as servers:
        rounds = 1 if options.quick else options.rounds
        shown |= bench_supersteps(options.quick, rounds, servers)
    shown["crowds"] = bench_crowds(options.quick)
    shown["waiting"] = {"runs": options.waiting, **bench_waiting(options.waiting)}
    shown["circumstances"]["load_behind"] = [round(one, 1) for one in os.getloadavg()]
    options.json.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {options.json}")
    if options.readme:
        write_tables(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
