"""Many at once: processes and threads on one file, runs in one process.

`ADJOURN_SOAK_S` is how many seconds the processes write [5], `ADJOURN_AGENTS` how many agents work at once [24];
`make scale` gives them a minute, and has a hundred agents.
"""

import asyncio
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from store.engines import Engines
from store.processes import AGENT_STEPS, run_all, work_as_agents, work_for
from store.stored_graphs import config, put, scalar, values_of

from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel
from adjourn.nodes.scripted import says

PROCESSES_AT_ONCE = 8
THREADS_AT_ONCE = 25
RUNS_AT_ONCE = 200
AGENTS = int(os.environ.get("ADJOURN_AGENTS", "24"))
AGENT_BYTES = 20_000  # of each message
SOAK_S = float(os.environ.get("ADJOURN_SOAK_S", "5"))


@pytest.fixture(params=["file", "postgresql"])
def roomy_url(request: pytest.FixtureRequest, servers: Engines, tmp_path: Path) -> str:
    return servers.empty(request.param, tmp_path)


def test_eight_processes_of_25_threads_write_to_one_file_and_lose_nothing(file_url: str) -> None:
    with SQLAlchemySaver(file_url) as saver:
        saver.setup()
    given = [(file_url, process, THREADS_AT_ONCE, SOAK_S) for process in range(PROCESSES_AT_ONCE)]
    run_all(work_for, given, timeout_s=SOAK_S + 120)
    with SQLAlchemySaver(file_url) as saver:
        assert scalar(saver, "SELECT count(*) FROM threads") == PROCESSES_AT_ONCE * THREADS_AT_ONCE
        steps = scalar(saver, "SELECT sum(step) FROM threads")
        for table in ("checkpoints", "messages", "checkpoint_writes"):
            assert scalar(saver, f"SELECT count(*) FROM {table}") == steps
    connection = sqlite3.connect(file_url.removeprefix("sqlite:///"))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_agents_of_eight_processes_write_large_messages_to_one_file_and_none_fails(file_url: str) -> None:
    with SQLAlchemySaver(file_url) as saver:
        saver.setup()
    names = [f"agent{number}" for number in range(AGENTS)]
    given = [
        (file_url, names[process::PROCESSES_AT_ONCE], AGENT_BYTES) for process in range(PROCESSES_AT_ONCE)
    ]
    run_all(work_as_agents, given, timeout_s=300)
    with SQLAlchemySaver(file_url) as saver:
        assert scalar(saver, "SELECT count(*) FROM messages") == AGENTS * (AGENT_STEPS + 1)
        for name in names:
            found = values_of(saver, config(name))["messages"]
            assert [len(message.content) for message in found] == [2, *([AGENT_BYTES] * AGENT_STEPS)]


async def test_the_pools_never_run_dry_under_200_runs_in_one_process(roomy_url: str) -> None:
    turns: list[Any] = [says("done", delay_s=0.5)]  # long enough for all of them to be under way
    graph = build_react(ScriptedModel(turns=turns, by_history=True))
    with Runner(graph, roomy_url) as runner:
        runs = await asyncio.gather(
            *(runner.start("go", thread_id=f"t{number}") for number in range(RUNS_AT_ONCE))
        )
    assert {run.status for run in runs} == {"finished"}, [run.row.error for run in runs if run.row.error]


def test_200_threads_of_one_process_share_the_connections(roomy_url: str) -> None:
    wrong: list[BaseException] = []

    def work(name: str) -> None:
        try:
            where = config(name)
            for step in range(1, 3):
                where = put(saver, where, {"messages": [HumanMessage("x", id=name)]}, step)
                saver.put_writes(where, [("n", step)], "task")
                assert saver.get_tuple(where) is not None
        except BaseException as error:  # a thread's error would be told to nobody
            wrong.append(error)

    with SQLAlchemySaver(roomy_url) as saver:
        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(RUNS_AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert scalar(saver, "SELECT count(*) FROM checkpoints") == 2 * RUNS_AT_ONCE
