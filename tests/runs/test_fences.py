"""A stale owner changes nothing, whatever it was doing (C-90); a dead one is replaced by anybody (C-91).

Processes are really killed and paused; before and after a stale one goes on, every row of the database is the same.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage
from runs import crash_app
from runs.crash import RUN, Crash

from adjourn.checkpoints import leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import AlreadyAnswered, LeaseLost, RunBusy
from adjourn.checkpoints.events import StepStarted
from adjourn.checkpoints.hooks import FENCE, OUTBOX
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.schema import metadata
from adjourn.graph import starts
from adjourn.graph.run_log import Before, RunLog
from adjourn.nodes.masking import Masker

TESTS = Path(__file__).parents[1]


def everything(url: str) -> dict[str, list[Any]]:
    """Every row of every table."""
    database = Database(url)
    rows = database.read(
        lambda c: {
            name: sorted(map(repr, c.execute(sa.select(one)))) for name, one in metadata.tables.items()
        }
    )
    database.close()
    return rows


def pause(one: Crash, process: Any, name: str) -> None:
    """Stop the process where it is, and let whoever comes after it pass."""
    one.wait_in(process, name)
    one.freeze(process)
    one.effects.with_suffix(f".hold-{name}").unlink(missing_ok=True)
    one.wait_for_lease()


def goes_on_in_vain(one: Crash, process: Any) -> None:
    """Let a paused process go on: it ends, and nothing has changed."""
    before = everything(one.url)
    os.kill(process.pid, signal.SIGCONT)
    process.join(60)
    assert not process.is_alive()
    assert not one.out.exists()  # it did not come to an end of its own
    assert everything(one.url) == before


def test_c90_paused_in_a_write_its_outcome_is_refused_and_the_question_stands(crash):
    one = crash("pay")
    one.hold("pay")
    process = one.start("start", RUN)
    pause(one, process, "pay")
    asked = one.finish("recover", RUN)
    assert asked["status"] == "interrupted"
    goes_on_in_vain(one, process)
    (question,) = asked["interrupts"]
    done = one.finish("resume", RUN, json.dumps({question: {"action": "happened", "result": "paid"}}))
    assert (done["status"], one.did()) == ("finished", ["look a", "pay b"])


def test_c90_paused_in_the_model_its_turn_is_refused(crash):
    one = crash("model")
    process = one.start("start", RUN)
    pause(one, process, "model")
    assert one.finish("recover", RUN)["answer"] == "all done"
    goes_on_in_vain(one, process)


def test_c90_paused_before_a_write_it_is_not_begun(crash):
    one = crash("pay")
    one.hold("look")
    process = one.start("start", RUN)
    pause(one, process, "look")
    assert one.finish("recover", RUN)["status"] == "finished"
    goes_on_in_vain(one, process)
    assert one.did() == ["look a", "look a", "pay b"]


def test_c90_a_process_whose_event_loop_is_blocked_loses_its_run(crash):
    one = crash("stall")
    one.hold("stall")
    process = one.start("start", RUN)
    one.wait_in(process, "stall")
    one.wait_for_lease()
    assert one.finish("recover", RUN)["status"] == "finished"
    before = everything(one.url)
    one.effects.with_suffix(".held-stall").unlink()
    process.join(60)
    assert not process.is_alive()
    assert not one.out.exists()
    assert everything(one.url) == before
    assert one.did().count("stall b") == 2  # a read, and the other one of its batch, are read again


@pytest.mark.alone
def test_c90_a_process_that_lives_renews_its_lease(crash):
    one = crash("pay")
    one.hold("pay")  # a synchronous tool: it runs in a thread, and the event loop is free
    process = one.start("start", RUN)
    one.wait_in(process, "pay")
    one.wait_for_lease()
    one.wait_for_lease()
    with crash_app.runner(one.url, one.effects, "pay") as runner, pytest.raises(RunBusy):
        runner.recover_sync(RUN)
    one.effects.with_suffix(".hold-pay").unlink()
    process.join(60)
    assert json.loads(one.out.read_text())["status"] == "finished"
    assert one.did() == ["look a", "pay b"]


@pytest.fixture
def stale(tmp_path):
    """A saver, and the log of an owner that has lost its run."""
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id=RUN, graph="g", signature="s", owner="one", lease_s=-1
    )
    database.write(lambda c: starts.store(c, row))
    old = RunLog(database, row, Before(), lambda _: None, Masker())
    database.write(lambda c: leases.claim(c, RUN, RunEvent.RECOVER, owner="two", lease_s=30))
    yield SQLAlchemySaver(database), old
    database.close()


def test_c90_put_put_writes_and_held_writes_of_a_stale_owner_are_refused(stale):
    saver, old = stale
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", FENCE: old}}
    checkpoint: Any = {
        "v": 4,
        "id": "1f",
        "ts": "",
        "channel_values": {"messages": [AIMessage("x", id="m")]},
        "channel_versions": {"messages": 1},
        "versions_seen": {},
    }
    url = saver.database.url.render_as_string()
    before = everything(url)
    with pytest.raises(LeaseLost):
        saver.put(config, checkpoint, {}, {"messages": 1})
    where: Any = {"configurable": {**config["configurable"], "checkpoint_id": "1f"}}
    with pytest.raises(LeaseLost):
        saver.put_writes(where, [("messages", [AIMessage("x", id="m")])], "task")
    both: Any = {"configurable": {**where["configurable"], OUTBOX: old}}
    saver.put_writes(both, [("messages", [AIMessage("x", id="m")])], "task")  # kept for a put
    with pytest.raises(LeaseLost):
        saver.store_held(both, old.left_over())
    assert everything(url) == before


async def test_c90_ledger_and_journal_of_a_stale_owner_are_refused(stale):
    saver, old = stale
    url = saver.database.url.render_as_string()
    before = everything(url)
    a_call: Any = {
        "id": "c",
        "name": "pay",
        "position": 0,
        "batch": 0,
        "effect": "write",
        "arguments": {},
        "state": "planned",
    }
    with pytest.raises(LeaseLost):
        await old.start(1, a_call, attempt=1, idempotency_key="k", synced=True)
    with pytest.raises(LeaseLost):
        await old.tell(StepStarted(run_id=RUN, step=7))
    with pytest.raises(LeaseLost):
        await old.leave(RunEvent.FINISH, [], active_ms=1)
    assert everything(url) == before


def test_c43_c91_killed_between_an_accepted_answer_and_its_continuation(crash):
    one = crash("send")
    (question,) = one.finish("start", RUN)["interrupts"]
    answers = json.dumps({question: {"action": "approve"}})
    process = one.start("accept", RUN, answers)
    process.join(60)
    assert not process.is_alive()
    with crash_app.runner(one.url, one.effects, "send") as runner:
        run = runner.get_sync(RUN)
        assert (run.status, run.questions[0].state) == ("running", "answered")
        with pytest.raises(AlreadyAnswered):
            runner.resume_sync(RUN, json.loads(answers))
        one.wait_for_lease()
        assert runner.recover_sync(RUN).status == "finished"
    assert one.did() == ["look a", "send b"]


def adjourn(one: Crash, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the app, as a person types it."""
    return _run(
        one, [sys.executable, "-m", "adjourn.graph", *words, "--store", one.url, "--app", "app.py:graph"]
    )


