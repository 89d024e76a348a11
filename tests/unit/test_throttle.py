"""How many run at the same time and how often they begin (C-21), on one event loop and on several."""

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjourn.checkpoints.errors import ToolDefinitionError
from adjourn.nodes import tool
from adjourn.nodes.throttle import Rate, Slots


async def test_c21_places_are_bounded_and_go_to_who_waits_longest():
    slots, running, most_seen, order = Slots(), 0, 0, []

    async def work(number):
        nonlocal running, most_seen
        assert await slots.take(3)
        order.append(number)
        running += 1
        most_seen = max(most_seen, running)
        await asyncio.sleep(0)
        running -= 1
        slots.give_back()

    await asyncio.gather(*(work(number) for number in range(20)))
    assert (most_seen, order) == (3, list(range(20)))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=25), st.integers(1, 4))
def test_c21_whoever_gives_up_loses_no_place(plan, most):
    async def body():
        slots, running, seen = Slots(), 0, 0

        async def work(turns):
            nonlocal running, seen
            await slots.take(most)
            running += 1
            seen = max(seen, running)
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                running -= 1
                slots.give_back()

        tasks = []
        for turns, cancelled in plan:
            tasks.append((asyncio.create_task(work(turns)), cancelled))
            await asyncio.sleep(0)
            for task, gone in tasks:
                if gone:
                    task.cancel()
        await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        assert seen <= most
        for _ in range(most):  # all places are there again
            assert await asyncio.wait_for(slots.take(most), 1)

    asyncio.run(body())


async def test_c21_behind_attempts_that_were_given_up_nobody_waits_for_ever():
    slots = Slots()
    await slots.take(1)
    waiting = asyncio.create_task(slots.take(1, patience_s=0.02))
    await asyncio.sleep(0.05)
    assert not waiting.done()  # the attempt is alive: its turn will come
    slots.abandon()
    assert await waiting is False
    slots.ended(abandoned=True)
    assert await slots.take(1)


def test_c21_places_hold_over_event_loops():
    slots, lock, running, most_seen = Slots(), threading.Lock(), [0], [0]

    async def work():
        await slots.take(2)
        with lock:
            running[0] += 1
            most_seen[0] = max(most_seen[0], running[0])
        await asyncio.sleep(0.002)
        with lock:
            running[0] -= 1
        slots.give_back()

    async def many():
        await asyncio.gather(*(work() for _ in range(10)))

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most_seen == [2]


async def test_a_loop_that_is_gone_takes_no_place_with_it():
    slots = Slots()
    await slots.take(1)

    def leave():
        loop = asyncio.new_event_loop()
        task = loop.create_task(slots.take(1))
        loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=leave)
    thread.start()
    await asyncio.to_thread(thread.join)
    slots.give_back()
    assert await asyncio.wait_for(slots.take(1), 1)


@pytest.mark.parametrize(
    ("text", "most", "window_s"),
    [
        ("10/min", 10, 60),
        ("5/s", 5, 1),
        ("200 / h", 200, 3600),
        ("3/10s", 3, 10),
        ("1/0.5s", 1, 0.5),
        ("9/day", 9, 86400),
    ],
)
def test_c21_a_rate_is_a_number_and_a_time(text, most, window_s):
    rate = Rate.of(text)
    assert (rate.most, rate.window_s) == (most, window_s)


@pytest.mark.parametrize("text", ["", "10", "0/min", "10/week", "-1/s", "1/0s", "many/s", "1.5/s", None, 10])
def test_c21_what_is_no_rate_is_refused_when_the_tool_is_defined(text):
    assert not Rate.is_one(text)
    if text is not None:
        with pytest.raises(ToolDefinitionError, match="10/min"):
            tool(name="x", description="X.", rate=text)(lambda: None)
    with pytest.raises(ToolDefinitionError, match="max_parallel"):
        tool(name="x", description="X.", max_parallel=0)(lambda: None)


@settings(max_examples=15)
@given(
    st.integers(1, 4),
    st.integers(1, 9),
    st.lists(st.sampled_from([0.0, 0.004, 0.013]), min_size=9, max_size=9),
)
def test_c21_no_window_holds_more_than_the_rate(most, calls, delays):
    async def body():
        rate, begun = Rate(most, 0.03), []

        async def work(delay):
            await asyncio.sleep(delay)
            assert await rate.wait(5)
            await asyncio.sleep(delay)  # a place was not free at once
            while left := rate.begin():  # noqa: ASYNC110 - it is told how long
                await asyncio.sleep(left)
            begun.append(time.monotonic())

        await asyncio.gather(*(work(delay) for delay in delays[:calls]))
        for first, last in zip(begun, begun[most:], strict=False):
            assert last - first >= 0.0295

    asyncio.run(body())


async def test_c21_who_cannot_have_a_turn_in_time_is_told_at_once_and_takes_none():
    rate = Rate(1, 60)
    assert await rate.wait(0)
    began = time.monotonic()
    assert not await rate.wait(30)
    assert time.monotonic() - began < 0.1
    waiting = asyncio.create_task(rate.wait(61))
    await asyncio.sleep(0)
    assert not await rate.wait(61)  # that turn is taken
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    again = asyncio.create_task(rate.wait(61))  # and free again
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)
