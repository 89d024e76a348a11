"""The rows of the README's "What happens when ...": each says what the user finds there, whole."""

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from runs.observed import told

from adjourn.nodes import RateLimited, ScriptedModel, tool
from adjourn.nodes.scripted import call, says


async def test_c29_a_tool_raises(house):
    """Its class decides the code, the model is told in one sentence, the ledger keeps class, text and stack."""

    def inner():
        raise ConnectionError("db-7 hung up at /srv/app/db.py")

    @tool(effect="read", retries=0)
    def look() -> str:
        """Look."""
        inner()
        return ""

    @tool(effect="read")
    def read() -> str:
        """Read."""
        raise KeyError("no such page")

    turn = says("", call("look", {}, id="l"), call("read", {}, id="r"))
    run = await house.runner([turn, "I could not look."], tools=[look, read]).start("go")
    assert [told(house, one)["errorCode"] for one in "lr"] == ["unavailable", "not_found"]
    sentence = told(house, "l")["message"]
    assert "look" in sentence
    assert not {"\n", "/srv", "Traceback"} & {
        part for part in ("\n", "/srv", "Traceback") if part in sentence
    }
    kept = run.calls[0].error
    assert (kept["class"], kept["text"]) == ("builtins.ConnectionError", "db-7 hung up at /srv/app/db.py")
    assert "in inner" in kept["stack"]
    assert (run.status, run.answer) == ("finished", "I could not look.")


async def test_c28_a_tool_does_not_come_back(house):
    """A read is answered `timeout` and its siblings go on; a write is `unknown`, never repeated by itself."""
    hold, entered = threading.Event(), []

    @tool(effect="read", timeout_s=0.1, retries=0)
    def stuck() -> str:
        """Hang."""
        hold.wait(20)
        return "late"

    @tool(effect="read")
    async def quick() -> str:
        """Be quick."""
        return "quick"

    @tool(effect="write", timeout_s=0.1)
    async def pay() -> str:
        """Pay, and hang."""
        entered.append("pay")
        await asyncio.sleep(20)
        return "late"

    turn = says("", call("stuck", {}, id="s"), call("quick", {}, id="q"), call("pay", {}, id="p"))
    began = time.monotonic()
    try:
        run = await house.runner([turn, "ok"], tools=[stuck, quick, pay]).start("go")
    finally:
        hold.set()
    assert time.monotonic() - began < 10
    assert [one.outcome for one in run.calls] == ["failed", "ok", "unknown"]
    assert (told(house, "s")["errorCode"], told(house, "p")["errorCode"]) == ("timeout", "outcome_unknown")
    assert entered == ["pay"]


async def test_c26_the_model_names_no_tool_of_yours(house):
    """The call is answered with the names that exist."""

    @tool(effect="read")
    def search_docs() -> str:
        """Search."""
        return ""

    turn = says("", call("serach_docs", {}, id="a"))
    run = await house.runner([turn, "ok"], tools=[search_docs]).start("go")
    assert told(house, "a")["errorCode"] == "unknown_tool"
    assert "search_docs" in told(house, "a")["message"].replace("serach_docs", "")
    assert run.calls[0].outcome == "invalid"


async def test_c9_two_calls_have_one_id(house):
    """The turn is not stored; the model is asked again with the reason, twice at most."""
    ran = []

    @tool(effect="write")
    def pay() -> str:
        """Pay."""
        ran.append(1)
        return ""

    twins = says("", call("pay", {}, id="a"), call("pay", {}, id="a"))
    runner = house.runner(ScriptedModel(turns=[twins, twins, twins]), tools=[pay])
    run = await runner.start("go")
    again = house.models[0].requests[1]
    assert isinstance(again[-1], HumanMessage)
    assert "[runtime]" in again[-1].text
    assert not [one for one in again if isinstance(one, AIMessage)]
    assert (len(house.models[0].requests), run.stop_reason, ran) == (2, "protocol_error", [])
    state = await runner.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    assert not [one for one in state.values["messages"] if getattr(one, "tool_calls", None)]


