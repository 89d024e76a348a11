"""What workers ask of the database, on every engine: who is next, how many of one person, and being woken."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from store.engines import Engines

from adjourn.checkpoints import doorbell, event_rows, leases, queue
from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.graph import Runner, build_react, following
from adjourn.graph.worker import Worker
from adjourn.nodes import ScriptedModel


def runner(url: str, **settings: Any) -> Runner:
    graph = build_react(ScriptedModel(turns=["done"], by_history=True), [], name="office")
    return Runner(graph, url, **settings)


@pytest.fixture
def desk(url: str) -> Iterator[Runner]:
    with runner(url, detached=True) as made:
        yield made


def free(desk: Runner, **settings: Any) -> list[str]:
    """The runs that nobody drives, as workers see them."""
    return [one.input for one in desk.database.read(lambda c: queue.unowned(c, graph="office", **settings))]


def take(desk: Runner, run_id: str) -> int:
    """Somebody drives it."""
    return desk.database.write(
        lambda c: leases.claim(c, run_id, RunEvent.RECOVER, owner="worker", lease_s=30)
    )


def test_the_highest_priority_is_next_then_the_oldest(desk: Runner) -> None:
    for name, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 0), ("e", 5)):
        desk.start_sync(name, priority=priority)
    assert free(desk) == ["b", "e", "a", "d", "c"]
    assert free(desk, limit=2) == ["b", "e"]


def test_one_person_does_not_get_all_the_workers(desk: Runner) -> None:
    mine = [desk.start_sync(f"wang {number}", by="wang", priority=9) for number in range(4)]
    for number in range(3):
        desk.start_sync(f"nobody {number}")
    desk.start_sync("li 0", by="li")
    everybody_else = ["nobody 0", "nobody 1", "nobody 2", "li 0"]
    assert free(desk, most_per_person=2) == ["wang 0", "wang 1", *everybody_else]
    fence = take(desk, mine[0].id)
    assert free(desk, most_per_person=2) == ["wang 1", *everybody_else]
    take(desk, mine[1].id)
    assert free(desk, most_per_person=2) == everybody_else
    desk.database.write(lambda c: leases.release(c, mine[0].id, fence, active_ms=0))
    assert free(desk, most_per_person=2, limit=2) == ["wang 0", "nobody 0"]


def test_one_graph_does_not_get_all_the_workers(desk: Runner) -> None:
    runs = [desk.start_sync(f"{number}") for number in range(5)]
    assert free(desk, most_per_graph=3) == ["0", "1", "2"]
    assert free(desk, most_per_graph=3, limit=2) == ["0", "1"]
    fences = [take(desk, runs[number].id) for number in (0, 2)]
    assert free(desk, most_per_graph=3) == ["1"]
    assert free(desk, most_per_graph=2) == free(desk, most_per_graph=1) == []
    assert desk.database.read(lambda c: queue.unowned(c, graph="other", most_per_graph=3)) == []
    desk.database.write(lambda c: leases.release(c, runs[2].id, fences[1], active_ms=0))
    assert free(desk, most_per_graph=3) == ["1", "2"]


def test_who_is_about_to_claim_runs_counts_them_and_what_is_put_aside_takes_nobodys_place(
    desk: Runner,
) -> None:
    mine = [desk.start_sync(f"wang {number}", by="wang").id for number in range(4)]
    assert free(desk, taken=mine[:1], most_per_graph=2) == ["wang 1"]
    assert free(desk, taken=mine[:1], most_per_person=2) == ["wang 1"]
    assert free(desk, apart=mine[:1], most_per_graph=2) == ["wang 1", "wang 2"]
    assert free(desk, apart=mine[:1], most_per_person=2) == ["wang 1", "wang 2"]
    take(desk, mine[0])  # it is claimed by now: it counts once
    assert free(desk, taken=mine[:1], most_per_graph=2) == ["wang 1"]


def test_those_behind_a_person_who_has_their_share_are_found(desk: Runner) -> None:
    for number in range(30):
        desk.start_sync(f"wang {number}", by="wang")
    for number in range(3):
        desk.start_sync(f"li {number}", by="li")
    assert free(desk, most_per_person=2, limit=5) == ["wang 0", "wang 1", "li 0", "li 1"]
    assert free(desk, most_per_person=2, most_per_graph=3, limit=5) == ["wang 0", "wang 1", "li 0"]


@pytest.mark.parametrize("engine", ["file", "postgresql"])
def test_the_next_run_is_found_by_an_index_however_many_wait(
    engine: str, servers: Engines, tmp_path: Any
) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "id": f"r{number}",
            "by": f"p{number % 7}",
            "p": number % 3,
            "at": format_time(began + timedelta(seconds=number)),
        }
        for number in range(5000)
    ]
    store = sa.text(
        "INSERT INTO runs (id, thread_id, graph, signature, started_by, status, input, priority, created_at, updated_at) "
        "VALUES (:id, :id, 'office', 's', :by, 'running', '\"go\"', :p, :at, :at)"
    )
    plans: list[str] = []
    with runner(servers.empty(engine, tmp_path)) as one:
        one.database.write(lambda c: c.execute(store, rows))
        one.database.write(lambda c: c.execute(sa.text("ANALYZE")))
        explain = "EXPLAIN QUERY PLAN " if engine == "file" else "EXPLAIN "

        @sa.event.listens_for(one.database.engine, "before_cursor_execute", retval=True)
        def explained(_1: Any, cursor: Any, statement: str, given: Any, *_: Any) -> tuple[str, Any]:
            if "ORDER BY" in statement:
                cursor.execute(explain + statement, given)
                plans.append(" ".join(str(row) for row in cursor.fetchall()))
            return statement, given

        found = one.database.read(lambda c: queue.unowned(c, graph="office", limit=8, most_per_person=1))
    assert [row.priority for row in found] == [2] * 7  # one of each person
    assert plans
    assert all("ix_runs_queue" in plan and "Sort" not in plan and "TEMP B-TREE" not in plan for plan in plans)


@pytest.mark.parametrize("limit", ["most_per_person", "most_per_graph"])
async def test_workers_hold_to_a_limit(shared_url: str, limit: str) -> None:
    seen: list[int] = []
    driven = sa.text("SELECT count(*) FROM runs WHERE status = 'running' AND lease_until IS NOT NULL")

    async def count() -> None:
        while True:
            seen.append(await desk.database.aread(lambda c: c.execute(driven).scalar_one()))
            await asyncio.sleep(0.005)

    stop = asyncio.Event()
    with runner(shared_url, detached=True) as desk, runner(shared_url) as first, runner(shared_url) as second:
        runs = [await desk.start("go", by="wang") for _ in range(8)]
        settings: dict[str, Any] = {limit: 1}
        workers = [Worker(one, poll_s=0.02, **settings) for one in (first, second)]
        counting = asyncio.create_task(count())
        working = [asyncio.create_task(one.work(stop)) for one in workers]
        for run in runs:
            async for _ in desk.follow(run.id):
                pass
        stop.set()
        await asyncio.gather(*working)
        counting.cancel()
        await asyncio.wait({counting})
    assert sum(one.taken for one in workers) == 8
    assert max(seen) == 1


def test_c91_deaths_are_counted_where_a_run_does_not_come_on(desk: Runner) -> None:
    run = desk.start_sync("go")

    def owner(*, lease_s: float) -> int:
        return desk.database.write(
            lambda c: leases.claim(c, run.id, RunEvent.RECOVER, owner="worker", lease_s=lease_s)
        )

    def deaths() -> int:
        return desk.get_sync(run.id).row.deaths

    for _ in range(3):  # it is handed back: nobody has died
        fence = owner(lease_s=30)
        desk.database.write(lambda c, fence=fence: leases.release(c, run.id, fence, active_ms=0))
        assert deaths() == 0
    owner(lease_s=-1)
    for died in (1, 2):
        assert desk.get_sync(run.id).row.died == died
        fence = owner(lease_s=-1)
        assert deaths() == died
    step = StepStarted(run_id=run.id, path="", step=2)
    desk.database.write(lambda c: event_rows.append(c, run.id, [step], fence=fence))
    assert desk.get_sync(run.id).row.died == 1  # it came on before this death
    owner(lease_s=-1)
    assert deaths() == 1


# -- being woken


@pytest.fixture
def postgres(servers: Engines, tmp_path: Any) -> str:
    return servers.empty("postgresql", tmp_path)


async def test_on_postgresql_a_worker_that_would_look_in_an_hour_is_woken(postgres: str) -> None:
    stop = asyncio.Event()
    waits = sa.text("SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN adjourn_runs'")
    with runner(postgres, detached=True) as desk, runner(postgres) as driving:
        working = asyncio.create_task(Worker(driving, poll_s=3600).work(stop))
        while not desk.database.read(lambda c: c.execute(waits).scalar_one()):  # noqa: ASYNC110 - the server tells
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # its first look is over
        waited = []
        for _ in range(5):
            left = time.monotonic()
            run = await desk.start("go")
            while (await desk.get(run.id)).row.fence == 1:  # noqa: ASYNC110 - nobody has claimed it
                await asyncio.sleep(0.002)
            waited.append(time.monotonic() - left)
            async for _ in desk.follow(run.id):
                pass
        stop.set()
        await working
    print(f"\nfrom acceptance to claim: {sorted(round(1000 * one) for one in waited)} ms")
    assert sorted(waited)[2] < 0.5  # here 30 ms; a loaded machine takes its time


async def test_the_bell_rings_when_the_transaction_is_committed_and_not_before(postgres: str) -> None:
    heard = asyncio.Event()
    with runner(postgres) as one:
        one.database.setup()
        listening = asyncio.create_task(doorbell.listen(one.database, heard.set))
        async with asyncio.timeout(30):
            await heard.wait()  # it listens
        heard.clear()

        def rings(connection: sa.Connection) -> None:
            doorbell.ring(connection)
            raise LookupError

        with pytest.raises(LookupError):
            await one.database.awrite(rings)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await heard.wait()
        await one.database.awrite(doorbell.ring)
        async with asyncio.timeout(30):
            await heard.wait()
        listening.cancel()
        await asyncio.wait({listening})


async def test_a_bell_whose_connection_is_lost_is_heard_again(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "AGAIN_S", 0.05)
    heard = asyncio.Event()
    end = sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'deaf'")
    with runner(f"{postgres}&application_name=deaf") as one, runner(postgres) as other:
        listening = asyncio.create_task(doorbell.listen(one.database, heard.set))
        for _ in range(2):
            async with asyncio.timeout(30):
                await heard.wait()  # it listens, and then again
            heard.clear()
            await other.database.awrite(lambda c: c.execute(end).all())
        listening.cancel()
        await asyncio.wait({listening})


async def test_on_postgresql_who_follows_a_worker_elsewhere_is_woken_by_each_event(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(following, name, 3600.0)  # who is not woken hears nothing in an hour
    stop = asyncio.Event()
    with runner(postgres, detached=True) as desk, runner(postgres) as driving:
        runs = [await desk.start("go") for _ in range(3)]
        heard: list[list[str]] = [[] for _ in runs]

        async def follow(place: int) -> None:
            async for event in desk.follow(runs[place].id):
                heard[place].append(event.word)

        following_all = [asyncio.create_task(follow(place)) for place in range(3)]
        async with asyncio.timeout(60):
            while not all(heard):  # noqa: ASYNC110 - they are here, and wait for more
                await asyncio.sleep(0.01)
            working = asyncio.create_task(Worker(driving).work(stop))
            await asyncio.gather(*following_all)
        stop.set()
        await working
    assert {one[-1] for one in heard} == {"run_finished"}
    gone = sa.text("SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN adjourn_events'")
    with runner(postgres) as looking:
        async with asyncio.timeout(30):  # nobody follows: nobody listens
            while looking.database.read(lambda c: c.execute(gone).scalar_one()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_followers_whose_bell_is_not_heard_read_by_themselves(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "EVENTS", "another_bell")  # as behind a pooler between transactions
    stop = asyncio.Event()
    with runner(postgres, detached=True) as desk, runner(postgres) as driving:
        run = await desk.start("go")
        working = asyncio.create_task(Worker(driving).work(stop))
        async with asyncio.timeout(30):
            heard = [event.number async for event in desk.follow(run.id)]
        stop.set()
        await working
    assert heard == list(range(1, len(heard) + 1))


async def test_elsewhere_there_is_no_bell_and_nothing_to_wait_for(tmp_path: Any) -> None:
    with runner(f"sqlite:///{tmp_path}/adjourn.db") as one:
        async with asyncio.timeout(30):
            await doorbell.listen(one.database, lambda: None)
        await one.database.awrite(doorbell.ring)
