"""What a store carries with workers: `python tests/bench/bench_workers.py [RUNS [ENGINE]]`; the figures of
docs/production.md.

One process accepts runs and answers their questions; 1, 2 and 4 worker processes drive them. A run is three model calls
(of a scripted model, which takes no time), a read, a question, and two writes of 20 ms. Then:

- `overhead`: a run to its question, driven where it is started and by a worker, by turns over one store.
- `latency`: how old an event is when it reaches somebody who follows it in another process.
- `looks`: how long a worker looks for its next run where a hundred thousand wait for workers, and as many for people.
- `killed`: a worker is killed in the middle of a run, with the lease that `adjourn worker` has without a setting, and the
  time until another one has it is taken.
"""

import asyncio
import os
import sys
import tempfile
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import sqlalchemy as sa
from store import fleet_app
from store.engines import engines
from store.processes import PROCESSES

from adjourn.checkpoints import queue
from adjourn.graph import Runner
from adjourn.graph.worker import LEASE_S
from adjourn.nodes import approve

AT_ONCE = 8  # requests that the front desk has in hand
QUEUED = 100_000


class Desk:
    """The process that accepts, and the workers beside it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.given = (url, str(folder / "effects"), LEASE_S, 8)
        self.runner = Runner(fleet_app.graph(folder / "effects"), url, detached=True)
        self.here = Runner(fleet_app.graph(folder / "effects"), url)
        self.workers: list[Any] = []

    def hire(self, look_s: float = 0.0) -> Any:
        """Another worker; `look_s`: how long its reads take."""
        worker = PROCESSES.Process(target=fleet_app.work, args=(*self.given, look_s))
        worker.start()
        self.workers.append(worker)
        return worker

    def dismiss(self) -> None:
        """Let all workers go."""
        for one in self.workers:
            one.terminate()
        for one in self.workers:
            one.join()
        self.workers.clear()

    async def ask(self, statement: str) -> Any:
        """One value of the database."""
        read = sa.text(statement)
        return await self.runner.database.aread(lambda connection: connection.execute(read).scalar_one())

    async def until(self, statement: str, value: Any) -> float:
        """Until the database says so; gives the seconds that it took."""
        began = time.monotonic()
        while await self.ask(statement) != value:  # noqa: ASYNC110 - other processes do it
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def each(self, work: Any, of: Any) -> float:
        """Do this for each, some at once; gives the seconds that it took."""
        room = asyncio.Semaphore(AT_ONCE)

        async def one(item: Any) -> None:
            async with room:
                await work(item)

        began = time.monotonic()
        await asyncio.gather(*(one(item) for item in of))
        return time.monotonic() - began

    async def written(self) -> tuple[int, int]:
        """How many transactions have written on PostgreSQL, and how many bytes of its log; elsewhere nothing is known."""
        if self.runner.database.is_sqlite:
            return 0, 0
        transactions = await self.ask(
            "SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)"
        )
        return transactions, int(await self.ask("SELECT pg_current_wal_lsn() - '0/0'"))

    async def start(self, name: str) -> None:
        await self.runner.start("go", run_id=name, by="wang")

    async def answer(self, name: str) -> None:
        run = await self.runner.get(name)
        await self.runner.resume(name, {one.id: approve() for one in run.interrupts}, by="li")


async def throughput(desk: Desk, workers: int, runs: int) -> None:
    """`runs` runs through `workers` workers."""
    names = [f"w{workers}_{number}" for number in range(runs)]
    wrote = await desk.written()
    accepted = await desk.each(desk.start, names)
    for _ in range(workers):
        desk.hire()
    like = f"id LIKE 'w{workers}!_%' ESCAPE '!'"
    await desk.until(f"SELECT count(*) > 0 FROM runs WHERE {like} AND steps > 0", True)  # they have come up
    before = await desk.ask(f"SELECT count(*) FROM runs WHERE {like} AND status = 'interrupted'")
    asked = await desk.until(f"SELECT count(*) FROM runs WHERE {like} AND status = 'interrupted'", runs)
    began = time.monotonic()
    answered = await desk.each(desk.answer, names)
    await desk.until(f"SELECT count(*) FROM runs WHERE {like} AND status = 'finished'", runs)
    ended = time.monotonic() - began
    told = await desk.ask(f"SELECT sum(last_event) FROM runs WHERE {like}")
    desk.dismiss()
    load = os.getloadavg()[0]
    transactions, log = ((now - then) / runs for now, then in zip(await desk.written(), wrote, strict=True))
    print(
        f"{workers} workers: accepted {runs / accepted:.0f}/s; to the question {(runs - before) / asked:.0f}/s; "
        f"answered {runs / answered:.0f}/s, and from the answers to the end {runs / ended:.0f}/s; "
        f"events {told / (asked + ended):.0f}/s (load {load:.1f}); "
        f"a run is {told / runs:.0f} events, {transactions:.0f} transactions that write, {log / 1000:.0f} KB of log",
        flush=True,
    )


async def overhead(desk: Desk, rounds: int) -> None:
    """A run to its question, by turns driven here and by a worker elsewhere."""
    desk.hire()
    took: dict[str, list[float]] = {"here": [], "worker": []}
    for number in range(rounds + 5):
        began = time.perf_counter()
        await desk.here.start("go", run_id=f"here_{number}")
        took["here"].append(time.perf_counter() - began)
        began = time.perf_counter()
        await desk.start(f"there_{number}")
        async for _ in desk.runner.follow(f"there_{number}"):
            pass
        took["worker"].append(time.perf_counter() - began)
    desk.dismiss()
    here, there = (1000 * median(one[5:]) for one in took.values())
    print(
        f"a run to its question, medians of {rounds}: here {here:.0f} ms, by a worker {there:.0f} ms: "
        f"{there - here:.0f} ms more (load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


async def latency(desk: Desk, rounds: int) -> None:
    """How old the result of a read that takes up to 1.4 s is when a follower elsewhere has it."""
    desk.hire(look_s=0.7)
    ages: list[float] = []

    async def one(name: str) -> None:
        await desk.start(name)
        async for event in desk.runner.follow(name):
            if event.word == "tool_result":
                got = time.time()
                stored = await desk.ask(
                    f"SELECT at FROM events WHERE run_id = '{name}' AND number = {event.number}"
                )
                ages.append(got - datetime.fromisoformat(stored).timestamp())

    for number in range(rounds):
        await asyncio.gather(*(one(f"aged_{number}_{place}") for place in range(4)))
    desk.dismiss()
    print(
        f"an event that follows a pause is {1000 * median(ages):.0f} ms old at a follower elsewhere, one of ten "
        f"{1000 * quantiles(ages, n=10)[-1]:.0f} ms or more (load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


async def looks(desk: Desk) -> None:
    """A worker's look for its next runs, where very many wait."""
    fill = (
        "INSERT INTO runs (id, thread_id, graph, signature, started_by, status, input, priority, created_at, updated_at) "
        "SELECT 'q' || n, 'q' || n, 'fleet', 's', 'p' || (n % 97), CASE WHEN n % 2 = 0 THEN 'running' ELSE 'interrupted' "
        "END, '\"go\"', n % 3, '2026-01-01T' || n, '2026-01-01T' || n FROM numbers"
    )
    numbers = (
        f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {2 * QUEUED})"
    )
    words = (
        f"{numbers} {fill}"
        if desk.runner.database.is_sqlite
        else f"{fill.partition('SELECT')[0]}{numbers} SELECT{fill.partition('SELECT')[2]}"
    )
    database = desk.runner.database
    await database.awrite(lambda connection: connection.execute(sa.text(words)))
    await database.awrite(lambda connection: connection.execute(sa.text("ANALYZE runs")))
    settings: dict[str, dict[str, int]] = {
        "": {},
        " with limits": {"most_per_person": 2, "most_per_graph": 50},
    }
    for name, limits in settings.items():
        look = partial(queue.unowned, graph="fleet", limit=8, **limits)
        took = []
        for _ in range(30):
            began = time.perf_counter()
            assert len(await database.aread(look)) == 8
            took.append(time.perf_counter() - began)
        print(
            f"a look{name} at {QUEUED} that wait for workers: {1000 * median(took):.1f} ms (load {os.getloadavg()[0]:.1f})"
        )