@pytest.mark.parametrize(
    ("settings", "attempts"),
    [({"effect": "read"}, 2), ({"effect": "write"}, 1), ({"effect": "write", "idempotent": True}, 2)],
)
async def test_c30_a_system_asks_to_be_called_later(house, settings, attempts):
    """A read waits as long as it was told and is tried again; a write is not, unless it is declared idempotent."""
    seen = []

    @tool(**settings)
    async def act() -> str:
        """Act."""
        seen.append(time.monotonic())
        if len(seen) == 1:
            raise RateLimited(retry_after_s=0.2)
        return "done"

    run = await house.runner([says("", call("act", {}, id="a")), "ok"], tools=[act]).start("go")
    assert len(seen) == attempts
    if attempts == 2:
        assert seen[1] - seen[0] >= 0.2
    assert (run.calls[0].outcome, run.calls[0].error_code) == (
        ("ok", None) if attempts == 2 else ("failed", "rate_limited")
    )


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from adjourn.graph import Runner, build_react
from adjourn.nodes import Happened, ScriptedModel, tool
from adjourn.nodes.scripted import call, says

effects = Path(sys.argv[2])

@tool(effect="write", verify=lambda context: Happened("paid before") if sys.argv[3] == "verify" else None)
def pay() -> str:
    "Pay."
    with effects.open("a") as out:
        out.write("paid\\n")
    if sys.argv[4] == "start":
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

graph = build_react(ScriptedModel(turns=[says("", call("pay", {}, id="p")), "done"], by_history=True), [pay])
with Runner(graph, sys.argv[1], lease_s=0.3) as runner:
    if sys.argv[4] == "start":
        runner.start_sync("go", run_id="run_k")
    while True:
        try:
            run = runner.recover_sync("run_k")
            break
        except Exception as error:
            if type(error).__name__ != "RunBusy":
                raise
    print(run.status, [one.type for one in run.interrupts], run.calls[0].outcome)
"""


@pytest.mark.parametrize(
    ("way", "ends"),
    [("verify", "finished [] ok"), ("person", "interrupted ['outcome_unknown'] waiting")],
)
def test_c35_the_process_is_killed_in_a_write(url, tmp_path, way, ends):
    """The write is not run again. `verify` is asked, else a person."""
    command = [sys.executable, "-c", KILLED, url, str(tmp_path / "effects"), way]
    killed = subprocess.run([*command, "start"], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    after = subprocess.run([*command, "recover"], check=False, capture_output=True, text=True)
    assert (after.returncode, after.stdout.strip()) == (0, ends), after.stderr
    assert (tmp_path / "effects").read_text() == "paid\n"


CTRL_C = """
import sys
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says
import asyncio

@tool(effect="read")
async def quick() -> str:
    "Quick."
    return "found"

@tool(effect="read")
async def slow() -> str:
    "Slow."
    await asyncio.sleep(60)

def hear(event):
    if event.word == "tool_result":
        print("in", flush=True)

turns = [says("", call("quick", {}, id="q"), call("slow", {}, id="s")), "hello again"]
runner = Runner(build_react(ScriptedModel(turns=turns), [quick, slow]), sys.argv[1])
try:
    runner.start_sync("go", run_id="run_c", thread_id="t", on_event=hear)
except KeyboardInterrupt:
    run = runner.get_sync("run_c")
    print(run.status, [one.outcome for one in run.calls], flush=True)
print(runner.start_sync("and now?", thread_id="t").answer)
runner.close()
"""


def test_c62_somebody_presses_ctrl_c(url):
    """What was finished keeps its result, the rest is answered `cancelled`, and the thread goes on."""
    process = subprocess.Popen([sys.executable, "-c", CTRL_C, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.splitlines()[-2:] == ["cancelled ['ok', 'cancelled']", "hello again"]
