"""A worker that is told to go while specialists are at work hands back the whole family, and another one finishes it."""

import asyncio
from pathlib import Path

import pytest
from runs.test_worker import Process

from adjourn.checkpoints import journal
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel

pytestmark = pytest.mark.in_process  # it has workers of its own

APP = '''
import asyncio
from pathlib import Path
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from adjourn.graph import Specialist, build_supervisor, from_langgraph
from adjourn.graph.owning import Owner
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

drain = Owner.drain

async def going(self, *args):
    asyncio.get_running_loop().call_soon(Path("going").touch)  # when it has been told
    return await drain(self, *args)

Owner.drain = going

def act(what):
    with Path("effects").open("a") as out:
        out.write(f"{what}\\n")

async def held(what):
    act(what)
    while not Path("go").exists():
        await asyncio.sleep(0.02)

@tool(effect="read", timeout_s=60)
async def look() -> str:
    """Look, slowly."""
    await held("look")
    return "seen"

@tool(effect="write")
async def note() -> str:
    """Note."""
    act("note")
    return "noted"

async def first(state):
    await held("first")
    return {"messages": [AIMessage("first")]}

async def last(state):
    act("last")
    return {"messages": [AIMessage("own done")]}

def own():
    builder = StateGraph(MessagesState)
    builder.add_node("first", first)
    builder.add_node("last", last)
    builder.add_edge(START, "first")
    builder.add_edge("first", "last")
    builder.add_edge("last", END)
    return from_langgraph(builder.compile(name="own"), effect="read")

def scripted(*turns):
    return ScriptedModel(turns=list(turns), by_history=True)

def hand(name, id):
    return call("delegate", {"specialist": name, "task": "go"}, id=id)

def build():
    deep = Specialist(
        name="deep", about="looks", tools=[look, note],
        model=scripted(says("", call("look", {}, id="l")), says("", call("note", {}, id="n")), "deep done"),
    )
    middle = build_supervisor(scripted(says("", hand("deep", "d")), "middle done"), [deep], name="middle")
    team = [
        Specialist(name="middle", about="hands on", graph=middle),
        Specialist(name="own", about="is no graph of ours", graph=own()),
    ]
    return build_supervisor(scripted(says("", hand("middle", "d1"), hand("own", "d2")), "all done"), team, name="office")
'''


async def test_c82_c91_on_sigterm_a_worker_hands_back_a_supervisor_with_all_that_works_below_it(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    effects = tmp_path / "effects"
    graph = build_react(ScriptedModel(turns=[]), name="office")
    with Runner(graph, f"sqlite:///{tmp_path}/adjourn.db", detached=True) as desk:
        run = await desk.start("go")
        worker = Process(tmp_path)
        while sorted(done(effects)) != ["first", "look"]:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        ending = asyncio.create_task(asyncio.to_thread(worker.end))
        while not (tmp_path / "going").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        (tmp_path / "go").touch()  # the calls and nodes in hand end
        assert (await ending)["left"] == []
        family = {one.path: one for one in await rows(desk)}
        assert sorted(family) == ["", "middle", "middle/deep", "own"]
        assert {(one.status, one.lease_owner, one.deaths) for one in family.values()} <= {
            ("running", None, 0),
            ("finished", None, 0),
        }
        assert family[""].status == "running"
        second = Process(tmp_path)
        async for _ in desk.follow(run.id):
            pass
        over = await desk.get(run.id)
        assert second.end() == {"taken": 1, "left": []}
    assert (over.status, over.answer, over.row.deaths) == ("finished", "all done", 0)
    assert sorted(done(effects)) == ["first", "last", "look", "note"]  # each once


def done(effects: Path) -> list[str]:
    return effects.read_text().split() if effects.exists() else []


async def rows(desk: Runner) -> list:
    return await desk.database.aread(lambda c: journal.list_runs(c, limit=None))
