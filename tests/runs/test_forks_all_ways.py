"""A run with all kinds of calls, forked at each of its checkpoints, and then answered, cancelled or spoken to (C-92)."""

from runs.shop import Shop

from adjourn.graph import Run, Runner
from adjourn.nodes import approve
from adjourn.nodes.history import is_legal
from adjourn.nodes.scripted import call, says

RESTART = {"service_id": "svc-pay-001", "environment": "prod"}
VALUES = {"environment": "prod", "service_id": "svc-pay-001"}
TURNS = [
    says(
        "",
        call("search_docs", {"query": "a"}, id="x1"),
        call("query_logs", {}, id="x2"),
        call("nope", {}, id="x3"),
        call("restart_service", RESTART, id="x4"),
        call("publish_release", {"service_id": "s", "version": "1"}, id="x5"),
    ),
    # ids return in a later step
    says(
        "",
        call("search_docs", {"query": "b"}, id="x1"),
        call("restart_service", {**RESTART, "environment": "staging"}, id="x2"),
    ),
    *["done", "more", "more"],
]


async def answered(runner: Runner, run: Run) -> Run:
    """The run at its end, after people said yes to everything."""
    while run.interrupts:
        answers = {one.id: VALUES if one.type == "params_required" else approve() for one in run.interrupts}
        run = await runner.resume(run.id, answers)
    return run


async def check(runner: Runner, run: Run) -> None:
    """Its story has neither gap nor twin, and a model may read what stands on its thread."""
    told = [event.number for event in await runner.events(run.id)]
    assert told == list(range(1, len(told) + 1))
    state = await runner.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    if run.status == "finished":
        assert is_legal(state.values["messages"])


async def test_c92_each_fork_is_answered_cancelled_and_spoken_to_like_any_run(house):
    runner = house.runner(TURNS)
    run = await answered(runner, await runner.start("go", thread_id="t"))
    assert (run.status, run.row.steps) == ("finished", 3)
    points = [one for one in await runner.history(run.id, limit=None) if one.next]
    assert len(points) > 8
    for point in points:
        fork = await answered(runner, await runner.fork(run.id, point.id, repeat_writes=True))
        assert (fork.status, fork.answer) == ("finished", "done"), point
        assert {one.outcome for one in fork.calls} <= {"ok", "invalid"}, point
        await check(runner, fork)
        other = await runner.fork(run.id, point.id, repeat_writes=True)
        if other.status == "interrupted":
            closed = await runner.cancel(other.id)
            assert (closed.status, all(one.result is not None for one in closed.calls)) == ("cancelled", True)
            await check(runner, await runner.start("and now?", thread_id=other.thread_id))
        await check(runner, await runner.fork(run.id, point.id, message="hm", repeat_writes=True))
    assert (await runner.get(run.id)).row == run.row


async def test_c92_runs_that_were_cancelled_or_passed_over_are_forked_where_they_waited(house):
    asks = says("", call("restart_service", RESTART, id="r"))
    shop = Shop()
    runner = house.runner([asks, "done", "and so on"], shop)
    cancelled = await runner.start("one", thread_id="a")
    await runner.cancel(cancelled.id)
    passed_over = await runner.start("two", thread_id="b")
    await runner.start("never mind", thread_id="b")
    for run in (cancelled, passed_over):
        fork = await runner.fork(run.id)
        assert (fork.status, fork.row.input) == ("interrupted", run.row.input)
        assert (await answered(runner, fork)).status == "finished"
    assert shop.count("restart_service") == 2
