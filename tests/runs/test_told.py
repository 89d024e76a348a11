"""One value for the model and another for people (C-32), and what a tool's own bound and rate do to a run (C-21)."""

import asyncio
import json
import threading
import time

import pytest
from runs.observed import told

from adjourn.nodes import RateLimited, Told, ToolContext, tool
from adjourn.nodes.scripted import call, says

ROWS = [{"id": 1, "name": "pay", "owner": "ops@corp.com"}, {"id": 2, "name": "shop", "owner": "li@corp.com"}]


def shown(house, call_id):
    return next(one for one in house.sent if one.word == "tool_result" and one.call_id == call_id).data


async def test_c32_a_tool_tells_the_model_one_thing_and_people_another(house, rows):
    @tool(effect="read")
    def report() -> Told:
        """Make a report."""
        return Told(for_model="2 services", for_people={"rows": ROWS, "note": "call 13800138000"})

    run = await house.runner([says("", call("report", {}, id="r")), "ok"], tools=[report]).start(
        "go", on_event=house.hear
    )
    assert told(house, "r") == {"ok": True, "data": "2 services"}
    assert shown(house, "r")["rows"][0] == {"id": 1, "name": "pay", "owner": "[email]"}
    assert run.calls[0].shown["note"] == "call [phone]"
    (row,) = rows("SELECT shown, result FROM calls")
    assert json.loads(row["shown"])["rows"][1]["owner"] == "[email]"
    assert "owner" not in row["result"]
    house.check([run.id])


async def test_c32_a_tool_declares_the_fields_that_go_to_the_model(house):
    @tool(effect="read", model_fields=("name", "id"), merge_by=("id",))
    async def services() -> list[dict]:
        """List services."""
        return [*ROWS, {"id": 2, "name": "shop", "size": 3}]

    @tool(effect="read", model_fields=["id"])
    def one() -> dict:
        """Get one."""
        return ROWS[0]

    @tool(effect="read", model_fields=("id",))
    def text() -> str:
        """Get a text."""
        return "no record"

    calls = [call(name, {}, id=name) for name in ("services", "one", "text")]
    run = await house.runner([says("", *calls), "ok"], tools=[services, one, text]).start(
        "go", on_event=house.hear
    )
    assert told(house, "services")["data"] == [{"name": "pay", "id": 1}, {"name": "shop", "id": 2}]
    assert [one["size"] for one in shown(house, "services") if "size" in one] == [3]
    assert told(house, "one")["data"] == {"id": 1}
    assert told(house, "text")["data"] == "no record"
    assert [one.shown is None for one in run.calls] == [False, False, True]  # nothing is kept twice


async def test_c32_what_people_are_shown_has_a_limit_too(house, tmp_path):
    @tool(effect="read")
    def huge() -> Told:
        """Huge."""
        return Told(for_model="much", for_people=[{"n": n, "text": "x" * 1000} for n in range(3000)])

    await house.runner([says("", call("huge", {}, id="h")), "ok"], tools=[huge]).start(
        "go", on_event=house.hear
    )
    assert shown(house, "h")["cut"]
    assert len(json.dumps(shown(house, "h"))) < 33_000
    assert (tmp_path / "adjourn.db").stat().st_size < 1_000_000


class Meter:
    """Counts what runs at the same time, and when it began."""

    def __init__(self, delay_s=0.02):
        self.delay_s = delay_s
        self.lock = threading.Lock()
        self.running = self.most = 0
        self.began = []

    def enter(self):
        with self.lock:
            self.began.append(time.monotonic())
            self.running += 1
            self.most = max(self.most, self.running)

    def leave(self):
        with self.lock:
            self.running -= 1

    async def work(self):
        self.enter()
        await asyncio.sleep(self.delay_s)
        self.leave()


@pytest.mark.in_process  # a runner on two event loops at once
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_c21_a_tool_s_own_bound_holds_over_all_runs_of_the_process(house, effect):
    meter = Meter()

    @tool(effect=effect, max_parallel=2)
    async def look(n: int) -> int:
        """Look."""
        await meter.work()
        return n

    turn = says("", *(call("look", {"n": n}, id=f"c{n}") for n in range(4)))
    runner = house.runner([turn, "ok"], tools=[look])
    other = house.runner([turn, "ok"], tools=[look])
    await runner.list()  # the file is there before two come at once
    started = [one.start("go") for one in (runner, runner, other)]
    in_thread = asyncio.to_thread(other.start_sync, "go")  # on an event loop of its own
    runs = await asyncio.gather(*started, in_thread)
    assert {one.outcome for run in runs for one in run.calls} == {"ok"}
    assert (meter.most, len(meter.began)) == (2, 16)


