"""Several worker processes on one store, killed and paused at random: every run comes to its end, nothing is done twice.

One process accepts runs and answers their questions, and drives nothing. What is left is judged by SQL and by the file of
effects alone. `ADJOURN_FLEET_RUNS` is how many runs there are [40], `ADJOURN_FLEET_WORKERS` how many workers [3],
`ADJOURN_FLEET_KILL_S` the time between two kills [1]; `make soak` gives it 2,000 runs, 4 workers and a kill each second.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from store import fleet_app
from store.engines import Engines
from store.processes import PROCESSES

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import AlreadyAnswered, NotResumable, RunBusy
from adjourn.graph import Run, Runner
from adjourn.nodes import approve

RUNS = int(os.environ.get("ADJOURN_FLEET_RUNS", "40"))
WORKERS = int(os.environ.get("ADJOURN_FLEET_WORKERS", "3"))
KILL_S = float(os.environ.get("ADJOURN_FLEET_KILL_S", "1"))
KILLS = max(6, RUNS // 10)  # at most: a machine that is busy with other tests comes to an end too
LEASE_S = 2.0
LIMIT_S = 100 + RUNS / 2


class Fleet:
    """One store, its front desk, and the workers' processes."""

    def __init__(self, url: str, folder: Path, *, lease_s: float = LEASE_S, concurrency: int = 8) -> None:
        self.url = url
        self.effects = folder / "effects"
        self.kills = 0
        self._given = (url, str(self.effects), lease_s, concurrency)
        self._workers: list[Any] = []
        self.desk = Runner(fleet_app.graph(self.effects), url, detached=True)

    def hire(self) -> Any:
        """Another worker."""
        worker = PROCESSES.Process(target=fleet_app.work, args=self._given)
        worker.start()
        self._workers.append(worker)
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
        # no longer than that: in the middle of a transaction it holds a row, for which others would wait
        asyncio.get_running_loop().call_later(2 * LEASE_S, os.kill, worker.pid, signal.SIGCONT)
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
    for number in range(RUNS // 2):
        await fleet.start(number)
    with fleet.paused(paused):
        async with fleet.harassed(random.Random(RUNS)):
            stopped = time.monotonic()
            for number in range(RUNS // 2, RUNS):
                await fleet.start(number)
            await fleet.quiet(in_doubt=False)
        await asyncio.sleep(max(0.0, stopped + 2.2 * LEASE_S - time.monotonic()))
    await fleet.quiet(in_doubt=False)  # what the paused one writes now is stale
    fleet.kill(paused)
    await fleet.quiet(in_doubt=True)
    took = time.monotonic() - began
    print(f"\n{RUNS} runs, {WORKERS} workers, {fleet.kills} kills, {took:.1f} s: {check(fleet)}")


def check(fleet: Fleet) -> dict[str, Any]:
    """Judge what is left by SQL and the file of effects."""
    database = Database(fleet.url)

    def rows(statement: str) -> list[Any]:
        return database.read(lambda connection: list(connection.execute(sa.text(statement))))

    try:
        assert rows(
            "SELECT status, stop_reason, answer, count(*) FROM runs GROUP BY status, stop_reason, answer"
        ) == [("finished", "answered", fleet_app.ANSWER, RUNS)]
        assert rows(
            "SELECT count(*) FROM runs WHERE lease_owner IS NOT NULL OR steps <> 3 OR input_tokens <> 600"
        ) == [(0,)]
        _check_calls(rows)
        _check_events(rows)
        _check_messages(rows)
        _check_effects(fleet.effects)
        doubts = rows("SELECT count(*) FROM interrupts WHERE type = 'outcome_unknown'")[0][0]
        taken = rows("SELECT action, count(*) FROM audit GROUP BY action")
        return {"in doubt": doubts, **dict(tuple(one) for one in taken)}
    finally:
        database.close()


def _check_calls(rows: Any) -> None:
    assert sorted(rows("SELECT tool, outcome, count(*) FROM calls GROUP BY tool, outcome")) == [
        (name, "ok", RUNS) for name in ("look", "put", "send")
    ]
    lost = "SELECT run_id, call_id FROM calls WHERE result IS NULL OR ended_at IS NULL"
    assert rows(lost) == []
    wrong = "SELECT run_id FROM calls WHERE tool <> 'look' AND result NOT LIKE '%' || tool || ' ' || run_id || '%'"
    assert rows(wrong) == []


def _check_events(rows: Any) -> None:
    gaps = (
        "SELECT runs.id FROM runs LEFT JOIN events ON events.run_id = runs.id GROUP BY runs.id, runs.last_event "
        "HAVING count(*) <> runs.last_event OR min(number) <> 1 OR max(number) <> runs.last_event"
    )
    assert rows(gaps) == []
    once = {
        "run_started": 1,
        "step_started": 3,
        "message": 3,
        "tool_call": 3,
        "tool_result": 3,
        "run_finished": 1,
    }
    for word, times in once.items():
        wrong = rows(
            f"SELECT runs.id, count(events.number) FROM runs LEFT JOIN events ON events.run_id = runs.id "
            f"AND events.type = '{word}' GROUP BY runs.id HAVING count(events.number) <> {times}"
        )
        assert wrong == [], word
    last = "SELECT count(*) FROM runs JOIN events ON run_id = id AND number = last_event WHERE type = 'run_finished'"
    assert rows(last) == [(RUNS,)]


def _check_messages(rows: Any) -> None:
    """Each conversation holds what it has to, in order: no call without its answer, nothing twice."""
    said: dict[str, list[str]] = {}
    for thread, role, call in rows(
        "SELECT thread_id, role, tool_call_id FROM v_messages ORDER BY thread_id, position"
    ):
        said.setdefault(thread, []).append(call or role)
    assert len(said) == RUNS
    assert {tuple(one) for one in said.values()} == {
        ("user", "assistant", "a", "b", "assistant", "c", "assistant")
    }


def _check_effects(effects: Path) -> None:
    lines = [line.split() for line in effects.read_text().splitlines()]
    sent = Counter(run for name, run, _ in lines if name == "send")
    assert sorted(sent) == sorted(f"run_{number}" for number in range(RUNS))
    assert set(sent.values()) == {1}, [run for run, times in sent.items() if times > 1]
    put = {(run, key) for name, run, key in lines if name == "put"}  # its system takes each key once
    assert len(put) == RUNS
