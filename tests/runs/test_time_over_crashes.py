"""The time that a run worked, over owners that die (C-53)."""

import asyncio
import sqlite3
import subprocess
import sys
import time

from adjourn.graph import Limits, Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

LEASE_S = 0.6

OWNER = """
import asyncio, sys
from adjourn.graph import Limits, Runner, build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

@tool(effect="read")
async def slow() -> str:
    "Slow."
    print("in", flush=True)
    await asyncio.sleep(60)

graph = build_react(ScriptedModel(turns=[says("", call("slow", id="s"))]), [slow])
Runner(graph, sys.argv[1], lease_s=float(sys.argv[2])).start_sync("go", run_id="run_t")
"""


def stored(file, column):
    """A column of the run, as anybody reads it."""
    connection = sqlite3.connect(file)
    try:
        return connection.execute(f"SELECT {column} FROM runs").fetchone()[0]
    finally:
        connection.close()


def until(true, within_s=30):
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


async def test_c53_the_time_of_an_owner_that_was_killed_counts_up_to_its_last_renewal(tmp_path):
    file = tmp_path / "a.db"
    command = [sys.executable, "-c", OWNER, f"sqlite:///{file}", str(LEASE_S)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "in\n"
        until(lambda: stored(file, "active_ms") >= 500)  # renewed each 0.2 s
    finally:
        process.kill()
        process.communicate()
    worked_ms = stored(file, "active_ms")

    @tool(effect="read")
    async def slow() -> str:
        """Slow, but not so slow as before."""
        return "here at last"

    turns = [says("", call("slow", id="s")), "done"]
    graph = build_react(ScriptedModel(turns=turns, by_history=True), [slow], limits=Limits(max_active_s=0.5))
    with Runner(graph, f"sqlite:///{file}") as runner:
        await asyncio.sleep(LEASE_S * 1.2)  # until the lease has run out
        run = await runner.recover("run_t")
    # the time was over before the second owner came: nothing was run again
    assert (run.status, run.stop_reason) == ("finished", "timeout")
    assert [one.error_code for one in run.calls] == ["run_stopped"]
    assert worked_ms <= run.row.active_ms < worked_ms + 1_000
