"""Cancel (C-59 to C-62), and a model that gives up (C-58)."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from runs.shop import Shop

from adjourn.checkpoints.errors import LeaseLost, NotResumable
from adjourn.graph import Limits, starts
from adjourn.nodes import Happened, ScriptedModel, ToolContext, approve, tool
from adjourn.nodes.scripted import Fails, call, says


@pytest.mark.alone
async def test_c59_c60_a_cancel_reaches_running_tools_and_keeps_what_was_finished(house):
    entered = asyncio.Event()
    reached: list[float] = []

    @tool(effect="read")
    async def quick() -> str:
        """Quick."""
        return "done"

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            reached.append(time.monotonic())
            raise
        return "late"

    turns = [says("", call("quick", {}, id="q"), call("slow", {}, id="s")), "next"]
    runner = house.runner(turns, tools=[quick, slow])
    running = asyncio.create_task(runner.start("go", thread_id="t", on_event=house.hear))
    await entered.wait()
    (row,) = await runner.list(thread_id="t")
    began = time.monotonic()
    stopped = await runner.cancel(row.id)
    assert reached[0] - began < (1.0 if house.detached else 0.2)  # another process looks twice a second
    assert (stopped.status, stopped.stop_reason) == ("cancelled", "cancelled")
    assert [one.outcome for one in stopped.calls] == ["ok", "cancelled"]
    assert (await running).id == stopped.id
    assert (await runner.cancel(row.id)).status == "cancelled"
    house.check([row.id])
    again = house.runner(["x", "x", "next"], tools=[quick, slow])
    assert (await again.start("more", thread_id="t")).answer == "next"


@pytest.mark.in_process
async def test_nobody_looks_for_cancel_requests_when_the_last_of_several_runs_has_ended(house):
    """The first run to begin need not be the last to end; behind the last one, the database may be closed."""
    gates = {"run_first": asyncio.Event(), "run_last": asyncio.Event()}

    @tool(effect="read")
    async def wait(context: ToolContext) -> str:
        """Wait."""
        await gates[context.run_id].wait()
        return "done"

    runner = house.runner([says("", call("wait", {}, id="w")), "end"], tools=[wait])
    before = asyncio.all_tasks()
    running = {name: asyncio.create_task(runner.start("go", run_id=name)) for name in gates}
    for name, gate in gates.items():
        gate.set()
        assert (await running[name]).answer == "end"
    await asyncio.sleep(0)  # one that was cancelled ends in the loop's next round
    assert asyncio.all_tasks() == before


async def test_c60_a_turn_cancelled_while_the_model_speaks_is_not_written(house):
    speaking = asyncio.Event()

    class Gate:
        def __init__(self):
            self.never = asyncio.Event()

        async def wait(self):
            speaking.set()
            await self.never.wait()

    runner = house.runner(ScriptedModel(turns=[says("hello", gate=Gate())]))
    running = asyncio.create_task(runner.start("go", thread_id="t"))
    await speaking.wait()
    (row,) = await runner.list(thread_id="t")
    await runner.cancel(row.id)
    run = await running
    assert run.status == "cancelled"
    state = await runner.graph.aget_state({"configurable": {"thread_id": "t"}})
    assert [one.type for one in state.values["messages"]][:2] == ["human", "ai"]
    assert len(state.values["messages"]) == 2  # the second is the closing message


class Stubborn(ScriptedModel):
    """Speaks, then waits for ever; what becomes of it when it is taken back is `how`. Asked again it answers."""

    how: str
    speaks: Any = None

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        self._requests.append(list(messages))
        last = {"finish_reason": "stop"}
        if len(self._requests) == 1:
            yield ChatGenerationChunk(message=AIMessageChunk("half of "))
            self.speaks.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                if self.how == "an error that is tried again":
                    raise ConnectionError("connection lost") from error
                if self.how == "an error that is not":
                    raise ValueError("bad") from error
                if self.how == "the end of its stream":
                    return
        yield ChatGenerationChunk(message=AIMessageChunk("an answer", response_metadata=last))


@pytest.mark.in_process
@pytest.mark.parametrize("by", ["cancel", "time"])
@pytest.mark.parametrize(
    "how", ["an error that is tried again", "an error that is not", "the end of its stream", "a whole turn"]
)
async def test_c60_a_model_that_makes_something_of_being_taken_back_is_asked_no_more(house, how, by):
    model = Stubborn(turns=[], how=how, speaks=asyncio.Event())
    limits = Limits(max_active_s=0.3) if by == "time" else None
    runner = house.runner(model, limits=limits)
    running = asyncio.create_task(runner.start("go", run_id="run_a", on_event=house.hear))
    await model.speaks.wait()
    if by == "cancel":
        await runner.cancel("run_a")
    run = await running
    assert (run.status, run.stop_reason) == (
        ("cancelled", "cancelled") if by == "cancel" else ("finished", "timeout")
    )
    assert "an answer" not in run.answer
    assert len(model.requests) == 1
    assert [one.reason for one in house.sent if one.word == "text_discarded"] == [
        "cancelled" if by == "cancel" else "timeout"
    ]


async def test_c60_a_waiting_run_can_be_cancelled(house):
    shop = Shop()
    restart = {"service_id": "s", "environment": "prod"}
    runner = house.runner([says("", call("restart_service", restart, id="r")), "next"], shop)
    run = await runner.start("go", thread_id="t", on_event=house.hear)
    stopped = await runner.cancel(run.id, by="li")
    assert (stopped.status, stopped.stop_reason, stopped.questions[0].state) == (
        "cancelled",
        "cancelled",
        "cancelled",
    )
    assert [one.outcome for one in stopped.calls] == ["cancelled"]
    assert (await runner.start("more", thread_id="t")).answer == "next"
    assert shop.ran == []


@pytest.mark.in_process
async def test_c62_an_outer_cancel_ends_the_run_first(house):
    entered = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await asyncio.sleep(30)
        return "late"

    runner = house.runner([says("", call("slow", {}, id="s"))], tools=[slow])
    running = asyncio.create_task(runner.start("go", thread_id="t"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (row,) = await runner.list(thread_id="t")
    assert (row.status, row.lease_owner) == ("cancelled", None)


CTRL_C = """
import asyncio, sys
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

