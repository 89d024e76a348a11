"""What happens when something goes wrong, side by side: LangChain's `create_agent` and Adjourn, on the same model and tools.

    make faults                                the table
    python tests/bench/faults.py NAME ...      some of its rows
    python tests/bench/faults.py --docs        the table in docs/compared.md

Each row is a small script that prints what was seen. Both sides keep their state in a SQLite file, in `sync` durability.
The model is scripted and as strict as a provider: a request with an unanswered call is refused. Rows where both are
fine stay in the table.
"""

import asyncio
import json
import logging
import multiprocessing
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `bench` is, for the tests and as a program

from bench.compared import write
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says

GO: Any = {"messages": [{"role": "user", "content": "go"}]}
T: Any = {"configurable": {"thread_id": "t"}}
FINE = "fine: "


def model(*turns: Any) -> ScriptedModel:
    """A model whose turn follows from its history."""
    return ScriptedModel(turns=list(turns), by_history=True)


@asynccontextmanager
async def peer(folder: Path, turns: list[Any], tools: list[Any], ask: tuple[str, ...] = ()) -> Any:
    """LangChain's agent over a SQLite file; `ask`: tools that need approval."""
    middleware = [HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(ask, True))] if ask else []
    async with AsyncSqliteSaver.from_conn_string(str(folder / "peer.db")) as saver:
        made = model(*turns)
        agent = create_agent(made, tools, checkpointer=saver, middleware=middleware)
        agent.scripted = made  # type: ignore[attr-defined]
        yield agent


@asynccontextmanager
async def ours(folder: Path, turns: list[Any], tools: list[Any]) -> Any:
    """A runner over a SQLite file."""
    made = model(*turns)
    with Runner(build_react(made, tools), f"sqlite:///{folder / 'ours.db'}") as runner:
        runner.scripted = made  # type: ignore[attr-defined]
        yield runner


