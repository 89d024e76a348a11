"""Events followed from the database while another process, or nobody yet, drives the run (C-65, C-66)."""

import asyncio
from contextlib import aclosing

import pytest
from runs.shop import Shop
from store.stored_runs import run_row

from adjourn.checkpoints import event_rows, journal
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import RunNotFound
from adjourn.checkpoints.events import StepStarted, TextDelta
from adjourn.graph import following
from adjourn.graph.following import follow
from adjourn.graph.stream import Broadcast, follow_live
from adjourn.graph.waking import Ear
from adjourn.nodes import approve, tool
from adjourn.nodes.scripted import call, says

RESTART = says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1"))


@pytest.fixture
def database(url):
    """Another process's view of the store."""
    opened = Database(url)
    yield opened
    opened.close()


async def all_of(database, run_id, after=0):
    return [event async for event in follow(database, run_id, after=after)]


async def test_c65_a_listener_elsewhere_gets_each_event_once_and_in_order(house, database):
    may_end = asyncio.Event()

    @tool(effect="read")
    async def quick() -> str:
        """Quick."""
        return "done"

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        await may_end.wait()
        return "done"

    turns = [says("", call("quick", {}, id="q"), call("slow", {}, id="s")), "end"]
    runner = house.runner(turns, tools=[quick, slow])
    begun = asyncio.Event()

    def hear(event):
        house.hear(event)
        begun.set()

    running = asyncio.create_task(runner.start("go", run_id="run_f", on_event=hear))
    await begun.wait()
    heard = []
    async with aclosing(follow(database, "run_f")) as events:
        async for event in events:
            heard.append(event)
            if event.word == "tool_result" and event.call_id == "q":
                assert not may_end.is_set()  # told while its sibling still works (C-64)
                may_end.set()
    run = await running
    assert run.status == "finished"
    assert heard == [event for event in house.sent if event.stored]
    assert [event.number for event in heard] == list(range(1, len(heard) + 1))


async def test_c65_one_that_comes_back_with_its_last_number_misses_nothing(house, database):
    shop = Shop()
    runner = house.runner([RESTART, "done"], shop)
    run = await runner.start("restart it", on_event=house.hear)
    first = await all_of(database, run.id)
    assert first[-1].word == "loop_interrupt"
    last = first[-1].number
    assert await all_of(database, run.id, after=last) == []
    await runner.resume(run.id, {run.interrupts[0].id: approve()}, by="li", on_event=house.hear)
    later = await all_of(database, run.id, after=last)
    assert [*first, *later] == [event for event in house.sent if event.stored]
    assert later[-1].word == "run_finished"


async def test_a_long_run_is_read_a_page_at_a_time(house, database, monkeypatch):
    monkeypatch.setattr(following, "PAGE", 2)
    runner = house.runner([RESTART, "done"])
    run = await runner.start("restart it", on_event=house.hear)
    assert await all_of(database, run.id) == [event for event in house.sent if event.stored]


async def test_pauses_grow_while_nothing_happens_and_start_small_again(house, database):
    """The pause is the caller's to shorten: a server that drives the run wakes its listeners at once."""
    entered, gate, waited = asyncio.Event(), asyncio.Event(), []

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await gate.wait()
        return "done"

    async def pause(seconds):
        waited.append(seconds)
        if len(waited) > 8:
            gate.set()
            await running
        await asyncio.sleep(0)

    runner = house.runner([says("", call("slow", {}, id="s")), "end"], tools=[slow])
    running = asyncio.create_task(runner.start("go", run_id="run_p"))
    await entered.wait()
    heard = [event.word async for event in follow(database, "run_p", pause=pause)]
    assert heard[-1] == "run_finished"
    assert waited[0] == following.FIRST_PAUSE_S
    assert waited == sorted(waited)
    assert max(waited) == following.LONGEST_PAUSE_S


async def test_a_run_that_is_not_there(house, database):
    with pytest.raises(RunNotFound, match="run_x"):
        await all_of(database, "run_x")
    with pytest.raises(RunNotFound, match="run_x"):
        await house.runner([]).events("run_x")


async def test_c65_an_old_owner_that_still_talks_does_not_hide_what_its_successor_stores(database):
    """Who follows in the old owner's process hears deltas all the time; what is stored elsewhere is read all the same."""

    def step(number: int) -> StepStarted:
        return StepStarted(run_id="r", path="", step=number)

    def store(number: int) -> None:
        database.write(lambda connection: event_rows.append(connection, "r", [step(number)]))

    database.write(lambda connection: journal.insert_run(connection, run_row("r", fence=2)))
    store(1)
    broadcast = Broadcast()
    broadcast.begin("r", 1)
    store(2)  # the successor, in another process
    delta = TextDelta(run_id="r", path="", step=1, text="a")

    async def talk() -> None:
        while True:
            broadcast.tell(delta)
            await asyncio.sleep(0.005)

    talking = asyncio.create_task(talk())
    heard = []
    async with aclosing(follow_live(database, "r", broadcast, Ear(database, broadcast.nudge))) as events:
        async with asyncio.timeout(20):
            async for one in events:
                if one.number is not None:
                    heard.append(one.number)
                if one.number == 2:
                    store(3)
                if one.number == 3:
                    break
    talking.cancel()
    assert heard == [1, 2, 3]
