"""Events to listeners: live and from the database as one sequence, however slow the listener (C-64 to C-66)."""

import asyncio
import gc
from contextlib import aclosing

import pytest
from langgraph.errors import GraphDrained
from runs.shop import Shop

from adjourn.checkpoints.errors import NotAllowed
from adjourn.checkpoints.events import StepStarted, TextDelta
from adjourn.graph import stream
from adjourn.nodes import tool
from adjourn.nodes.scripted import call, says

RESTART = says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1"))


@pytest.mark.in_process  # deltas
async def test_c64_c65_who_follows_here_gets_stored_and_live_events_as_one_sequence(house):
    may_end = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        await may_end.wait()
        return "done"

    turns = [says(["看", "看。"], call("slow", {}, id="s")), says(["完", "了"])]
    runner = house.runner(turns, tools=[slow])
    begun = asyncio.Event()
    running = asyncio.create_task(
        runner.start("go", run_id="run_s", on_event=house.hear, on_begun=lambda _: begun.set())
    )
    await begun.wait()
    heard = []
    async with aclosing(runner.follow("run_s", after=1)) as events:
        async for event in events:
            heard.append(event)
            if event.word == "tool_call":
                assert not running.done()
                may_end.set()
    run = await running
    assert run.status == "finished"
    assert [one.number for one in heard if one.stored] == list(range(2, run.row.last_event + 1))
    said = [one.text for one in heard if isinstance(one, TextDelta) and one.step == 2]
    assert "".join(said) == "完了"
    assert heard == [one for one in house.sent if one.number != 1]


@pytest.mark.in_process  # deltas
async def test_c65_a_listener_that_joins_in_the_middle_of_a_text_gets_it_from_its_beginning(house):
    gate = asyncio.Event()
    runner = house.runner([says(["a", "b", "c"], each_s=0.01), "unused"])
    heard_b = asyncio.Event()

    def hear(event):
        if isinstance(event, TextDelta) and event.text == "b":
            heard_b.set()

    running = asyncio.create_task(runner.start("go", run_id="run_j", on_event=hear))
    await heard_b.wait()
    heard = [event async for event in runner.follow("run_j", after=2)]
    gate.set()
    await running
    deltas = [one.text for one in heard if isinstance(one, TextDelta)]
    assert "".join(deltas) == "abc"
    assert [one.word for one in heard if one.stored] == ["message", "run_finished"]


@pytest.mark.in_process  # deltas
async def test_c65_a_slow_listener_loses_deltas_and_no_stored_event(house, monkeypatch):
    monkeypatch.setattr(stream, "ROOM", 4)
    calls = [call("search_docs", {"query": str(n)}, id=f"c{n}") for n in range(6)]
    turns = [says([f"{n} " for n in range(30)], *calls), says([f"{n} " for n in range(30)])]
    runner = house.runner(turns)
    heard, ended = [], asyncio.Event()
    drive = runner._owner._drive

    async def driven(*given, **told):
        run = await drive(*given, **told)
        ended.set()
        return run

    monkeypatch.setattr(runner._owner, "_drive", driven)
    async with aclosing(runner.stream("go", run_id="run_l")) as events:
        async for event in events:
            heard.append(event)
            if event.word == "run_started":  # it reads nothing until the run has ended
                await ended.wait()
    stored = list(await runner.events("run_l"))
    assert [one for one in heard if one.stored] == stored
    assert len([one for one in heard if not one.stored]) < 60


async def test_c65_a_slow_follower_loses_no_stored_event(house, monkeypatch):
    monkeypatch.setattr(stream, "ROOM", 2)
    calls = [call("search_docs", {"query": str(n)}, id=f"c{n}") for n in range(6)]
    runner = house.runner([says("a", *calls), says(["b", "c", "d", "e"])])
    begun = asyncio.Event()
    running = asyncio.create_task(runner.start("go", run_id="run_l", on_begun=lambda _: begun.set()))
    await begun.wait()
    heard = []
    async for event in runner.follow("run_l"):
        heard.append(event)
        await asyncio.sleep(0.02)
    await running
    assert [one for one in heard if one.stored] == list(await runner.events("run_l"))


async def test_c65_a_run_that_goes_on_is_followed_from_where_the_listener_was(house):
    runner = house.runner([RESTART, "done"], Shop())
    waiting = await runner.start("go", run_id="run_g")
    first = [event async for event in runner.follow("run_g")]
    assert first[-1].word == "loop_interrupt"
    assert [event async for event in runner.follow("run_g", after=first[-1].number)] == []
    other = house.runner([RESTART, "done"], Shop())  # another process, as far as the store can tell
    await other.resume("run_g", {waiting.interrupts[0].id: {"action": "approve"}})
    rest = [event async for event in runner.follow("run_g", after=first[-1].number)]
    assert [*first, *rest] == list(await runner.events("run_g"))


async def test_c64_a_run_of_another_process_is_followed_while_it_works(house):
    gate = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        await gate.wait()
        return "done"

    turns = [says("", call("slow", {}, id="s")), "end"]
    driver, watcher = house.runner(turns, tools=[slow]), house.runner(turns, tools=[slow])
    begun = asyncio.Event()
    running = asyncio.create_task(driver.start("go", run_id="run_o", on_begun=lambda _: begun.set()))
    await begun.wait()
    heard = []
    async for event in watcher.follow("run_o"):
        heard.append(event)
        if event.word == "tool_call":
            gate.set()
    await running
    assert heard == list(await watcher.events("run_o"))


