"""Other processes that use a store, and what they do there.

They are real ones, forked from one that has imported everything: a start takes milliseconds, not seconds.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from store.stored_graphs import config, put

from adjourn.checkpoints.saver import SQLAlchemySaver

os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
AGENT_STEPS = 20
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["runs.crash_app", "store.processes", "store.race_app", "store.fleet_app", "soak.driver"]
)  # the server is one for all tests


def run_all(target: Callable[..., None], given: Sequence[tuple[Any, ...]], timeout_s: float = 120) -> None:
    """Run `target` once per arguments, each in a process of its own, all at once; none may fail."""
    started = [PROCESSES.Process(target=target, args=arguments) for arguments in given]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout_s)
    assert [process.exitcode for process in started] == [0] * len(given)


def hold_two_talks(url: str, name: str) -> None:
    """Twelve steps on a thread of its own, and in a namespace of a shared one."""
    with SQLAlchemySaver(url) as saver:
        for where in (config(name), config("shared", ns=name)):
            messages: list[HumanMessage] = []
            for step in range(12):
                messages = [*messages, HumanMessage(f"{name} {step}", id=f"{name}-{step}")]
                log = [{"n": n, "text": "x" * 300} for n in range(step)]
                where = put(saver, where, {"messages": messages, "log": log}, step + 1)  # noqa: PLW2901
                written = [HumanMessage(f"{name} write {step}", id=f"{name}-w{step}")]
                saver.put_writes(where, [("messages", written)], f"task{step}")


def put_once(url: str, name: str) -> None:
    """Open the store, perhaps as the first, and store one checkpoint."""
    with SQLAlchemySaver(url) as saver:
        state: Any = {
            "v": 4,
            "id": name,
            "ts": "",
            "channel_values": {"a": name},
            "channel_versions": {"a": 1},
            "versions_seen": {},
        }
        saver.put(config("t"), state, {}, {"a": 1})


def work_for(url: str, process: int, threads: int, seconds: float) -> None:
    """`threads` threads, each of which appends messages to a conversation of its own for `seconds`.

    At its end each reads its whole conversation back; any error ends the process with a status.
    """
    end = time.monotonic() + seconds
    with SQLAlchemySaver(url) as saver:
        _all_at_once([partial(_append, saver, f"p{process}-{number}", end) for number in range(threads)])


def _all_at_once(works: Sequence[Callable[[], None]]) -> None:
    """Run each in a thread of its own; the first error is raised when all have ended."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def _append(saver: SQLAlchemySaver, name: str, end: float) -> None:
    where, said, step = config(name), list[HumanMessage](), 0
    while step == 0 or time.monotonic() < end:
        step += 1
        said = [*said, HumanMessage(f"{name} {step}".ljust(300, "x"), id=f"{name}-{step}")]
        where = put(saver, where, {"messages": said}, step)
        saver.put_writes(where, [("n", step)], f"task{step}")
    found = list(saver.list(config(name)))
    assert [len(one.checkpoint["channel_values"]["messages"]) for one in found] == list(range(step, 0, -1))
    assert [one.pending_writes for one in found] == [
        [(f"task{number}", "n", number)] for number in range(step, 0, -1)
    ]


def work_as_agents(url: str, names: Sequence[str], size: int) -> None:
    """Agents of one process, all at once: each runs a graph that appends a message of `size` bytes at each step."""
    with SQLAlchemySaver(url) as saver:
        graph = _talk(size).compile(checkpointer=saver)
        _all_at_once([partial(_drive, graph, name) for name in names])


def _drive(graph: Any, name: str) -> None:
    settings: Any = {**config(name), "recursion_limit": AGENT_STEPS + 10}
    graph.invoke({"messages": [HumanMessage("go", id="h")]}, settings, durability="sync")


def _talk(size: int) -> StateGraph[Any, Any, Any, Any]:
    def say(state: MessagesState) -> dict[str, Any]:
        number = len(state["messages"])
        return {"messages": [AIMessage(f"{number:02}" * (size // 2), id=f"m{number}")]}

    def more(state: MessagesState) -> str:
        return "say" if len(state["messages"]) <= AGENT_STEPS else END

    graph = StateGraph(MessagesState)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", more)
    return graph