@tool(effect="read")
async def slow() -> str:
    "Slow."
    print("in", flush=True)
    await asyncio.sleep(60)

runner = Runner(build_react(ScriptedModel(turns=[says("", call("slow", {}, id="s"))]), [slow]), sys.argv[1])
try:
    if sys.argv[2] == "sync":
        runner.start_sync("go", run_id="run_c")
    else:
        asyncio.run(runner.start("go", run_id="run_c"))
except KeyboardInterrupt:
    print(runner.get_sync("run_c").status, flush=True)
    runner.close()
"""


@pytest.mark.parametrize("way", ["sync", "async"])
def test_c62_ctrl_c_in_a_script_is_a_cancel(url, way):
    process = subprocess.Popen([sys.executable, "-c", CTRL_C, url, way], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "in\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert (out, process.returncode) == ("cancelled\n", 0)


async def test_c58_a_model_that_fails_for_good_leaves_a_run_that_can_be_resumed(house, monkeypatch):
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    shop = Shop()
    search = says("", call("search_docs", {"query": "x"}, id="s"))
    broken = house.runner(ScriptedModel(turns=[search, Fails(ValueError("bad key"))]), shop)
    run = await broken.start("go", on_event=house.hear)
    assert (run.status, run.stop_reason) == ("failed", None)
    assert "bad key" in run.error["message"]
    again = house.runner([search, "all good"], shop)
    done = await again.resume(run.id, by="li", on_event=house.hear)
    assert (done.status, done.answer, shop.count("search_docs")) == ("finished", "all good", 1)
    house.check([run.id])


async def test_c58_a_network_error_is_asked_again(house, monkeypatch):
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    run = await house.runner(ScriptedModel(turns=[Fails(ConnectionError("reset")), "fine"])).start("go")
    assert (run.status, run.answer) == ("finished", "fine")


async def test_a_message_on_a_failed_thread_starts_anew_in_a_legal_history(house, monkeypatch):
    monkeypatch.setattr("adjourn.nodes.model_errors.BACKOFF_S", 0.0)
    search = says("", call("search_docs", {"query": "x"}, id="s"))
    runner = house.runner(ScriptedModel(turns=[search, Fails(ValueError("bad key")), "hello"]))
    run = await runner.start("go", thread_id="t")
    second = await runner.start("again", thread_id="t")
    assert second.answer == "hello"
    assert [one.type for one in house.models[0].requests[-1]] == ["system", "human", "ai", "tool", "human"]
    with pytest.raises(NotResumable, match="finished"):
        await runner.resume(run.id)
    assert (await runner.get(run.id)).stop_reason == "dismissed"


@pytest.mark.in_process  # deltas
async def test_stream_gives_events_as_they_happen_and_who_leaves_does_not_stop_the_run(house):
    shop = Shop({"search_docs": 0.05})
    turns = [says("hm", call("search_docs", {"query": "x"}, id="s")), "ok"]
    runner = house.runner(turns, shop)
    seen = [event.word async for event in runner.stream("go", thread_id="a")]
    assert seen == [
        "run_started",
        "step_started",
        "text_delta",
        "message",
        "tool_call",
        "tool_result",
        "step_started",
        "text_delta",
        "message",
        "run_finished",
    ]
    stream = runner.stream("go", thread_id="b")
    first = await anext(stream)
    await stream.aclose()
    await asyncio.gather(*runner.left)
    assert (await runner.get(first.run_id)).status == "finished"


async def test_c61_a_write_that_had_started_gets_its_grace(house):
    entered = asyncio.Event()

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        entered.set()
        await asyncio.sleep(1.0 if house.detached else 0.2)  # until the signal has reached it
        return "paid"

    runner = house.runner([says("", call("pay", {}, id="p"), call("pay", {}, id="p2"))], tools=[pay])
    running = asyncio.create_task(runner.start("go", thread_id="t", on_event=house.hear))
    await entered.wait()
    (row,) = await runner.list(thread_id="t")
    stopped = await runner.cancel(row.id)
    await running
    assert [one.outcome for one in stopped.calls] == ["ok", "cancelled"]
    house.check([row.id])


async def test_c61_after_the_grace_it_is_unknown_and_an_identical_write_asks_first(house):
    entered = asyncio.Event()
    paid = []

    @tool(effect="write")
    async def pay(to: str) -> str:
        """Pay."""
        entered.set()
        if not paid:
            paid.append("lost")
            await asyncio.sleep(60)
        paid.append(to)
        return "paid"

    pay_wang = says("", call("pay", {"to": "wang"}, id="p"))
    limits = Limits(cancel_grace_s=0.05)
    runner = house.runner([pay_wang, "x", pay_wang, "done"], tools=[pay], limits=limits)
    running = asyncio.create_task(runner.start("go", thread_id="t"))
    await entered.wait()
    (row,) = await runner.list(thread_id="t")
    stopped = await runner.cancel(row.id)
    await running
    assert (stopped.calls[0].outcome, stopped.calls[0].error_code) == ("unknown", "outcome_unknown")
    again = house.runner([pay_wang, "x", pay_wang, "done"], tools=[pay], limits=limits)
    run = await again.start("pay wang", thread_id="t")
    assert (run.status, run.interrupts[0].type) == ("interrupted", "confirm_risky")
    assert "unknown" in run.interrupts[0].reason
    assert paid == ["lost"]
    run = await again.resume(run.id, {run.interrupts[0].id: approve()}, by="li")
    assert (run.status, paid) == ("finished", ["lost", "wang"])


@pytest.mark.parametrize("ask_for", [(), ("to",)], ids=["planned", "after its parameters"])
async def test_c61_who_has_to_agree_anyway_is_told_that_an_identical_write_is_in_doubt(house, ask_for):
    """A question that the tool declares says so as well: nobody agrees to a second payment unawares."""
    paid = []

    @tool(effect="write", timeout_s=0.1, confirm="Pay {to}?", ask_for=ask_for)
    async def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        await asyncio.sleep(60 if len(paid) == 1 else 0)
        return "paid"

    given = {} if ask_for else {"to": "wang"}
    turns = [says("", call("pay", given, id="a")), says("", call("pay", given, id="b")), "done"]
    runner = house.runner(turns, tools=[pay])
    run = await runner.start("go", thread_id="t")
    asked = []
    while run.interrupts:
        (question,) = run.interrupts
        if question.type == "params_required":
            run = await runner.resume(run.id, {question.id: {"to": "wang"}}, by="li")
        else:
            asked.append(question.reason)
            run = await runner.resume(run.id, {question.id: approve()}, by="li")
    doubt = "The outcome of an identical call of pay is unknown. Run it again?"
    assert asked == ["Pay wang?", f"{doubt} Pay wang?"]
    assert (run.status, [one.outcome for one in run.calls], paid) == (
        "finished",
        ["unknown", "ok"],
        ["wang", "wang"],
    )


async def test_c61_verify_is_tried_after_the_grace(house):
    entered = asyncio.Event()

    @tool(effect="write", verify=lambda context: Happened("it did"))
    async def pay() -> str:
        """Pay."""
        entered.set()
        await asyncio.sleep(60)
        return "late"

    runner = house.runner(
        [says("", call("pay", {}, id="p"))], tools=[pay], limits=Limits(cancel_grace_s=0.05)
    )
    running = asyncio.create_task(runner.start("go", thread_id="t"))
    await entered.wait()
    (row,) = await runner.list(thread_id="t")
    stopped = await runner.cancel(row.id)
    await running
    assert stopped.calls[0].outcome == "ok"


@pytest.mark.parametrize(
    ("goes_on", "outcome"), [(True, "unknown"), (False, "cancelled")], ids=["a thread", "a task"]
)
async def test_c61_that_it_did_not_happen_does_not_count_while_it_goes_on(house, goes_on, outcome):
    entered, go = threading.Event(), threading.Event()

    @tool(effect="write", name="pay", verify=lambda context: False)
    def in_thread() -> str:
        """Pay."""
        entered.set()
        go.wait(20)
        return "paid"

    @tool(effect="write", name="pay", verify=lambda context: False)
    async def in_task() -> str:
        """Pay."""
        entered.set()
        await asyncio.sleep(60)
        return "late"

    runner = house.runner(
        [says("", call("pay", {}, id="p"))],
        tools=[in_thread if goes_on else in_task],
        limits=Limits(cancel_grace_s=0.05),
    )
    running = asyncio.create_task(runner.start("go", thread_id="t"))
    assert await asyncio.to_thread(entered.wait, 20)
    (row,) = await runner.list(thread_id="t")
    stopped = await runner.cancel(row.id)
    await running
    go.set()
    assert stopped.calls[0].outcome == outcome


@pytest.mark.alone
async def test_c59_a_cancel_from_another_runner_reaches_the_owner_within_a_second(house):
    entered = asyncio.Event()
    reached: list[float] = []

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            reached.append(time.monotonic())
        return "late"

    turns = [says("", call("slow", {}, id="s"))]
    owner, other = house.runner(turns, tools=[slow]), house.runner(turns, tools=[slow])
    running = asyncio.create_task(owner.start("go", thread_id="t"))
    await entered.wait()
    (row,) = await other.list(thread_id="t")
    began = time.monotonic()
    stopped = await other.cancel(row.id, by="li")
    assert reached[0] - began < 1.0
    assert (stopped.status, (await running).status) == ("cancelled", "cancelled")


async def test_c59_a_run_whose_owner_is_dead_is_ended_after_its_lease(house):
    runner = house.runner(["never said"])
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id="run_d", graph="react", signature="s", owner="dead", lease_s=-1
    )
    await runner.database.awrite(lambda c: starts.store(c, row))
    stopped = await runner.cancel("run_d")
    assert (stopped.status, stopped.stop_reason) == ("cancelled", "cancelled")
    assert house.models[0].requests == []


@pytest.mark.in_process  # its own lease
async def test_c34_c59_a_cancel_by_the_next_owner_keeps_the_outcomes_that_the_dead_one_had_stored(
    house, rows, url
):
    told, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def quick() -> str:
        """Quick."""
        return "brought"

    @tool(effect="read")
    async def stuck() -> str:
        """Stuck."""
        await may_end.wait()
        return "too late"

    def hear(event):
        if event.word == "tool_result":
            told.set()

    calls = says("", call("quick", {}, id="q"), call("stuck", {}, id="s"))
    runner, other = (house.runner([calls, "end"], tools=[quick, stuck]) for _ in range(2))
    running = asyncio.create_task(runner.start("go", run_id="run_c", on_event=hear))
    await told.wait()
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE runs SET lease_until = '2000-01-01T00:00:00.000000Z'")
    stopped = await other.cancel("run_c")
    may_end.set()
    with suppress(LeaseLost):
        await running
    assert (stopped.status, stopped.stop_reason) == ("cancelled", "cancelled"), stopped.error
    assert [(one.tool, one.outcome) for one in stopped.calls] == [("quick", "ok"), ("stuck", "cancelled")]
    told_once = rows("SELECT key FROM events WHERE type = 'tool_result' ORDER BY number")
    assert [one["key"] for one in told_once] == ["tool_result:1:q", "tool_result:1:s"]