@pytest.mark.in_process  # deltas
async def test_c66_what_was_sent_can_be_rebuilt_from_the_database(house):
    runner = house.runner([says(["a ", "b"], call("search_docs", {"query": "x"}, id="c")), says(["c", "d"])])
    run = await runner.start("go", on_event=house.hear)
    texts: dict[int, str] = {}
    for event in house.sent:
        if isinstance(event, TextDelta):
            texts[event.step] = texts.get(event.step, "") + event.text
    stored = list(await runner.events(run.id))
    assert {one.step: one.text for one in stored if one.word == "message"} == texts
    house.check([run.id])


@pytest.mark.in_process  # its own process goes
async def test_a_run_that_is_drained_ends_its_step_and_is_handed_back(house):
    gate, inside = asyncio.Event(), asyncio.Event()
    ran = []

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        inside.set()
        await gate.wait()
        ran.append("pay")
        return "paid"

    turns = [says("", call("pay", {}, id="p")), "all done"]
    first, second = house.runner(turns, tools=[pay]), house.runner(turns, tools=[pay])
    running = asyncio.create_task(first.start("go", run_id="run_d", on_event=house.hear))
    await inside.wait()
    draining = asyncio.create_task(first.drain())
    await asyncio.sleep(0)
    gate.set()
    assert await draining == []
    left = await running
    assert (left.status, left.row.lease_owner, left.row.lease_until) == ("running", None, None)
    assert [(one.tool, one.outcome) for one in left.calls] == [("pay", "ok")]
    run = await second.recover("run_d", on_event=house.hear)  # at once: the lease was given back
    assert (run.status, run.answer, ran) == ("finished", "all done", ["pay"])
    house.check(["run_d"])


@pytest.mark.in_process  # its own process goes
async def test_calls_that_are_handed_back_at_once_warn_of_nothing(house, caplog):
    """As several specialists are when their process goes: each raised, and only the first one was looked at."""
    gate, inside = asyncio.Event(), asyncio.Semaphore(0)

    @tool(effect="read")
    async def handed_back(place: int) -> str:
        """Handed back."""
        inside.release()
        await gate.wait()
        raise GraphDrained(str(place))

    turn = says("", *(call("handed_back", {"place": one}, id=f"c{one}") for one in range(3)))
    running = asyncio.create_task(house.runner([turn, "done"], tools=[handed_back]).start("go"))
    for _ in range(3):
        await inside.acquire()
    gate.set()
    run = await running
    assert (run.status, run.row.lease_until) == ("running", None)
    gc.collect()
    await asyncio.sleep(0)
    assert "never retrieved" not in caplog.text


@pytest.mark.in_process  # its own process goes
async def test_c59_a_run_that_is_cancelled_while_its_process_goes_is_ended_there(house):
    """It was handed back and taken up again by who waited for its end, a hundred times a second, as long as the process was there."""
    gate, inside = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def stuck() -> str:
        """Stuck."""
        inside.set()
        await gate.wait()
        return "x"

    runner = house.runner([says("", call("stuck", {}, id="p")), "all done"], tools=[stuck])
    running = asyncio.create_task(runner.start("go", run_id="run_d"))
    await inside.wait()
    draining = asyncio.create_task(runner.drain())
    await asyncio.sleep(0)
    ended = await asyncio.wait_for(runner.cancel("run_d", by="li"), 10)
    assert (ended.status, ended.stop_reason) == ("cancelled", "cancelled")
    assert await draining == []
    await running
    assert [one.action for one in ended.audit].count("handed_back") == 1


@pytest.mark.in_process  # its own process goes
async def test_a_drain_has_a_limit_and_what_starts_after_it_is_handed_back(house):
    gate, inside = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def stuck() -> str:
        """Stuck."""
        inside.set()
        await gate.wait()
        return "x"

    turns = [says("", call("stuck", {}, id="p")), "all done"]
    runner, other = house.runner(turns, tools=[stuck]), house.runner(turns, tools=[stuck])
    running = asyncio.create_task(runner.start("go", run_id="run_d"))
    await inside.wait()
    assert await runner.drain(0.05) == ["run_d"]
    late = await runner.start("go", run_id="run_e")
    assert (late.status, late.row.lease_until, late.row.steps) == ("running", None, 0)
    running.cancel()  # as the end of the event loop does: the run is left, not cancelled
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await other.get("run_d")).status == "running"
    assert (await other.recover("run_e")).answer == "all done"


async def test_who_admits_refuses_before_anything_is_stored(house):
    runner = house.runner(["x"])

    def admit(connection, run):
        raise NotAllowed(run.started_by, "go on with this conversation")

    with pytest.raises(NotAllowed, match="li may not go on"):
        await runner.start("go", by="li", admit=admit)
    assert list(await runner.list()) == []


async def test_a_delta_before_the_first_stored_event_brings_no_old_ones_back(house):
    runner = house.runner(["x"])
    box = stream.Mailbox()
    box.put(TextDelta(run_id="r", step=2, text="a"))
    box.put(StepStarted(run_id="r", step=3, number=17))
    box.close()
    assert [one.number async for one in stream.read_out(runner.database, box)] == [None, 17]
