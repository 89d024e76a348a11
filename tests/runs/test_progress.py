"""What a tool tells of its progress: in order, before its outcome, at most so often, in every process that watches."""

import asyncio
import threading
from typing import TypedDict

import pytest
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from runs.test_cli_commands import adjourn

from adjourn.checkpoints import journal
from adjourn.checkpoints.errors import RunBusy
from adjourn.checkpoints.events import ToolProgress
from adjourn.graph import Runner, build_react, from_langgraph
from adjourn.nodes import ScriptedModel, ToolContext, progress, tool
from adjourn.nodes.scripted import call, says

TURNS = [says("", call("long", {}, id="c")), "done"]

assert adjourn  # the fixture


def words(events):
    return [(one.message, one.share) for one in events if isinstance(one, ToolProgress)]


@pytest.fixture
def often(monkeypatch):
    """Every word is passed on."""
    monkeypatch.setattr(progress.Progress.__init__, "__defaults__", (0.0,))


def built(function, **settings):
    return build_react(
        ScriptedModel(turns=list(TURNS), by_history=True), [tool(effect="read", **settings)(function)]
    )


async def when_free(runner, run_id, hear):
    """Recover the run as soon as its lease has run out."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await runner.recover(run_id, on_event=hear)
            except RunBusy:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_words_stand_between_the_call_and_its_result(url, often, kind):
    heard = asyncio.Queue()

    async def long(run: ToolContext) -> str:
        """Take long."""
        for page in (1, 2):
            run.progress(f"page {page} of 2, mail ops@corp.com", page / 2)
            await heard.get()  # it was told while the tool works
        return "done"

    loop = asyncio.get_running_loop()

    def in_a_thread(run: ToolContext) -> str:
        """Take long."""
        for page in (1, 2):
            run.progress(f"page {page} of 2, mail ops@corp.com", page / 2)
            asyncio.run_coroutine_threadsafe(heard.get(), loop).result(10)
        return "done"

    in_a_thread.__name__ = "long"
    told = []

    def hear(event):
        told.append(event)
        if isinstance(event, ToolProgress):
            heard.put_nowait(event)

    with Runner(built(long if kind == "coroutine" else in_a_thread), url) as runner:
        run = await runner.start("go", on_event=hear)
        stored = await runner.events(run.id)
    assert [one for one in told if one.stored] == stored
    around = [one.word for one in stored]
    assert around[around.index("tool_call") : around.index("tool_result") + 1] == [
        "tool_call",
        "tool_progress",
        "tool_progress",
        "tool_result",
    ]
    assert [share for _, share in words(stored)] == [0.5, 1.0]
    assert words(stored)[0][0].startswith("page 1 of 2")
    assert "corp.com" not in words(stored)[0][0]  # masked, like all that leaves a tool


async def test_of_many_words_the_first_and_the_newest_are_passed_on():
    told, done = [], asyncio.Event()

    def tell(message, share):
        told.append(message)
        if message == "999":
            done.set()

    reporter = progress.Progress(tell, every_s=0.1)
    threading.Thread(target=lambda: [reporter(number) for number in range(1000)]).start()
    await asyncio.wait_for(done.wait(), 10)
    assert len(told) <= 2


async def test_who_goes_on_after_its_end_is_heard_no_more():
    told = []
    reporter = progress.Progress(lambda *word: told.append(word), every_s=0.0)
    reporter("a", 7)
    reporter.close()
    reporter("b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == []


async def test_what_is_no_share_and_no_text_does_no_harm():
    class Hostile:
        def __str__(self):
            raise RuntimeError("no")

    told = []
    for message, share in ((Hostile(), float("nan")), ("x" * 900, 7), (3, True), ("", -1)):
        done = asyncio.get_running_loop().create_future()
        progress.Progress(lambda *word, done=done: done.set_result(word))(message, share)
        told.append(await done)
    assert told == [("<Hostile>", None), ("x" * 500, 1.0), ("3", None), ("", 0.0)]


async def test_what_a_killed_attempt_told_stays_and_the_next_one_counts_on(url, often):
    entered = asyncio.Event()
    lets_go = asyncio.Event()

    async def long(run: ToolContext) -> str:
        """Take long."""
        run.progress("at work")
        await (entered if lets_go.is_set() else asyncio.Event()).wait()
        return "done"

    dying = Runner(built(long, timeout_s=None), url, lease_s=0.3)
    run_id = asyncio.get_running_loop().create_future()

    def hear(event):
        if isinstance(event, ToolProgress):
            entered.set()

    begun = asyncio.create_task(
        dying.start("go", on_event=hear, on_begun=lambda row: run_id.set_result(row.id))
    )
    await entered.wait()
    mine = await run_id
    # as a killed process leaves it: nobody renews the lease, and nothing more is written
    await dying.drain(0)
    for one in asyncio.all_tasks() - {asyncio.current_task()}:
        one.cancel()
    await asyncio.wait({begun})
    entered.clear()
    lets_go.set()
    with Runner(built(long, timeout_s=None), url, lease_s=0.3) as runner:
        before = await runner.database.aread(lambda c: journal.read_run(c, mine))
        # a word takes a run no further: an owner that dies there again and again is seen
        others = [one for one in await runner.events(mine) if not isinstance(one, ToolProgress)]
        assert before.last_event - before.claimed_event == len(others)
        run = await when_free(runner, mine, hear)
        stored = await runner.events(mine)
    assert run.answer == "done"
    assert [one.part for one in stored if isinstance(one, ToolProgress)] == [1, 2]
    dying.close()


async def test_what_nodes_of_ones_own_write_to_the_stream_is_told(url, often):
    class State(TypedDict, total=False):
        said: str

    def node(state: State) -> State:
        get_stream_writer()({"rows": 40})
        get_stream_writer()("half")
        return {"said": "done"}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = from_langgraph(
        builder.compile(name="own"), input=lambda _: {}, output=lambda values: values["said"]
    )
    with Runner(graph, url) as runner:
        run = await runner.start("go")
        stored = await runner.events(run.id)
    assert run.answer == "done"
    assert words(stored)[-1] == ("half", None)
    assert {one.name for one in stored if isinstance(one, ToolProgress)} == {"own"}


APP = '''
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, ToolContext, tool
from adjourn.nodes.scripted import call, says
import threading

heard = threading.Event()

@tool(effect="read")
def long(run: ToolContext) -> str:
    """Take long."""
    run.progress("page 1 of 3", 1 / 3)
    with Runner(graph) as runner:
        while "tool_progress" not in [one.word for one in runner.events_sync(run.run_id)]:
            heard.wait(0.01)
    return "done"

graph = build_react(ScriptedModel(turns=[says("", call("long", {}, id="c")), "done"]), [long])
'''


def test_it_is_on_the_screen_while_it_happens_and_in_the_list_of_events(adjourn, tmp_path, monkeypatch):
    (tmp_path / "prog.py").write_text(APP)
    monkeypatch.setenv("ADJOURN_APP", "prog.py:graph")
    printed = adjourn("run", "go")
    assert "… long 33%  [c]  page 1 of 3\n" in printed.out
    listed = adjourn("events", adjourn("runs", "--json").json()[0]["id"]).out
    assert "tool_progress" in listed
    assert "page 1 of 3" in listed
