"""Many threads: short ones, one after the other, and fifty at once. Milliseconds per superstep, theirs and ours."""

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sides import FIRST, Side, chat
from supersteps import sqlite_sides

AT_ONCE = 50
SHORT_STEPS = 4
STEPS_AT_ONCE = 10
SIZE = 300


def _short(side: Side, count: int) -> float:
    """Seconds for `count` new threads of four supersteps each: a question, a call, an answer."""
    with side.opened() as saver:
        graph = chat(SHORT_STEPS, SIZE).compile(checkpointer=saver)
        start = time.perf_counter()
        for number in range(count):
            graph.invoke(FIRST, _thread(number), durability="sync")
        return time.perf_counter() - start


def _crowd(side: Side, count: int) -> float:
    """Seconds for `count` threads of ten supersteps each, all at once."""
    with side.opened() as saver:
        graph = chat(STEPS_AT_ONCE, SIZE).compile(checkpointer=saver)

        def drive(number: int) -> None:
            graph.invoke(FIRST, _thread(number), durability="sync")

        with ThreadPoolExecutor(count) as pool:
            start = time.perf_counter()
            list(pool.map(drive, range(count)))
            return time.perf_counter() - start


def _thread(number: int) -> Any:
    return {"configurable": {"thread_id": f"t{number}"}}


def compare(work: Callable[[Side, int], float], count: int, steps: int, rounds: int) -> dict[str, float]:
    """Milliseconds per superstep on SQLite NORMAL, and the median of the rounds' ratios."""
    sides = sqlite_sides("NORMAL")
    rows = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            pair = sides(Path(folder))
            order = (1, 0) if number % 2 else (0, 1)
            took = {place: work(pair[place], count) for place in order}
            rows.append((took[0], took[1]))
    theirs, ours = (statistics.median(series) * 1000 / (count * steps) for series in zip(*rows, strict=True))
    return {
        "theirs": theirs,
        "ours": ours,
        "ratio": statistics.median(ours / theirs for theirs, ours in rows),
    }


def short_threads(count: int) -> dict[str, float]:
    """New threads, one after the other."""
    return {"threads": count, **compare(_short, count, SHORT_STEPS, 3)}


def at_once() -> dict[str, float]:
    """Fifty threads at once."""
    return {"threads": AT_ONCE, **compare(_crowd, AT_ONCE, STEPS_AT_ONCE, 3)}
