"""Work on the database's threads for an event loop that may not wait for it any more."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.servers import WORKERS


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'soon.db'}")
    yield made
    made.close()


async def test_then_is_called_on_the_loop_before_who_waits_goes_on(database: Database) -> None:
    seen: list[object] = []

    def then(told: int) -> None:
        seen.append((told, threading.get_ident()))

    seen.append(await database.soon(lambda: 7, then=then))
    assert seen == [(7, threading.get_ident()), 7]


async def test_who_waits_hears_of_an_error_and_then_is_not_called(database: Database) -> None:
    seen: list[object] = []

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.soon(fails, then=seen.append)
    assert seen == []


async def test_work_that_nobody_waits_for_any_more_is_done_and_told(database: Database) -> None:
    free, told = threading.Event(), asyncio.Event()
    waits = asyncio.ensure_future(_waits(database, free, told))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    free.set()
    await asyncio.wait_for(told.wait(), 10)


async def _waits(database: Database, free: threading.Event, told: asyncio.Event) -> None:
    await database.soon(free.wait, then=lambda _: told.set())


async def test_a_then_that_fails_keeps_nobody_waiting(database: Database) -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: problems.append(str(context["exception"]))
    )

    def fails(_: object) -> None:
        raise ValueError("in then")

    assert await asyncio.wait_for(database.soon(lambda: 7, then=fails), 10) == 7
    assert problems == ["in then"]


async def test_an_error_keeps_nothing_of_its_work_alive(database: Database) -> None:
    class Big:
        pass

    kept: list[weakref.ref[Big]] = []

    def fails() -> None:
        held = Big()
        kept.append(weakref.ref(held))
        raise ValueError("no")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="no"):
            await database.arun(fails)
        await database.arun(lambda: None)  # the thread lets go of its last work with the next
        assert kept[0]() is None
    finally:
        gc.enable()


async def test_work_that_raises_stop_iteration_is_an_error(database: Database) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(database.arun(lambda: next(iter(()))), 10)


async def test_then_is_called_in_the_context_of_who_asked(database: Database) -> None:
    tenant = contextvars.ContextVar("tenant", default="nobody")
    tenant.set("acme")
    seen: list[str] = []
    await database.soon(lambda: None, then=lambda _: seen.append(tenant.get()))
    assert seen == ["acme"]


def test_work_whose_loop_is_closed_ends_quietly(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    free, done = threading.Event(), threading.Event()

    def work() -> None:
        free.wait(10)
        done.set()

    async def leaves() -> None:
        database.soon(work)

    asyncio.run(leaves())
    free.set()
    assert done.wait(10)
    assert database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar_one()) == 1
    assert caplog.records == []


async def test_a_read_that_nobody_waits_for_any_more_is_left_undone(database: Database) -> None:
    database.setup()
    free, seen = threading.Event(), []
    busy = [asyncio.ensure_future(database.arun(lambda: free.wait(20))) for _ in range(WORKERS)]
    left = asyncio.ensure_future(database.arun(lambda: seen.append("read")))
    kept = asyncio.ensure_future(database.arun(lambda: seen.append("kept")))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    free.set()
    await asyncio.gather(*busy, kept)
    assert seen == ["kept"]