async def killed(desk: Desk) -> None:
    """From the kill of a worker to the claim by another one."""
    taken = []
    for number in range(3):
        name = f"killed_{number}"
        await desk.start(name)
        first = desk.hire()
        await desk.until(f"SELECT status FROM runs WHERE id = '{name}'", "interrupted")
        await desk.answer(name)
        await desk.until(
            f"SELECT count(*) FROM calls WHERE run_id = '{name}' AND tool = 'send' AND outcome = 'started'", 1
        )
        first.kill()
        first.join()
        desk.workers.remove(first)
        desk.hire()
        taken.append(await desk.until(f"SELECT deaths FROM runs WHERE id = '{name}'", 1))
        desk.dismiss()
    print(
        f"from the kill to the next owner: {', '.join(f'{one:.1f}' for one in taken)} s (lease {LEASE_S:g} s)"
    )


async def measure(desk: Desk, runs: int) -> None:
    """Everything."""
    for workers in (1, 2, 4):
        await throughput(desk, workers, runs)
    await overhead(desk, 50)
    await latency(desk, 10)
    await killed(desk)
    await looks(desk)


def main() -> None:
    """Measure on PostgreSQL, then on SQLite."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    chosen = sys.argv[2:] or ["postgresql", "file"]
    with tempfile.TemporaryDirectory() as folder, engines() as servers:
        for engine in chosen:
            print(engine, flush=True)
            desk = Desk(servers.empty(engine, Path(folder)), Path(folder))
            asyncio.run(measure(desk, runs))
            desk.runner.close()
            desk.here.close()


if __name__ == "__main__":
    main()