async def said(work: Awaitable[Any]) -> str:
    """How an agent's run ended: its last message, or what it raised."""
    try:
        result = await work
    except Exception as error:
        return f"the run fails: {type(error).__name__}: {str(error).partition(chr(10))[0][:90]}"
    return str(result["messages"][-1].text)


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that goes wrong, and what each side makes of it."""

    name: str
    what: str
    peer: Callable[[Path], Awaitable[str]]
    ours: Callable[[Path], Awaitable[str]]


ROWS: list[Row] = []


def row(name: str, what: str) -> Callable[[Callable[[], tuple[Any, Any]]], None]:
    """Registers what a function gives as the two sides of a row."""

    def add(make: Callable[[], tuple[Any, Any]]) -> None:
        ROWS.append(Row(name, what, *make()))

    return add


@row("raises", "a tool raises")
def _raises() -> tuple[Any, Any]:
    def look() -> str:
        """Look."""
        raise RuntimeError("db down")

    turns = [says("", call("look", {}, id="a")), "I could not look."]

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [look]) as agent:
            return await said(agent.ainvoke(GO, T, durability="sync"))

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="read")(look)]) as runner:
            run = await runner.start("go")
            return f"{FINE}the model is told ({run.calls[0].error_code}), and answers: {run.answer}"

    return theirs, mine


@row("hangs", "a tool does not come back (limit 0.5 s)")
def _hangs() -> tuple[Any, Any]:
    async def look() -> str:
        """Look."""
        await asyncio.sleep(30)
        return "late"

    turns = [says("", call("look", {}, id="a")), "It takes too long."]

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [look]) as agent:
            try:
                return await asyncio.wait_for(said(agent.ainvoke(GO, T, durability="sync")), 3)
            except TimeoutError:
                return "no limit: it still waits after 3 s"

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="read", timeout_s=0.5, retries=0)(look)]) as runner:
            run = await runner.start("go")
            return f"{FINE}{run.calls[0].error_code}, and the model answers: {run.answer}"

    return theirs, mine


@row("long", "a tool returns 3 MB")
def _long() -> tuple[Any, Any]:
    def look() -> str:
        """Look."""
        return "x" * 3_000_000

    turns = [says("", call("look", {}, id="a")), "Long."]

    def sent(made: ScriptedModel) -> int:
        return sum(len(str(one.text)) for one in made.requests[-1])

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [look]) as agent:
            await said(agent.ainvoke(GO, T, durability="sync"))
            return f"the next request holds {sent(agent.scripted):,} characters"

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="read")(look)]) as runner:
            await runner.start("go")
            return f"{FINE}cut, said so; the next request holds {sent(runner.scripted):,} characters"

    return theirs, mine


@row("cut", "a call's arguments are cut off in the stream")
def _cut() -> tuple[Any, Any]:
    got: list[str] = []

    def restart(env: str) -> str:
        """Restart."""
        got.append(env)
        return "restarted"

    half = says("", call("restart", '{"env": "pro', id="a"), finish="length")
    turns = [half, "Again, then."]

    async def theirs(folder: Path) -> str:
        got.clear()
        async with peer(folder, turns, [restart]) as agent:

            async def streamed() -> Any:
                async for _ in agent.astream(GO, T, durability="sync", stream_mode="messages"):
                    pass
                return (await agent.aget_state(T)).values

            end = await said(streamed())
        return f"it ran with env={got[0]!r}" if got else f"it did not run; {end}"

    async def mine(folder: Path) -> str:
        got.clear()
        async with ours(folder, turns, [tool(effect="write")(restart)]) as runner:
            run = await runner.start("go")
            return (
                f"{FINE}it did not run ({run.calls[0].error_code})" if not got else f"it ran with {got[0]!r}"
            )

    return theirs, mine


@row("unknown", "the model calls a tool that is not there")
def _unknown() -> tuple[Any, Any]:
    def look() -> str:
        """Look."""
        return "seen"

    turns = [says("", call("lok", {}, id="a")), "I see."]

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [look]) as agent:
            return (
                f"{FINE}the model is told, and answers: {await said(agent.ainvoke(GO, T, durability='sync'))}"
            )

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="read")(look)]) as runner:
            return f"{FINE}the model is told, and answers: {(await runner.start('go')).answer}"

    return theirs, mine


@row("twice", "two answers to one question come at once")
def _twice() -> tuple[Any, Any]:
    done: list[str] = []

    async def send() -> str:
        """Send."""
        await asyncio.sleep(0.2)
        done.append("sent")
        return "sent"

    turns = [says("", call("send", {}, id="a")), "Sent."]

    async def theirs(folder: Path) -> str:
        done.clear()
        yes = Command(resume={"decisions": [{"type": "approve"}]})
        async with (
            peer(folder, turns, [send], ask=("send",)) as one,
            peer(folder, turns, [send], ask=("send",)) as two,
        ):
            await one.ainvoke(GO, T, durability="sync")
            await asyncio.gather(*(said(each.ainvoke(yes, T, durability="sync")) for each in (one, two)))
        return f"the write ran {len(done)} times" if len(done) != 1 else f"{FINE}once"

    async def mine(folder: Path) -> str:
        done.clear()
        risky = tool(effect="write", confirm="Send?")(send)
        async with ours(folder, turns, [risky]) as one, ours(folder, turns, [risky]) as two:
            run = await one.start("go")
            answer = {run.interrupts[0].id: approve()}
            ends = await asyncio.gather(
                *(each.resume(run.id, answer) for each in (one, two)), return_exceptions=True
            )
        lost = [type(end).__name__ for end in ends if isinstance(end, Exception)]
        return f"{FINE}it ran {len(done)} time; the other got {lost[0]}"

    return theirs, mine


@row("ignored", "a question is open, and the user just says something else")
def _ignored() -> tuple[Any, Any]:
    def send() -> str:
        """Send."""
        return "sent"

    turns = [says("", call("send", {}, id="a")), "Well then.", "Well then."]

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [send], ask=("send",)) as agent:
            await agent.ainvoke(GO, T, durability="sync")
            ends = [await said(agent.ainvoke(GO, T, durability="sync")) for _ in range(2)]
        return f"wedged: {ends[-1]}" if "fails" in ends[-1] else f"{FINE}{ends[-1]}"

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="write", confirm="Send?")(send)]) as runner:
            await runner.start("go", thread_id="t")
            return f"{FINE}closed as dismissed; the model answers: {(await runner.start('no', thread_id='t')).answer}"

    return theirs, mine


@row("cancel", "the run is cancelled while a tool works, then the user goes on")
def _cancel() -> tuple[Any, Any]:
    entered = asyncio.Event()

    async def look() -> str:
        """Look."""
        entered.set()
        await asyncio.sleep(30)
        return "late"

    turns = [says("", call("look", {}, id="a")), "As you like.", "As you like."]

    async def theirs(folder: Path) -> str:
        entered.clear()
        async with peer(folder, turns, [look]) as agent:
            running = asyncio.create_task(agent.ainvoke(GO, T, durability="sync"))
            await entered.wait()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            end = await said(agent.ainvoke(GO, T, durability="sync"))
        return f"wedged: {end}" if "fails" in end else f"{FINE}{end}"

    async def mine(folder: Path) -> str:
        entered.clear()
        async with ours(folder, turns, [tool(effect="read")(look)]) as runner:
            running = asyncio.create_task(runner.start("go", thread_id="t"))
            await entered.wait()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            return f"{FINE}the model answers: {(await runner.start('more', thread_id='t')).answer}"

    return theirs, mine


@row("wrong", "a wrong answer to a question, then the right one")
def _wrong() -> tuple[Any, Any]:
    def send() -> str:
        """Send."""
        return "sent"

    turns = [says("", call("send", {}, id="a")), "Sent."]

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [send], ask=("send",)) as agent:
            await agent.ainvoke(GO, T, durability="sync")
            await said(agent.ainvoke(Command(resume={"decisions": [{"type": "yes"}]}), T, durability="sync"))
            right = Command(resume={"decisions": [{"type": "approve"}]})
            end = await said(agent.ainvoke(right, T, durability="sync"))
        return f"the wrong one stays: {end}" if "fails" in end else f"{FINE}{end}"

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="write", confirm="Send?")(send)]) as runner:
            run = await runner.start("go")
            id_ = run.interrupts[0].id
            refused = ""
            try:
                await runner.resume(run.id, {id_: {"action": "yes"}})
            except Exception as error:
                refused = type(error).__name__
            return f"{FINE}{refused}, then: {(await runner.resume(run.id, {id_: approve()})).answer}"

    return theirs, mine


@row("sibling", "one call asks by interrupt, its sibling is a write that is done")
def _sibling() -> tuple[Any, Any]:
    from langgraph.types import interrupt

    from adjourn.nodes import ToolContext, confirm_risky

    done: list[str] = []

    def note() -> str:
        """Note."""
        done.append("noted")
        return "noted"

    def send() -> str:
        """Send."""
        return str(interrupt("Send?"))

    def ask(context: ToolContext) -> Any:
        """Send."""
        return "sent" if context.approved else confirm_risky("Send?")

    turns = [says("", call("note", {}, id="a"), call("send", {}, id="b")), "Done."]

    async def theirs(folder: Path) -> str:
        done.clear()
        async with peer(folder, turns, [note, send]) as agent:
            await said(agent.ainvoke(GO, T, durability="sync"))
            await said(agent.ainvoke(Command(resume="yes"), T, durability="sync"))
        return f"{FINE}it ran once" if len(done) == 1 else f"it ran {len(done)} times"

    async def mine(folder: Path) -> str:
        done.clear()
        tools = [tool(effect="write")(note), tool(name="send", effect="write")(ask)]
        async with ours(folder, turns, tools) as runner:
            run = await runner.start("go")
            await runner.resume(run.id, {run.interrupts[0].id: approve()})
        return f"{FINE}it ran once" if len(done) == 1 else f"it ran {len(done)} times"

    return theirs, mine


def _die(folder: Path) -> Any:
    """A write that happens, and takes its process with it the first time."""

    def send() -> str:
        """Send."""
        with (folder / "effects").open("a") as out:
            out.write("sent\n")
        if (folder / "effects").read_text() == "sent\n":
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        return "sent"

    return send


DYING = [says("", call("send", {}, id="a")), "Sent."]


def _peer_process(folder: str, again: bool) -> None:
    with SqliteSaver.from_conn_string(f"{folder}/peer.db") as saver:
        agent = create_agent(model(*DYING), [_die(Path(folder))], checkpointer=saver)
        agent.invoke(None if again else GO, T, durability="sync")


def _our_process(folder: str, again: bool) -> None:
    graph = build_react(model(*DYING), [tool(effect="write")(_die(Path(folder)))])
    with Runner(graph, f"sqlite:///{folder}/ours.db", lease_s=0.3) as runner:
        if not again:
            runner.start_sync("go", run_id="run_k")
        run = runner.recover_sync("run_k") if again else runner.get_sync("run_k")
        Path(folder, "asked").write_text(run.interrupts[0].type if run.interrupts else "")


@row("killed", "the process is killed in the middle of a write, and another one goes on")
def _killed() -> tuple[Any, Any]:
    async def side(folder: Path, target: Any) -> int:
        context = multiprocessing.get_context("spawn")
        for again in (False, True):
            process = context.Process(target=target, args=(str(folder), again))
            process.start()
            await asyncio.to_thread(process.join, 60)
            await asyncio.sleep(0.5)  # the lease of the dead one
        return (folder / "effects").read_text().count("sent")

    async def theirs(folder: Path) -> str:
        times = await side(folder, _peer_process)
        return f"the write happened {times} times, and nobody was told" if times > 1 else f"{FINE}once"

    async def mine(folder: Path) -> str:
        times = await side(folder, _our_process)
        return f"{FINE}it happened {times} time; a person is asked ({(folder / 'asked').read_text()})"

    return theirs, mine


@row("loop", "the model makes the same call for ever (watched for 40 calls)")
def _loop() -> tuple[Any, Any]:
    done: list[int] = []

    def look(query: str) -> str:
        """Look."""
        done.append(1)
        return "seen"

    turns = [says("", call("look", {"query": "x"}, id=f"c{n}")) for n in range(40)]

    async def theirs(folder: Path) -> str:
        done.clear()
        async with peer(folder, turns, [look]) as agent:
            await said(agent.ainvoke(GO, T, durability="sync"))
        return f"it ran {len(done)} times, and would go on (limit: 10,007 supersteps)"

    async def mine(folder: Path) -> str:
        done.clear()
        async with ours(folder, turns, [tool(effect="read")(look)]) as runner:
            run = await runner.start("go")
        return f"{FINE}{run.stop_reason} after {run.row.steps} steps; it ran {len(done)} time"

    return theirs, mine


@row("private", "a result holds an e-mail address and a key")
def _private() -> tuple[Any, Any]:
    def look() -> str:
        """Look."""
        return "write to li@corp.com, api_key=sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"

    turns = [says("", call("look", {}, id="a")), "Noted."]

    def leaked(made: ScriptedModel, file: Path) -> str:
        told = str(made.requests[-1])
        stored = b"".join(one.read_bytes() for one in file.parent.glob(f"{file.name}*"))
        where = [
            name
            for name, is_there in (
                ("the model", "li@corp.com" in told),
                ("the file", b"li@corp.com" in stored),
            )
            if is_there
        ]
        return (
            f"it is in {' and '.join(where)}" if where else f"{FINE}neither the model nor the file holds it"
        )

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, [look]) as agent:
            await said(agent.ainvoke(GO, T, durability="sync"))
            return leaked(agent.scripted, folder / "peer.db")

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, [tool(effect="read")(look)]) as runner:
            await runner.start("go")
            return leaked(runner.scripted, folder / "ours.db")

    return theirs, mine


@row("readable", "somebody opens the file with sqlite3 and looks for the answer")
def _readable() -> tuple[Any, Any]:
    turns = ["The answer is forty-two."]

    def found(file: Path) -> str:
        connection = sqlite3.connect(file)
        names = [
            one[0]
            for one in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        ]
        for name in names:
            for line in connection.execute(f'SELECT * FROM "{name}"'):
                if any(isinstance(cell, str) and "forty-two" in cell for cell in line):
                    connection.close()
                    return f"{FINE}it is text"
        connection.close()
        return "it is in a msgpack blob"

    async def theirs(folder: Path) -> str:
        async with peer(folder, turns, []) as agent:
            await said(agent.ainvoke(GO, T, durability="sync"))
        return found(folder / "peer.db")

    async def mine(folder: Path) -> str:
        async with ours(folder, turns, []) as runner:
            await runner.start("go")
        return found(folder / "ours.db")

    return theirs, mine


async def seen(one: Row, side: Callable[[Path], Awaitable[str]]) -> str:
    """What a side shows, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return await side(Path(folder))
        except Exception as error:
            return f"{one.name} broke: {type(error).__name__}: {error}"


async def main(names: list[str]) -> int:
    """Print the table; as JSON lines with `--json`. Gives the exit status: 1 when ours is not fine somewhere."""
    as_json, wanted = "--json" in names, [name for name in names if not name.startswith("--")]
    lines = ["| when | `create_agent` | Adjourn |", "|---|---|---|"]
    bad = 0
    if not as_json:
        print("\n".join(lines), flush=True)
    for one in ROWS:
        if wanted and one.name not in wanted:
            continue
        theirs, mine = await seen(one, one.peer), await seen(one, one.ours)
        bad += not mine.startswith(FINE)
        lines.append(f"| {one.what} | {theirs} | {mine} |")
        if as_json:
            print(json.dumps({"row": one.name, "when": one.what, "peer": theirs, "ours": mine}), flush=True)
        else:
            print(lines[-1], flush=True)
    if "--docs" in names and not wanted:
        write("faults", "make faults", lines)
    return min(bad, 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.exit(asyncio.run(main(sys.argv[1:])))
