"""A run that is started again by the id that its caller gave it is started once."""

import asyncio

import pytest
from runs.shop import Shop

from adjourn.checkpoints.errors import UsageError
from adjourn.nodes import approve
from adjourn.nodes.scripted import call, says

RESTART = [
    says("", call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r")),
    "ok",
]


async def test_the_same_start_again_gives_the_run_as_it_stands(house):
    shop = Shop()
    runner = house.runner(RESTART, shop)
    first = await runner.start("restart", run_id="job-7", thread_id="t", by="wang", on_event=house.hear)
    again = await runner.start("restart", run_id="job-7", thread_id="t", by="wang", on_event=house.hear)
    assert (again.status, again.interrupts) == ("interrupted", first.interrupts)  # the question is still open
    await runner.resume("job-7", {first.interrupts[0].id: approve()}, on_event=house.hear)
    # without a thread: that of the first
    again = await house.runner([], shop).start("restart", run_id="job-7", by="wang")
    assert (again.status, again.answer, shop.count("restart_service")) == ("finished", "ok", 1)
    house.check(["job-7"])


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("another", {}),
        ("restart", {"thread_id": "u"}),
        ("restart", {"by": "li"}),
        ("restart", {"name": "other"}),
    ],
)
async def test_an_id_that_started_something_else_is_refused_and_leaves_it_alone(house, message, settings):
    settings = {"by": "wang", **settings}
    first = await house.runner(RESTART, Shop()).start("restart", run_id="job-7", thread_id="t", by="wang")
    other = house.runner(RESTART, Shop(), name=settings.pop("name", "react"))
    with pytest.raises(UsageError, match="there is a run 'job-7' already, which began with another"):
        await other.start(message, run_id="job-7", **settings)
    assert (await house.runners[0].get("job-7")).interrupts == first.interrupts


async def test_starts_at_the_same_moment_give_one_run(house):
    shop = Shop()
    runners = [house.runner(RESTART, shop) for _ in range(4)]
    runs = await asyncio.gather(*(one.start("restart", run_id="job-7", by="wang") for one in runners))
    assert {one.id for one in runs} == {"job-7"}
    run = await runners[0].get("job-7")
    assert [one.action for one in run.audit].count("started") == 1


@pytest.mark.parametrize("busy", ["refuse", "wait"])
async def test_while_the_run_works_its_start_again_does_not_wait_for_it(house, busy):
    shop = Shop(delays={"search_docs": 0.5})
    turns = [says("", call("search_docs", {"query": "x"}, id="s")), "ok"]
    runner = house.runner(turns, shop, busy=busy)
    begun = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(
        runner.start("look", run_id="job-7", thread_id="t", on_begun=begun.set_result)
    )
    await begun
    assert (await runner.start("look", run_id="job-7", thread_id="t")).status == "running"
    assert (await first).answer == "ok"
    if runner.detached:
        return
    assert shop.count("search_docs") == 1


async def test_a_stream_of_a_run_that_was_started_before_tells_its_events_from_the_first(house):
    runner = house.runner(RESTART, Shop())
    told = [one async for one in runner.stream("restart", run_id="job-7", by="wang") if one.stored]
    again = [one async for one in runner.stream("restart", run_id="job-7", by="wang") if one.stored]
    assert again == told
    assert told[-1].word == "loop_interrupt"
