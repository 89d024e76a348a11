"""Messages to a thread whose run works wait in line, where that is set (C-86)."""

import asyncio
import gc
import time
from itertools import pairwise

import pytest
from runs.shop import Shop

from adjourn.checkpoints.errors import AlreadyAnswered, RunBusy, UsageError
from adjourn.graph.line import Place
from adjourn.nodes import ScriptedModel, approve
from adjourn.nodes.scripted import call, says


class Gate:
    """A tool's work that lasts until the test opens the gate."""

    def __init__(self):
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

    def tool(self):
        from adjourn.nodes import tool

        @tool(effect="read", timeout_s=None)
        async def hold() -> str:
            """Hold."""
            self.entered.set()
            await self.opened.wait()
            return "held"

        return hold


def turns(extra=8):
    return [says("", call("hold", {}, id="h")), *(f"answer {n}" for n in range(extra))]


async def held(runner, gate, thread="t"):
    """A run that works, until the gate is opened."""
    working = asyncio.create_task(runner.start("first", thread_id=thread))
    await gate.entered.wait()
    return working


async def test_c86_messages_wait_in_line_first_come_first_served(house, rows):
    gate = Gate()
    runner = house.runner(turns(), tools=[gate.tool()], busy="wait")
    working = await held(runner, gate)
    waiting = [asyncio.create_task(runner.start(f"message {n}", thread_id="t")) for n in range(4)]
    for _ in range(20):
        await asyncio.sleep(0)
    with pytest.raises(RunBusy):
        await runner.start("now or never", thread_id="t", busy="refuse")
    assert len(rows("SELECT id FROM runs")) == 1  # who waits has no row
    gate.opened.set()
    ended = [await working, *[await one for one in waiting]]
    assert [one.status for one in ended] == ["finished"] * 5
    told = rows("SELECT input FROM runs ORDER BY created_at")
    assert [one["input"] for one in told] == ['"first"', *(f'"message {n}"' for n in range(4))]
    spans = rows("SELECT created_at, ended_at FROM runs ORDER BY created_at")
    assert all(one["ended_at"] <= after["created_at"] for one, after in pairwise(spans))


async def test_c86_refuse_is_what_is_set_where_nothing_is_said(house):
    gate = Gate()
    runner = house.runner(turns(), tools=[gate.tool()])
    working = await held(runner, gate)
    with pytest.raises(RunBusy):
        await runner.start("and?", thread_id="t")
    late = asyncio.create_task(runner.start("and?", thread_id="t", busy="wait"))
    await asyncio.sleep(0)
    gate.opened.set()
    assert [(await working).status, (await late).status] == ["finished", "finished"]


async def test_c86_who_waits_too_long_gets_run_busy(house):
    gate = Gate()
    runner = house.runner(turns(), tools=[gate.tool()], busy="wait", busy_wait_s=0.1)
    working = await held(runner, gate)
    began = time.monotonic()
    refused = await asyncio.gather(
        *(runner.start("and?", thread_id="t") for _ in range(2)), return_exceptions=True
    )
    assert all(isinstance(one, RunBusy) and one.run_id.startswith("run_") for one in refused), refused
    assert 0.1 <= time.monotonic() - began < 2.0
    gate.opened.set()
    assert (await working).status == "finished"


async def test_c86_a_waiting_starter_that_is_cancelled_leaves_nothing_behind(house, rows):
    gate = Gate()
    runner = house.runner(turns(), tools=[gate.tool()], busy="wait")
    working = await held(runner, gate)
    first = asyncio.create_task(runner.start("gone 1", thread_id="t"))
    second = asyncio.create_task(runner.start("gone 2", thread_id="t"))
    third = asyncio.create_task(runner.start("stays", thread_id="t"))
    for _ in range(20):
        await asyncio.sleep(0)
    for one in (first, second):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    gate.opened.set()
    assert [(await working).status, (await third).status] == ["finished", "finished"]
    assert [one["input"] for one in rows("SELECT input FROM runs ORDER BY created_at")] == [
        '"first"',
        '"stays"',
    ]
    assert runner._lines._lines == {}
    gc.collect()


