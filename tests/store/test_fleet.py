"""Several worker processes on one store, killed and paused at random: every run comes to its end, nothing is done twice.

One process accepts runs and answers their questions, and drives nothing. What is left is judged by SQL and by the file of
effects alone. `ADJOURN_FLEET_RUNS` is how many runs there are [40] (on a SQLite file at most a quarter of many),
`ADJOURN_FLEET_WORKERS` how many workers [3], `ADJOURN_FLEET_KILL_S` the time between two kills [1], `ADJOURN_FLEET_PAUSE_S`
for how long one stands still [4, two leases]; `make scale` gives it 2,000 runs, 4 workers, a kill each second and a pause of
14 seconds, in which PostgreSQL ends the transaction that it may have been frozen in.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from store import fleet_app
from store.engines import Engines
from store.fleet_checks import check
from store.processes import PROCESSES

from adjourn.checkpoints.errors import AlreadyAnswered, NotResumable, RunBusy
from adjourn.graph import Run, Runner
from adjourn.nodes import approve

RUNS = int(os.environ.get("ADJOURN_FLEET_RUNS", "40"))
WORKERS = int(os.environ.get("ADJOURN_FLEET_WORKERS", "3"))
KILL_S = float(os.environ.get("ADJOURN_FLEET_KILL_S", "1"))
KILLS = max(6, RUNS // 10)  # at most: a machine that is busy with other tests comes to an end too
LEASE_S = 2.0
PAUSE_S = float(os.environ.get("ADJOURN_FLEET_PAUSE_S", str(2 * LEASE_S)))
LIMIT_S = 100 + RUNS / 2


class Fleet:
    """One store, its front desk, and the workers' processes."""

    def __init__(self, url: str, folder: Path, *, lease_s: float = LEASE_S, concurrency: int = 8) -> None:
        self.url = url
        on_file = url.startswith("sqlite")
        self.runs = max(40, RUNS // 4) if on_file and RUNS > 40 else RUNS
        self.pause_s = 2 * LEASE_S if on_file else PAUSE_S  # a process frozen in a write holds the file
        self.effects = folder / "effects"
        self.kills = 0
        self._given = (url, str(self.effects), lease_s, concurrency)
        self._workers: list[Any] = []
        self._listens: dict[Any, Any] = {}
        self.desk = Runner(fleet_app.graph(self.effects), url, detached=True)

    def hire(self) -> Any:
        """Another worker."""
        listens = PROCESSES.Event()
        worker = PROCESSES.Process(target=fleet_app.work, args=self._given, kwargs={"listens": listens})
        worker.start()
        self._workers.append(worker)
        self._listens[worker] = listens
        return worker

    def kill(self, worker: Any) -> None:
        """With SIGKILL, whatever it does now."""
        self.kills += 1
        worker.kill()
        worker.join()
        self._workers.remove(worker)

    async def start(self, number: int) -> None:
        """Accept a run."""
        await self.desk.start("go", run_id=f"run_{number}", thread_id=f"t{number}", by=f"p{number % 7}")

    async def answer(self, *, in_doubt: bool) -> bool:
        """Answer what waits, and let what has failed be tried again. Whether there is nothing left that could go on.

        Whether a write happened is not to be told while its worker may still be at it: not before `in_doubt`.
        """
        waits = await self.rows("interrupted")
        given = await asyncio.gather(*(self._answer(one.id, in_doubt) for one in waits))
        failed = await self.rows("failed")  # given up: its workers died one after the other
        for one in failed:
            with suppress(RunBusy, NotResumable):
                await self.desk.resume(one.id)
        return not (any(given) or failed or await self.rows("running"))

    async def rows(self, *statuses: str) -> list[Any]:
        """The runs of these statuses."""
        return list(await self.desk.list(statuses=statuses, limit=None))

    async def _answer(self, run_id: str, in_doubt: bool) -> bool:
        run = await self.desk.get(run_id)
        given = self._honest(run, in_doubt)
        with suppress(AlreadyAnswered, RunBusy, NotResumable):
            if given:
                await self.desk.resume(run_id, given, by="li")
        return bool(given)

    def _honest(self, run: Run, in_doubt: bool) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for question in run.interrupts:
            if question.type == "confirm_risky":
                given[question.id] = approve()
            elif in_doubt and f"{question.tool} {run.id} " in self.effects.read_text():
                given[question.id] = {"action": "happened", "result": f"{question.tool} {run.id}"}
            elif in_doubt:
                given[question.id] = {"action": "run"}
        return given

    async def quiet(self, *, in_doubt: bool) -> None:
        """Answer until nothing can go on."""
        async with asyncio.timeout(LIMIT_S):
            while not await self.answer(in_doubt=in_doubt):  # noqa: ASYNC110 - other processes do it
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def harassed(self, dice: random.Random) -> AsyncIterator[None]:
        """While inside, one worker after the other is killed, and followed by a new one."""

        async def harass() -> None:
            while self.kills < KILLS:
                before = await self._ended_calls()
                await asyncio.sleep(KILL_S)
                while await self._ended_calls() == before:  # noqa: ASYNC110 - a new one takes its time
                    await asyncio.sleep(0.05)
                self.kill(dice.choice(self._workers))
                self.hire()

        harassing = asyncio.create_task(harass())
        try:
            yield
        finally:
            harassing.cancel()
            await asyncio.wait({harassing})

    @contextmanager
    def paused(self, worker: Any) -> Iterator[None]:
        """While inside, this one stands still in the middle of something, and another one has its place."""
        os.kill(worker.pid, signal.SIGSTOP)
        # at last: in the middle of a transaction it holds a row, for which others wait
        asyncio.get_running_loop().call_later(self.pause_s, os.kill, worker.pid, signal.SIGCONT)
        self._workers.remove(worker)
        self.hire()
        try:
            yield
        finally:
            os.kill(worker.pid, signal.SIGCONT)
            self._workers.append(worker)

    async def _ended_calls(self) -> int:
        ended = sa.text("SELECT count(*) FROM calls WHERE ended_at IS NOT NULL")
        return await self.desk.database.aread(lambda connection: connection.execute(ended).scalar_one())

    def close(self) -> None:
        """Let the workers go, and look that they do."""
        for one in self._workers:
            assert self._listens[one].wait(60)
            one.terminate()
        for one in self._workers:
            one.join(30)
        left = [one.exitcode for one in self._workers]
        for one in self._workers:
            one.kill()
        self.desk.close()
        assert set(left) <= {0}


@pytest.fixture(params=["file", "postgresql"])
def url(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> str:
    return servers.empty(request.param, tmp_path)


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(url, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(2 * LIMIT_S)
async def test_c36_c91_workers_that_die_at_random_lose_nothing_and_do_nothing_twice(fleet: Fleet) -> None:
    paused = fleet.hire()
    for _ in range(WORKERS - 1):
        fleet.hire()
    began = time.monotonic()
    for number in range(fleet.runs // 2):
        await fleet.start(number)
    with fleet.paused(paused):
        async with fleet.harassed(random.Random(RUNS)):
            stopped = time.monotonic()
            for number in range(fleet.runs // 2, fleet.runs):
                await fleet.start(number)
            await fleet.quiet(in_doubt=False)
        await asyncio.sleep(max(0.0, stopped + fleet.pause_s + 0.2 * LEASE_S - time.monotonic()))
    await fleet.quiet(in_doubt=False)  # what the paused one writes now is stale
    fleet.kill(paused)
    await fleet.quiet(in_doubt=True)
    took = time.monotonic() - began
    found = check(fleet.url, fleet.effects, [f"run_{number}" for number in range(fleet.runs)])
    print(f"\n{fleet.runs} runs, {WORKERS} workers, {fleet.kills} kills, {took:.1f} s: {found}")
