"""The loop behind `start_sync` and the others: where it would wait for ever, it says so (C-59, C-62)."""

import _thread
import asyncio
import contextlib
import subprocess
import sys
import threading
from typing import Any

import pytest

from adjourn.checkpoints.errors import StoreError, UsageError
from adjourn.graph import Runner, build_react
from adjourn.graph import background as background_module
from adjourn.graph.background import Background
from adjourn.nodes import ScriptedModel


def test_on_its_own_loop_it_is_refused(house):
    runner = house.runner(["done"])
    said: list[str] = []

    def listener(event: Any) -> None:
        try:
            runner.cancel_sync(event.run_id)
        except UsageError as error:
            said.append(str(error))

    assert runner.start_sync("go", on_event=listener).status == "finished"
    assert said and all("await the method without `_sync`" in one for one in said)


def test_c62_ctrl_c_waits_for_what_was_called_and_for_nothing_else():
    background, ended = Background(), threading.Event()
    beside = threading.Thread(target=lambda: background.run(for_long(ended)))

    async def interrupted() -> None:
        _thread.interrupt_main()
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("wrote its end")

    seen: list[str] = []
    beside.start()
    with pytest.raises(KeyboardInterrupt):
        background.run(interrupted())
    assert seen == ["wrote its end"]
    assert beside.is_alive()  # another run of this runner goes on
    ended.set()
    beside.join(60)
    background.close()


def test_c62_ctrl_c_in_the_moment_in_which_work_is_handed_over_cancels_it(monkeypatch):
    handed_over, seen = asyncio.run_coroutine_threadsafe, []

    def interrupted(*given: Any) -> Any:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", handed_over)
        handed_over(*given)
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("wrote its end")

    background = Background()
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.run(work())
    assert seen == ["wrote its end"]
    background.close()


async def for_long(ended: threading.Event) -> None:
    while not ended.is_set():  # noqa: ASYNC110 - set by another thread
        await asyncio.sleep(0.01)


def test_closing_leaves_behind_what_does_not_let_itself_be_cancelled(monkeypatch, caplog):
    monkeypatch.setattr(background_module, "CLOSE_S", 0.05)
    background = Background()

    async def stubborn() -> None:
        asyncio.current_task().set_name("stubborn")  # type: ignore[union-attr]
        while True:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            tries.append(1)

    def caller() -> None:
        with pytest.raises(UsageError, match="was closed meanwhile"):
            background.run(stubborn())
        told.append(1)

    begun = threading.Event()
    tries: list[int] = []
    told: list[int] = []
    waits = threading.Thread(target=caller, daemon=True)
    waits.start()
    begun.wait(60)
    background.close()
    waits.join(60)
    assert (tries, told) == ([1], [1])
    assert "left behind: stubborn" in caplog.text


def test_closing_on_the_loop_itself_is_refused_in_place_of_waiting_for_ever():
    background = Background()

    async def close() -> None:
        background.close()

    with pytest.raises(UsageError, match="own event loop"):
        background.run(close())
    background.close()


FORKED = """
import asyncio, os, sys
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel

def runner():
    return Runner(build_react(ScriptedModel(turns=["done"] * 3, check=False), []), {url!r})

def told(work):
    try:
        return work().status
    except Exception as error:
        return str(error)

mine, later = runner(), runner()
mine.start_sync("go")
child = os.fork()
if child == 0:
    print(told(lambda: later.start_sync("go")), later.owner.endswith(f":{{os.getpid()}}"))
    later.close()
    print(told(lambda: mine.start_sync("go")))
    print(told(lambda: asyncio.run(mine.start("go"))))
    mine.close()
    with runner() as own:
        print(told(lambda: own.start_sync("go")))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
print(told(lambda: mine.start_sync("go")))
mine.close()
"""


def test_in_a_forked_process_a_runner_that_was_used_before_says_so_and_others_work(url):
    """Servers and workers load an application first and fork then: what was made and not used yet is theirs."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED.format(url=url)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    unused, refused, refused_too, of_its_own, of_the_parent = done.stdout.splitlines()
    assert unused == "finished True"
    assert "before the process was forked" in refused
    assert "before the process was forked" in refused_too
    assert (of_its_own, of_the_parent) == ("finished", "finished")


@pytest.mark.parametrize("lease_s", [0, -1, float("nan"), float("inf"), "x", None])
def test_a_lease_that_is_none_is_refused(url, lease_s):
    with pytest.raises(UsageError, match=r"lease_s is a number of seconds from 0.05"):
        Runner(build_react(ScriptedModel(turns=[]), []), url, lease_s=lease_s)


async def test_who_is_told_that_a_run_has_begun_and_fails_leaves_it_to_its_owner(house, caplog):
    def told(row: Any) -> None:
        raise RuntimeError("of the one who was told")

    run = await house.runner(["done"]).start("go", on_begun=told)
    assert run.status == "finished"
    assert "`on_begun` failed" in caplog.text


async def test_a_runner_is_opened_by_async_with_and_closed_behind_it(url):
    async with Runner(build_react(ScriptedModel(turns=["done"]), []), url) as runner:
        assert (await runner.start("go")).status == "finished"
    with pytest.raises(StoreError, match="was closed"):
        await runner.start("go")