async def test_c86_a_run_of_another_process_is_looked_at_seldom(house):
    """Only the first in line looks, and less and less often."""
    gate = Gate()
    owner = house.runner(turns(), tools=[gate.tool()])
    other = house.runner(turns(), tools=[gate.tool()], busy="wait")
    working = await held(owner, gate)
    looks, look = [], other._lines._working

    async def counted(thread_id):
        looks.append(time.monotonic())
        return await look(thread_id)

    other._lines._working = counted
    waiting = [asyncio.create_task(other.start(f"message {n}", thread_id="t")) for n in range(5)]
    await asyncio.sleep(0.8)
    assert 2 <= len(looks) <= 8
    gate.opened.set()
    ended = await asyncio.gather(working, *waiting)
    assert [one.status for one in ended] == ["finished"] * 6


async def test_c86_c50_the_next_in_line_finds_the_thread_as_it_was_left(house):
    """The run before it came to wait for a person: a plain message closes its question, as it always does."""
    gate = Gate()
    restart = {"service_id": "svc-pay-001", "environment": "prod"}
    shop = Shop()
    model = ScriptedModel(
        turns=[
            says("", call("hold", {}, id="h"), call("restart_service", restart, id="r")),
            "on we go",
        ],
        by_history=True,
    )
    runner = house.runner(model, tools=[*shop.tools(), gate.tool()], busy="wait")
    working = await held(runner, gate)
    late = asyncio.create_task(runner.start("in prod, I mean", thread_id="t"))
    await asyncio.sleep(0)
    gate.opened.set()
    first, second = await working, await late
    assert second.status == "finished"
    assert "loop_interrupt" in [one.word async for one in runner.follow(first.id)]  # it had come to wait
    was = await runner.get(first.id)
    assert was.stop_reason == "dismissed"
    with pytest.raises(AlreadyAnswered):
        await runner.resume(first.id, {was.questions[0].id: approve()})


def test_c86_sync_callers_wait_too(house):
    import threading

    entered, opened = threading.Event(), threading.Event()
    from adjourn.nodes import tool

    @tool(effect="read", timeout_s=None)
    def hold() -> str:
        """Hold."""
        entered.set()
        opened.wait(30)
        return "held"

    runner = house.runner(turns(), tools=[hold], busy="wait")
    ended = []
    threads = [
        threading.Thread(target=lambda n=n: ended.append(runner.start_sync(f"m{n}", thread_id="t")))
        for n in range(3)
    ]
    threads[0].start()
    entered.wait(30)
    for one in threads[1:]:
        one.start()
    opened.set()
    for one in threads:
        one.join(30)
    assert [one.status for one in ended] == ["finished"] * 3


async def test_a_setting_that_is_none_is_refused(house):
    with pytest.raises(UsageError, match="refuse, wait"):
        house.runner(["x"], busy="queue")
    with pytest.raises(UsageError, match="refuse, wait"):
        await house.runner(["x"]).start("go", busy="later")


async def test_c86_a_starter_whose_event_loop_was_closed_over_it_holds_nobody_up(house):
    gate = Gate()
    runner = house.runner(turns(), tools=[gate.tool()], busy="wait")
    working = await held(runner, gate)
    first = asyncio.create_task(runner.start("first in line", thread_id="t"))
    for _ in range(20):
        await asyncio.sleep(0)
    gone = asyncio.new_event_loop()
    gone.close()
    (line,) = runner._lines._lines.values()
    lost = Place(lambda _: None)
    lost.loop = gone
    line.append(lost)
    last = asyncio.create_task(runner.start("last in line", thread_id="t"))
    for _ in range(20):
        await asyncio.sleep(0)
    gate.opened.set()
    ended = await asyncio.wait_for(asyncio.gather(working, first, last), 30)
    assert [one.status for one in ended] == ["finished"] * 3
