"""What a new process costs, side by side with LangChain's `create_agent`, each measured in fresh processes.

    python tests/bench/bench_start.py [--rounds 3] [--docs]

- The imports of an agent with its saver; a question answered in a new process, until its tool is entered; the memory of a
  thousand runs that stop at their questions at once (`start_app.py`).
- The commands of the command line that need no graph, beside `python -c "import sqlalchemy"`, on a file with a hundred
  thousand runs.

The sides take turns; medians of the rounds, and the median of their ratios. Bytecode is cached, as it is for users, in a folder
of its own. `--docs` writes the tables into docs/compared.md.
"""

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from compared import arguments, write

APP = str(Path(__file__).with_name("start_app.py"))
IMPORTS = {
    "theirs": "from langchain.agents import create_agent; from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver",
    "ours": "from adjourn.graph import Runner, build_react; from adjourn.nodes import ScriptedModel",
}
RUNS = 100_000  # in the file that the commands look at
MEMORY_ROUNDS = 1  # a thousand runs take half a minute, and their memory does not vary

ADJOURN = "import sys; from adjourn.graph.cli import main; sys.exit(main())"  # what the script `adjourn` does
WATCHED = (
    "runs",
    "runs --interrupted",
    "show run_1",
    "events run_1",
    "metrics",
    "prune --older-than 9000d --dry-run",
    "doctor",
)
SLOWER = 1.6  # a command that needs no graph may take so many times `import sqlalchemy`
HELP_S = 0.4


class Processes:
    """Python processes in a folder, with cached bytecode."""

    def __init__(self, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.folder, self.environment = folder, {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}

    def run(self, *words: str) -> str:
        """What the process prints. It must end well, or as `doctor` does where people have waited for long."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            check=False,
            text=True,
        )
        if done.returncode not in (0, 4):
            done.check_returncode()
        return done.stdout

    def seconds(self, *words: str) -> float:
        """How long it takes, from its start to its end."""
        began = time.perf_counter()
        self.run(*words)
        return time.perf_counter() - began


def alternating(
    rounds: int, sides: Mapping[str, Callable[[], Mapping[str, float]]]
) -> list[dict[str, Mapping[str, float]]]:
    """What each side shows in each round; who begins changes. A first round warms the caches and does not count."""
    order = list(sides)
    found = []
    for number in range(rounds + 1):
        found.append({side: sides[side]() for side in (order if number % 2 else reversed(order))})
    return found[1:]


def line(what: str, unit: str, found: Sequence[Mapping[str, Mapping[str, float]]], name: str) -> str:
    """A line of the table; below 1 Adjourn needs less."""
    theirs, ours = (statistics.median(one[side][name] for one in found) for side in ("theirs", "ours"))
    ratio = statistics.median(one["ours"][name] / one["theirs"][name] for one in found)
    shown = f"| {what} | {unit} | {theirs:,.2f} | {ours:,.2f} | {ratio:.2f} |"
    print(shown, flush=True)
    return shown


def agents(processes: Processes, rounds: int) -> list[str]:
    """Imports, resuming, memory."""
    lines = ["| in a new process | | `create_agent` | Adjourn | ratio |", "|---|---|---|---|---|"]
    print("\n".join(lines))

    def importing(side: str) -> Callable[[], Mapping[str, float]]:
        return lambda: {"s": processes.seconds("-c", IMPORTS[side])}

    def resuming(side: str) -> Callable[[], Mapping[str, float]]:
        def measure() -> Mapping[str, float]:
            with tempfile.TemporaryDirectory(dir=processes.folder) as folder:
                processes.run(APP, "ask", side, folder)
                began = time.time()
                seen = json.loads(processes.run(APP, "resume", side, folder))
            return {"whole": seen["entered"] - began, "call": (seen["entered"] - seen["called"]) * 1000}

        return measure

    def crowding(side: str) -> Callable[[], Mapping[str, float]]:
        def measure() -> Mapping[str, float]:
            with tempfile.TemporaryDirectory(dir=processes.folder) as folder:
                seen = json.loads(processes.run(APP, "crowd", side, folder))
            return {"mb": seen["mb"], "grown": seen["mb"] - seen["before_mb"]}

        return measure

    found = alternating(rounds, {side: importing(side) for side in IMPORTS})
    lines.append(line("import of an agent and its saver", "s", found, "s"))
    found = alternating(rounds, {side: resuming(side) for side in IMPORTS})
    lines.append(line("a question answered: from the process's start to its tool", "s", found, "whole"))
    lines.append(line("the same, from the call of `resume`", "ms", found, "call"))
    found = [{side: crowding(side)() for side in IMPORTS} for _ in range(MEMORY_ROUNDS)]
    lines.append(line("1,000 runs stop at their questions at once: peak memory", "MB", found, "mb"))
    lines.append(line("of it, above what imports took", "MB", found, "grown"))
    return lines


def fill(file: Path, count: int) -> None:
    """From the one run in the file make `count`, each on a thread of its own, by SQL."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for table, own in (("runs", ("id", "thread_id")), ("interrupts", ("id", "run_id"))):
            names = [one[1] for one in connection.execute(f"PRAGMA table_info({table})")]
            taken = ", ".join(f"{name} || '_' || n" if name in own else name for name in names)
            connection.execute(
                f"WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < {count - 1}) "
                f"INSERT INTO {table} SELECT {taken} FROM {table}, many"
            )
        # a day in the life of the store: one run a second
        connection.execute(
            "UPDATE runs SET created_at = strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', '-' || rowid || ' seconds')"
        )
        connection.execute("UPDATE runs SET id = 'run_1' WHERE rowid = 1")
        connection.execute("UPDATE events SET run_id = 'run_1'")


def commands(processes: Processes, rounds: int) -> list[str]:
    """The commands that need no graph."""
    processes.run(APP, "ask", "ours", str(processes.folder))
    fill(processes.folder / "ours.db", RUNS)
    store = ("--store", "sqlite:///ours.db")
    cases = {name: (*name.split(), *store) for name in WATCHED}
    head = f"| on a file of {RUNS:,} runs | s | times `import sqlalchemy` (aim) |"
    lines = [head, "|---|---|---|"]
    print("\n".join(["", *lines]))
    sides = {
        "sqlalchemy": lambda: processes.seconds("-c", "import sqlalchemy"),
        "--help": lambda: processes.seconds("-c", ADJOURN, "--help"),
        **{
            name: (lambda words=words: processes.seconds("-c", ADJOURN, *words))
            for name, words in cases.items()
        },
    }
    found = [{name: side() for name, side in sides.items()} for _ in range(rounds + 1)][1:]
    for name in sides:
        took = statistics.median(one[name] for one in found)
        ratio = statistics.median(one[name] / one["sqlalchemy"] for one in found)
        aim = {"sqlalchemy": "", "--help": f" (under {HELP_S} s)"}.get(name, f" ({SLOWER})")
        shown = '`python -c "import sqlalchemy"`' if name == "sqlalchemy" else f"`adjourn {name}`"
        lines.append(f"| {shown} | {took:.2f} | {ratio:.2f}{aim} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print, and write where asked."""
    given = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder))
        lines = [*agents(processes, given.rounds), "", *commands(processes, given.rounds)]
    if given.docs:
        write("start", "python tests/bench/bench_start.py --docs", lines)


if __name__ == "__main__":
    main()
