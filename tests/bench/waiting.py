"""Many runs that wait for people, in one file: how long the questions about them take."""

import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from sqlalchemy.engine import Connection

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database, now
from adjourn.checkpoints.lifecycle import InterruptState, InterruptType, RunStatus
from adjourn.checkpoints.records import Interrupt
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import starts
from adjourn.graph.reading import read_run

GRAPHS = 10  # the runs belong to so many graphs, in turns
AT_ONCE = 500  # rows of runs in one transaction
REPEATS = 11


def fill(database: Database, count: int) -> None:
    """Store `count` interrupted runs, each on a thread of its own with a checkpoint and an open question."""
    saver = SQLAlchemySaver(database)
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        database.write(lambda connection, numbers=numbers: _add_runs(connection, numbers))  # type: ignore[misc]
        for number in numbers:
            _add_checkpoint(saver, f"t{number}")


def _add_runs(connection: Connection, numbers: range) -> None:
    for number in numbers:
        row = starts.new_run(
            f"restart service {number}",
            thread_id=f"t{number}",
            by="wang",
            run_id=f"run_{number:07}",
            graph=f"graph{number % GRAPHS}",
            signature="s",
            owner="o",
            lease_s=30,
        )
        waiting = replace(
            row, status=RunStatus.INTERRUPTED.value, lease_owner=None, lease_until=None, steps=1
        )
        journal.insert_run(connection, waiting)
        journal.insert_interrupts(connection, [_question(row.id)])


def _question(run_id: str) -> Interrupt:
    return Interrupt(
        id=f"int_{run_id}",
        run_id=run_id,
        step=1,
        call_id="c",
        path="",
        position=0,
        type=InterruptType.CONFIRM_RISKY.value,
        tool="restart",
        arguments={"service_id": "svc-pay-001"},
        reason="Restart?",
        payload={},
        response_schema={},
        state=InterruptState.OPEN.value,
        created_at=now(),
    )


def _add_checkpoint(saver: SQLAlchemySaver, thread_id: str) -> None:
    values = {"messages": [HumanMessage("go", id="h"), AIMessage("one moment", id="a")], "step": 1}
    state: Any = {
        "v": 4,
        "id": str(uuid6()),
        "ts": now(),
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1),
        "versions_seen": {},
    }
    where: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    stored = saver.put(where, state, {"source": "loop", "step": 1}, state["channel_versions"])
    saver.put_writes(stored, [("__interrupt__", "Restart?")], "task")


def milliseconds(work: Callable[[], Any]) -> float:
    """The median of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def ask(database: Database, path: Path, count: int) -> dict[str, float]:
    """Milliseconds per question."""
    plain = sqlite3.connect(path)
    waits = [RunStatus.INTERRUPTED]
    middle = count // 2
    saver = SQLAlchemySaver(database)
    by_sql = "SELECT id, thread_id, input FROM v_runs WHERE status = 'interrupted' LIMIT 20"
    inbox = "SELECT id, run_id, reason FROM v_waiting LIMIT 20"
    found = {
        "newest 20, API": milliseconds(
            lambda: database.read(lambda c: journal.list_runs(c, statuses=waits, limit=20))
        ),
        "newest 20, SQL": milliseconds(lambda: plain.execute(by_sql).fetchall()),
        "oldest 20 questions, SQL": milliseconds(lambda: plain.execute(inbox).fetchall()),
        "newest 20 checkpoints": milliseconds(lambda: list(saver.list(None, limit=20))),
        "all of one graph": milliseconds(
            lambda: database.read(lambda c: journal.list_runs(c, statuses=waits, graph="graph3"))
        ),
        "load one run": milliseconds(lambda: database.read(lambda c: read_run(c, f"run_{middle:07}"))),
        "load its checkpoint": milliseconds(
            lambda: saver.get_tuple({"configurable": {"thread_id": f"t{middle}"}})
        ),
    }
    plain.close()
    return found


def measure(folder: Path, count: int) -> dict[str, float]:
    """The questions over `count` waiting runs, the seconds that storing them took, and the file's size."""
    path = folder / f"waiting{count}.db"
    database = Database(f"sqlite:///{path}")
    start = time.perf_counter()
    fill(database, count)
    filled_s = time.perf_counter() - start
    found = ask(database, path, count)
    database.close()
    return {**found, "stored in s": filled_s, "MB": path.stat().st_size / 1e6}
