"""Processes that all want the same runs at the same moment.

Each real execution of a write adds a line to the file EFFECTS. What each process found goes to a file of its own,
written whole or not at all: exit statuses of children that several threads start are not to be trusted.
"""

import json
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adjourn.checkpoints.errors import AdjournError
from adjourn.checkpoints.lifecycle import RunStatus
from adjourn.graph import Run, Runner, build_react
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says

WAIT_S = 120.0  # at most, for the others of a round


def app(url: str, effects: Path, *, questions: int = 1, lease_s: float = 30.0) -> Runner:
    """A run that asks before each of its writes, and then says that it is done."""

    @tool(effect="write", confirm="Send {what}?")
    async def send(what: str) -> str:
        """Send."""
        line = f"{what}\n".encode()
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)
        return what

    calls = [call("send", {"what": f"part {number}"}, id=f"c{number}") for number in range(questions)]
    model = ScriptedModel(turns=[says("", *calls), "all done", "as you like"], by_history=True)
    runner = Runner(build_react(model, [send]), url)
    runner._owner.bound.lease_s = lease_s  # also one that is over at once, which it would not take
    return runner


def run_id(number: int) -> str:
    """The id of the run of a round."""
    return f"run_{number}"


def act(runner: Runner, role: str, place: int, run: Run) -> Run:
    """What one process does to a run that waits."""
    if role == "answer":
        return runner.resume_sync(run.id, {one.id: approve() for one in run.interrupts}, by=f"p{place}")
    if role == "answer one":  # of several questions, one each
        return runner.resume_sync(run.id, {run.interrupts[place].id: approve()}, by=f"p{place}")
    if role == "cancel":
        return runner.cancel_sync(run.id, by=f"p{place}")
    if role == "message":
        return runner.start_sync("never mind", thread_id=run.thread_id, by=f"p{place}")
    if role == "recover":
        return runner.recover_sync(run.id, by=f"p{place}")
    raise AssertionError(role)


def racer(
    url: str,
    effects: str,
    settings: dict[str, Any],
    role: str,
    place: int,
    rounds: int,
    barrier: Any,
    out: str,
) -> None:
    """The body of a process: in each round, wait for the others, then do it; tell what came of it."""
    found: list[str] = []
    try:
        with app(url, Path(effects), **settings) as runner:
            for number in range(rounds):
                run = runner.get_sync(run_id(number))
                barrier.wait(WAIT_S)
                try:
                    found.append(act(runner, role, place, run).status)
                except AdjournError as error:
                    found.append(type(error).__name__)
                barrier.wait(WAIT_S)
    except BaseException:
        barrier.abort()
        found.append(traceback.format_exc())
    tell(out, found)


def worker(url: str, effects: str, place: int, out: str) -> None:
    """The body of a process that resumes whatever waits, until nothing does."""
    found: dict[str, Any] = {"finished": 0, "lost": 0, "errors": []}
    began = time.monotonic()
    try:
        with app(url, Path(effects)) as runner:
            while waiting := runner.list_sync(statuses=[RunStatus.INTERRUPTED], limit=50):
                for row in list(waiting)[place:] + list(waiting)[:place]:
                    _resume(runner, row.id, found)
    except BaseException:
        found["errors"].append(traceback.format_exc())
    tell(out, {**found, "seconds": time.monotonic() - began})


def _resume(runner: Runner, of: str, found: dict[str, Any]) -> None:
    run = runner.get_sync(of)
    if not run.interrupts:
        found["lost"] += 1
        return
    try:
        found[act(runner, "answer", 0, run).status] += 1
    except AdjournError as error:
        if type(error).__name__ not in ("AlreadyAnswered", "RunBusy", "NotResumable"):
            raise
        found["lost"] += 1


def tell(out: str, found: Sequence[str] | dict[str, Any]) -> None:
    """Leave what was found in the file `out`."""
    part = Path(out).with_suffix(".part")
    part.write_text(json.dumps(found))
    part.rename(out)