async def test_c21_a_rate_spreads_calls_over_time(house):
    meter = Meter(0)

    @tool(effect="read", rate="2/0.2s")
    async def look(n: int) -> int:
        """Look."""
        await meter.work()
        return n

    turn = says("", *(call("look", {"n": n}, id=f"c{n}") for n in range(5)))
    run = await house.runner([turn, "ok"], tools=[look]).start("go")
    assert [one.outcome for one in run.calls] == ["ok"] * 5
    began = sorted(meter.began)
    # the turn is given on time; when a loaded machine lets the tool enter is another matter
    assert min(later - first for first, later in zip(began, began[2:], strict=False)) >= 0.15


async def test_c21_a_wait_for_a_turn_is_not_the_tool_s_time(house):
    @tool(effect="read", rate="1/0.3s", timeout_s=0.2)
    async def look(n: int, context: ToolContext) -> float:
        """Look."""
        return context.seconds_left or 0.0

    turn = says("", call("look", {"n": 1}, id="a"), call("look", {"n": 2}, id="b"))
    run = await house.runner([turn, "ok"], tools=[look]).start("go")
    assert [one.outcome for one in run.calls] == ["ok", "ok"]
    assert min(told(house, one)["data"] for one in "ab") > 0.1


async def test_c21_a_rate_that_cannot_be_met_is_told_at_once(house):
    ran = []

    @tool(effect="write", rate="1/h")
    def send(n: int) -> int:
        """Send."""
        ran.append(n)
        return n

    turns = [says("", call("send", {"n": n}, id=f"c{n}")) for n in range(2)]
    runner = house.runner([*turns, "ok"], tools=[send])
    began = time.monotonic()
    run = await runner.start("go", on_event=house.hear)
    assert time.monotonic() - began < 5
    assert (ran, [one.error_code for one in run.calls]) == ([0], [None, "rate_limited"])
    assert run.calls[1].attempts == 0  # nothing was sent: a later call may try again
    assert "1/h" in told(house, "c1")["message"]
    house.check([run.id])


async def test_c21_behind_calls_that_were_given_up_and_never_end_nobody_waits_for_ever(house):
    hold = threading.Event()

    @tool(effect="read", max_parallel=1, timeout_s=0.1, retries=0)
    def stuck(n: int) -> str:
        """Hang."""
        hold.wait(20)
        return "late"

    turn = says("", call("stuck", {"n": 1}, id="a"), call("stuck", {"n": 2}, id="b"))
    try:
        run = await house.runner([turn, "ok"], tools=[stuck]).start("go")
    finally:
        hold.set()
    assert [one.error_code for one in run.calls] == ["timeout", "unavailable"]
    assert "not ended" in told(house, "b")["message"]


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_c21_c59_a_cancel_reaches_a_call_that_waits_for_its_turn(house, effect):
    ran = []

    @tool(effect=effect, rate="1/20s")
    async def look(n: int) -> int:
        """Look."""
        ran.append(n)
        return n

    turn = says("", call("look", {"n": 1}, id="a"), call("look", {"n": 2}, id="b"))
    runner = house.runner([turn, "ok"], tools=[look])
    first = asyncio.Event()

    def hear(event):
        if event.word == "tool_result":
            first.set()

    task = asyncio.create_task(runner.start("go", run_id="run_x", on_event=hear))
    await first.wait()
    began = time.monotonic()
    run = await runner.cancel("run_x")
    assert time.monotonic() - began < 1
    assert ([one.outcome for one in run.calls], ran) == (["ok", "cancelled"], [1])
    await task


@pytest.mark.parametrize(
    ("error", "outcome"), [(ConnectionResetError("gone"), "unknown"), (RateLimited(), "failed")]
)
async def test_c21_c28_a_write_that_may_have_happened_is_unknown_when_it_gets_no_second_turn(
    house, error, outcome
):
    ran = []

    @tool(effect="write", idempotent=True, rate="1/h")
    async def send() -> str:
        """Send."""
        ran.append(1)
        raise error

    run = await house.runner([says("", call("send", {}, id="s")), "ok"], tools=[send]).start("go")
    assert (run.calls[0].outcome, run.calls[0].attempts, ran) == (outcome, 1, [1])
