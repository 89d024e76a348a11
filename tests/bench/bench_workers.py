"""What a store carries with workers: `python tests/bench/bench_workers.py [RUNS]`; the figures of docs/production.md.

One process accepts runs and answers their questions; 1, 2 and 4 worker processes drive them. A run is three model calls
(of a scripted model, which takes no time), a read, a question, and two writes of 20 ms. Then a worker is killed in the
middle of a run, with the lease that `adjourn worker` has without a setting, and the time until another one has it is taken.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import sqlalchemy as sa
from store import fleet_app
from store.engines import engines
from store.processes import PROCESSES

from adjourn.graph import Runner
from adjourn.graph.worker import LEASE_S
from adjourn.nodes import approve

AT_ONCE = 8  # requests that the front desk has in hand


class Desk:
    """The process that accepts, and the workers beside it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.given = (url, str(folder / "effects"), LEASE_S, 8)
        self.runner = Runner(fleet_app.graph(folder / "effects"), url, detached=True)
        self.workers: list[Any] = []

    def hire(self) -> Any:
        """Another worker."""
        worker = PROCESSES.Process(target=fleet_app.work, args=self.given)
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

    async def start(self, name: str) -> None:
        await self.runner.start("go", run_id=name, by="wang")

    async def answer(self, name: str) -> None:
        run = await self.runner.get(name)
        await self.runner.resume(name, {one.id: approve() for one in run.interrupts}, by="li")


async def throughput(desk: Desk, workers: int, runs: int) -> None:
    """`runs` runs through `workers` workers."""
    names = [f"w{workers}_{number}" for number in range(runs)]
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
    print(
        f"{workers} workers: accepted {runs / accepted:.0f}/s; to the question {(runs - before) / asked:.0f}/s; "
        f"answered {runs / answered:.0f}/s, and from the answers to the end {runs / ended:.0f}/s; "
        f"events {told / (asked + ended):.0f}/s",
        flush=True,
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
    await killed(desk)


def main() -> None:
    """Measure on PostgreSQL, then on SQLite."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, engines() as servers:
        for engine in ("postgresql", "file"):
            print(engine, flush=True)
            desk = Desk(servers.empty(engine, Path(folder)), Path(folder))
            asyncio.run(measure(desk, runs))
            desk.runner.close()


if __name__ == "__main__":
    main()
