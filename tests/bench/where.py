"""Where the time of a turn goes: which packages the processors work for, in a run of many turns.

    python tests/bench/where.py [--turns 200] [--docs]

Every thread's processor time is profiled by `cProfile`, which makes code of many small functions look bigger than it is. A built-in
function counts for the package that called it. `--docs` writes the table into docs/compared.md.
"""

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_turns import Clock, ours
from compared import write

from adjourn.checkpoints.database import Database

PARTS = {  # part of a file's path -> what the table calls it
    "/adjourn/checkpoints/": "Adjourn: checkpoints",
    "/adjourn/nodes/": "Adjourn: nodes",
    "/adjourn/graph/": "Adjourn: graph",
    "/langgraph/": "LangGraph",
    "/langchain_core/": "LangChain",
    "/sqlalchemy/": "SQLAlchemy",
    "/asyncio/": "asyncio and threads",
    "/concurrent/": "asyncio and threads",
    "/threading.py": "asyncio and threads",
    "/selectors.py": "asyncio and threads",
}
REST = "other: JSON, dataclasses, pydantic, ..."


def part_of(path: str) -> str:
    """What a file belongs to."""
    return next((name for part, name in PARTS.items() if part in path), REST)


def profiled(work: Callable[[], Any], profiles: list[cProfile.Profile]) -> Callable[[], Any]:
    """`work`, with the time that it takes on its thread noted."""

    def run() -> Any:
        if threading.current_thread() is threading.main_thread():  # it has a profile of its own
            return work()
        profile = cProfile.Profile(time.thread_time, builtins=False)
        try:
            return profile.runcall(work)
        finally:
            profiles.append(profile)

    return run


def shares(turns: int) -> Counter[str]:
    """Seconds by part."""
    profiles: list[cProfile.Profile] = []
    soon = Database.soon

    def watched(self: Database, work: Callable[[], Any], **told: Any) -> Any:
        return soon(self, profiled(work, profiles), **told)

    async def drive(count: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            await ours(count, 300, Path(folder), False, Clock())

    asyncio.run(drive(5))  # what is done once is no part of a turn
    Database.soon = watched  # type: ignore[assignment,method-assign]
    main = cProfile.Profile(time.thread_time, builtins=False)
    main.runcall(asyncio.run, drive(turns))
    found: Counter[str] = Counter()
    for (path, _, _), (_, _, own_s, _, _) in pstats.Stats(main, *profiles).stats.items():  # type: ignore[attr-defined]
        found[part_of(path)] += own_s
    return found


def table(found: Counter[str]) -> list[str]:
    """The table's lines."""
    whole = sum(found.values())
    own = sum(seconds for name, seconds in found.items() if name.startswith("Adjourn"))
    lines = ["| works for | share of the time |", "|---|---|"]
    lines += [f"| {name} | {seconds / whole:.0%} |" for name, seconds in found.most_common()]
    return [*lines, "", f"Adjourn's own code is {own / whole:.0%} of it."]


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    assert threading.active_count() == 1
    lines = table(shares(given.turns))
    print("\n".join(lines))
    if given.docs:
        write("where", f"python tests/bench/where.py --docs --turns {given.turns}", lines)


if __name__ == "__main__":
    main()