def _run(one: Crash, command: list[str]) -> subprocess.CompletedProcess[str]:
    folder = one.effects.parent
    (folder / "app.py").write_text(
        "from pathlib import Path\nfrom runs import crash_app\n"
        f"graph = crash_app.graph(Path({str(one.effects)!r}), {one.first!r})\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
    paths = os.pathsep.join([str(TESTS), *sys.path])
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_c91_adjourn_recover_by_hand(crash):
    one = crash("put")
    one.hold("put")
    one.kill_in(one.start("start", RUN), "put")
    one.wait_for_lease()
    done = adjourn(one, "recover")
    assert (done.returncode, "all done" in done.stdout) == (0, True), done
    assert one.did() == ["look a", "put b", "put b"]
    again = adjourn(one, "recover", RUN)
    assert (again.returncode, "is finished" in again.stderr) == (5, True), again
    assert "nothing to recover" in adjourn(one, "recover").stdout


SCRIPT = """
from adjourn.graph import Runner
from app import graph

with Runner(graph, {url!r}) as runner:
    for run in runner.list_sync(statuses=["running"]):
        print(runner.recover_sync(run.id, by="nightly").status)
"""


def test_c91_recovered_by_a_script(crash):
    one = crash("put")
    one.hold("look")
    one.kill_in(one.start("start", RUN), "look")
    one.wait_for_lease()
    done = _run(one, [sys.executable, "-c", SCRIPT.format(url=one.url)])
    assert (done.returncode, done.stdout) == (0, "finished\n"), done
    assert one.did() == ["look a", "look a", "put b"]
