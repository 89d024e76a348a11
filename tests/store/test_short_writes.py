"""Short writes of an event loop on SQLite: on the loop where nothing is in the way, else on a thread, never in its way."""

import asyncio
import contextvars
import gc
import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from adjourn.checkpoints import database as database_module
from adjourn.checkpoints.database import AT_ONCE, Database
from adjourn.checkpoints.errors import StoreError
from adjourn.checkpoints.saver import SQLAlchemySaver

HERE = threading.get_ident


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction counts as slow, whatever the machine does besides."""
    monkeypatch.setattr("adjourn.checkpoints.database.SLOW_S", 60.0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'short.db'}")
    made.write(lambda connection: connection.exec_driver_sql("CREATE TABLE noted (n INTEGER)"))
    yield made
    made.close()


def note(database: Database, number: int) -> Callable[[], int]:
    """A short write; it tells its thread."""

    def work() -> int:
        database.write(
            lambda connection: connection.exec_driver_sql(f"INSERT INTO noted VALUES ({number})"),
        )
        return HERE()

    return work


def short(database: Database, number: int, **told: Any) -> "asyncio.Future[int]":
    return database.soon(note(database, number), writes=True, short=True, **told)


def noted(database: Database) -> list[int]:
    query = "SELECT n FROM noted ORDER BY rowid"
    return database.read(lambda connection: list(connection.exec_driver_sql(query).scalars()))


def somebody_writes(database: Database) -> tuple[threading.Thread, threading.Event]:
    """A thread in a writing transaction, which ends when the event is set."""
    free, holds = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        holds.set()
        assert free.wait(20)

    holder = threading.Thread(target=database.write, args=(hold,))
    holder.start()
    assert holds.wait(20)
    return holder, free


@asynccontextmanager
async def ticking() -> AsyncIterator[list[int]]:
    """A loop that shows that it goes on."""
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(len(ticks))
            await asyncio.sleep(0.001)

    task = asyncio.create_task(tick())
    yield ticks
    task.cancel()


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not met():  # noqa: ASYNC110 - a thread does it
            await asyncio.sleep(0.001)


async def test_a_short_write_is_done_on_the_loop_where_nothing_is_in_the_way(database: Database) -> None:
    assert await short(database, 1) == HERE()
    assert await database.soon(note(database, 2), writes=True) != HERE()  # not said to be short
    assert noted(database) == [1, 2]


async def test_what_waits_for_the_disk_is_a_threads(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'full.db'}", synchronous="FULL")
    try:
        database.setup()
        assert await database.soon(HERE, writes=True, short=True) != HERE()
    finally:
        database.close()


async def test_a_synced_write_is_a_threads(database: Database) -> None:
    assert await database.awrite(lambda _: HERE(), synced=True) != HERE()


async def test_a_writer_in_this_process_stops_no_loop_and_the_line_keeps_its_order(
    database: Database,
) -> None:
    holder, free = somebody_writes(database)
    waiting = [short(database, number) for number in range(5)]
    async with ticking() as ticks:
        await until(lambda: len(ticks) > 20)
        assert not any(one.done() for one in waiting)
        free.set()
        threads = await asyncio.gather(*waiting)
    holder.join()
    assert noted(database) == [0, 1, 2, 3, 4]
    assert threads[0] != HERE()  # it was given to the thread,
    assert set(threads[1:]) == {HERE()}  # the others were not


async def test_a_writer_in_another_process_stops_no_loop(database: Database, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "short.db", isolation_level=None)
    await short(database, 0)
    other.execute("BEGIN IMMEDIATE")
    waiting = [short(database, number) for number in (1, 2)]
    async with ticking() as ticks:
        await until(lambda: len(ticks) > 20)
        assert not any(one.done() for one in waiting)
        other.execute("ROLLBACK")
        await asyncio.gather(*waiting)
    other.close()
    assert noted(database) == [0, 1, 2]
    assert await short(database, 3) == HERE()  # and the loop writes again


async def test_somebody_who_reads_the_same_thread_stops_no_loop(database: Database) -> None:
    saver = SQLAlchemySaver(database)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    await saver.aput(config, empty_checkpoint(), {}, {})
    memory = saver._memories.of("t")
    free, holds = threading.Event(), threading.Event()

    def hold() -> None:
        with memory.lock:
            holds.set()
            assert free.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(20)
    putting = asyncio.ensure_future(saver.aput(config, empty_checkpoint(), {}, {}))
    async with ticking() as ticks:
        await until(lambda: len(ticks) > 20)
        assert not putting.done()
        free.set()
        await putting
    holder.join()
    assert len([one async for one in saver.alist(config)]) == 2


async def test_the_log_is_moved_into_the_file_by_a_thread_and_does_not_grow(
    database: Database, tmp_path: Path
) -> None:
    threads = []

    def fill(connection: Any) -> int:
        connection.exec_driver_sql("INSERT INTO noted VALUES (zeroblob(40000))")
        return HERE()

    for _ in range(12 * AT_ONCE):
        threads.append(await database.awrite(fill, short=True))
    away = [number for number, one in enumerate(threads) if one != HERE()]
    assert len(away) == len(threads) // (AT_ONCE + 1)
    assert (tmp_path / "short.db-wal").stat().st_size < 12e6  # of 24 MB that were written


async def test_an_error_is_told_and_leaves_nothing(database: Database) -> None:
    seen: list[object] = []

    def fails(connection: Any) -> None:
        connection.exec_driver_sql("INSERT INTO noted VALUES (1)")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.soon(lambda: database.write(fails), writes=True, short=True, then=seen.append)
    assert (noted(database), seen) == ([], [])


async def test_then_is_called_before_who_asked_goes_on_and_harms_nobody(database: Database) -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: problems.append(str(context["exception"]))
    )
    seen: list[int] = []
    told = short(database, 1, then=seen.append)
    assert told.done() and seen == [HERE()]

    def fails(_: object) -> None:
        raise ValueError("in then")

    assert await short(database, 2, then=fails) == HERE()
    assert problems == ["in then"]
    assert noted(database) == [1, 2]


async def test_who_waits_in_line_and_is_cancelled_stops_nothing(database: Database) -> None:
    free = threading.Event()
    first = database.soon(lambda: database.write(lambda _: free.wait(20)), writes=True)
    await until(lambda: database._writer is not None and database._writer.locked())
    told = asyncio.Event()
    line = [short(database, number, then=lambda _: told.set()) for number in range(3)]
    for one in line:
        one.cancel()
    free.set()
    await first
    await asyncio.wait_for(told.wait(), 20)
    await short(database, 3)
    assert noted(database) == [0, 1, 2, 3]


async def test_what_waits_in_line_is_done_in_the_context_of_who_asked(database: Database) -> None:
    tenant = contextvars.ContextVar("tenant", default="nobody")
    free = threading.Event()
    first = database.soon(lambda: database.write(lambda _: free.wait(20)), writes=True)
    await until(lambda: database._writer is not None and database._writer.locked())

    async def ask(name: str) -> str:
        tenant.set(name)
        return await database.soon(lambda: database.write(lambda _: tenant.get()), writes=True, short=True)

    asking = asyncio.gather(ask("a"), ask("b"), ask("c"))
    await asyncio.sleep(0)
    free.set()
    assert await asking == ["a", "b", "c"]
    await first


async def test_a_closed_database_keeps_nobody_in_line(database: Database) -> None:
    database.close()
    for number in (1, 2):
        with pytest.raises(StoreError, match="was closed; open it again"):
            await asyncio.wait_for(short(database, number), 20)


async def test_what_waits_in_line_is_stored_when_the_database_is_closed(
    database: Database, tmp_path: Path
) -> None:
    holder, free = somebody_writes(database)
    waiting = [short(database, number) for number in range(5)]
    closing = threading.Thread(target=database.close)
    closing.start()
    await until(lambda: database._write_pool._shutdown)
    free.set()
    await asyncio.wait_for(asyncio.gather(*waiting), 20)
    closing.join()
    holder.join()
    with sqlite3.connect(tmp_path / "short.db") as found:
        assert [row[0] for row in found.execute("SELECT n FROM noted ORDER BY rowid")] == [0, 1, 2, 3, 4]


def test_what_waits_in_line_is_stored_when_its_loop_is_closed(database: Database, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "short.db", isolation_level=None)
    database.write(lambda _: None)
    other.execute("BEGIN IMMEDIATE")

    async def leave() -> None:
        for number in range(4):
            short(database, number)

    asyncio.run(leave())
    other.execute("ROLLBACK")
    other.close()
    asyncio.run(asyncio.wait_for(_one_more(database), 20))  # another loop, on the same thread
    assert sorted(noted(database)) == [0, 1, 2, 3, 4]


async def _one_more(database: Database) -> None:
    await short(database, 4)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_write_that_waited_in_line_does_not_stop_the_line(
    database: Database, error: type[BaseException]
) -> None:
    ran: list[int] = []

    def work(number: int) -> Callable[[], None]:
        def write() -> None:
            note(database, number)()
            ran.append(number)
            if number == 1:
                raise error

        return write

    loop = asyncio.new_event_loop()

    async def fill() -> None:
        free = threading.Event()
        first = database.soon(lambda: database.write(lambda _: free.wait(20)), writes=True)
        await until(lambda: database._writer is not None and database._writer.locked())
        for number in range(3):
            database.soon(work(number), writes=True, short=True)
        free.set()
        await first
        await asyncio.sleep(20)

    with pytest.raises(error):
        loop.run_until_complete(fill())
    loop.run_until_complete(asyncio.wait_for(_one_more(database), 20))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    assert ran == [0, 1, 2]
    assert noted(database) == [0, 1, 2, 4]


async def test_large_writes_are_the_threads_after_the_first(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_s = 0.1
    monkeypatch.setattr("adjourn.checkpoints.database.SLOW_S", slow_s)

    def large(_: object) -> int:
        end = time.perf_counter() + 2 * slow_s
        while time.perf_counter() < end:
            pass
        return HERE()

    threads = [await database.awrite(large, short=True) for _ in range(3)]
    assert [one == HERE() for one in threads] == [True, False, False]
    assert await short(database, 1) != HERE()  # it is not known yet how long this one takes,
    assert await short(database, 2) == HERE()  # and then it is


async def test_what_rides_on_a_put_rides_on_when_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adjourn.checkpoints.riding.PATIENCE_S", 20.0)
    begun = []
    begin = database_module._begin_immediate

    def counted(driver: Any, *, waits: bool) -> None:
        begin(driver, waits=waits)
        begun.append(waits)

    saver = SQLAlchemySaver(f"sqlite:///{tmp_path / 'short.db'}")
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config = await saver.aput(config, empty_checkpoint(), {}, {})
    monkeypatch.setattr(database_module, "_begin_immediate", counted)
    other = sqlite3.connect(tmp_path / "short.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    riding = asyncio.create_task(saver.aput_writes(config, [("a", 1)], "task", "path"))
    await until(lambda: bool(saver._memories.of("t").riders._waiting))
    putting = asyncio.ensure_future(saver.aput(config, empty_checkpoint(), {}, {}))
    async with ticking() as ticks:
        await until(lambda: len(ticks) > 20)
        assert not riding.done() and not putting.done()
        other.execute("ROLLBACK")
        await asyncio.gather(riding, putting)
    assert begun == [True]  # one transaction, on the thread, for both
    other.close()
    saver.close()


def test_an_interrupt_while_another_process_writes_leaves_no_transaction_open(
    database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "short.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    interrupts = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    frees = threading.Timer(0.5, lambda: other.execute("ROLLBACK"))
    interrupts.start()
    frees.start()
    with pytest.raises(KeyboardInterrupt):
        note(database, 1)()
        signal.pause()  # the signal may come late
    frees.join()
    note(database, 2)()
    assert noted(database)[-1] == 2
    other.execute("BEGIN IMMEDIATE")  # nobody holds the file
    other.close()


def test_two_loops_write_to_one_database(database: Database) -> None:
    async def many(first: int) -> None:
        await asyncio.gather(*(short(database, first + number) for number in range(100)))

    threads = [threading.Thread(target=asyncio.run, args=(many(first),)) for first in (0, 1000)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    asyncio.run(many(2000))  # a third one on this thread,
    asyncio.run(many(3000))  # and one after it
    found = noted(database)
    assert sorted(found) == [base + n for base in (0, 1000, 2000, 3000) for n in range(100)]
    for base in (0, 1000):
        mine = [one for one in found if base <= one < base + 100]
        assert mine == sorted(mine)


async def test_one_that_comes_while_the_line_goes_on_is_no_threads(database: Database) -> None:
    free = threading.Event()
    first = database.soon(lambda: database.write(lambda _: free.wait(20)), writes=True)
    await until(lambda: database._writer is not None and database._writer.locked())
    line = [short(database, number) for number in range(3)]
    free.set()
    await first
    await line[0]
    line += [short(database, number) for number in range(3, 6)]  # the line has two by now, or one
    threads = await asyncio.gather(*line)
    assert set(threads[1:]) == {HERE()}
    assert noted(database) == list(range(6))


def test_an_interrupt_from_the_keyboard_ends_the_loop(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(connection: Any) -> None:
        connection.exec_driver_sql("INSERT INTO noted VALUES (1)")
        raise KeyboardInterrupt

    async def drive() -> None:
        await database.awrite(interrupted, short=True)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(drive())
    assert noted(database) == []
    assert database.write(lambda _: 7) == 7
    gc.collect()
    assert caplog.records == []  # nor is it told once more, of a future that nobody looked at


async def test_what_may_take_long_is_a_threads(database: Database) -> None:
    assert await database.awrite(lambda _: HERE()) != HERE()
    assert await database.awrite(lambda _: HERE(), short=True) == HERE()
