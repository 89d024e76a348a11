"""Runs that one process accepts and others drive."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from adjourn.checkpoints import journal, leases
from adjourn.checkpoints.errors import KeyLost
from adjourn.checkpoints.lifecycle import RunEvent
from adjourn.graph import Runner, build_react, starts
from adjourn.graph.cli.doctor import doctor
from adjourn.graph.cli.settings import Settings
from adjourn.graph.worker import MAX_DEATHS, Worker
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says

pytestmark = pytest.mark.in_process  # it has workers of its own


class Office:
    """A front desk that only accepts, and workers; `done` is what was really done."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.done: list[str] = []
        self.runners: list[Runner] = []

    def runner(self, *, newer=False, **settings):
        """Of this version of the app, or of a newer one, which has another tool."""

        @tool(effect="write", confirm="Send {what}?")
        async def send(what: str) -> str:
            """Send."""
            self.done.append(what)
            return what

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            return "seen"

        turns = [says("", call("send", {"what": "it"}, id="s")), "sent"]
        tools = [send, look] if newer else [send]
        graph = build_react(ScriptedModel(turns=turns, by_history=True), tools, name="office")
        made = Runner(graph, self.url, **settings)
        self.runners.append(made)
        return made

    async def drive(self, desk: Runner, run_id: str) -> Worker:
        """Let a worker work until the run waits or has ended."""
        stop, worker = asyncio.Event(), Worker(self.runner(), poll_s=0.02)
        working = asyncio.create_task(worker.work(stop))
        async for _ in desk.follow(run_id):
            pass
        stop.set()
        assert await working == []
        return worker


@pytest.fixture
def office(url):
    made = Office(url)
    yield made
    for runner in made.runners:
        runner.close()


async def test_a_detached_runner_accepts_and_a_worker_drives(office):
    desk = office.runner(detached=True)
    run = await desk.start("go", by="wang")
    assert (run.status, run.row.lease_owner, run.row.steps) == ("running", None, 0)
    await office.drive(desk, run.id)
    waits = await desk.get(run.id)
    assert waits.status == "interrupted"
    left = await desk.resume(run.id, {waits.interrupts[0].id: approve()}, by="li")
    assert (left.status, left.row.lease_owner, office.done) == ("running", None, [])
    await office.drive(desk, run.id)
    over = await desk.get(run.id)
    assert (over.status, over.answer, office.done) == ("finished", "sent", ["it"])
    numbers = [event.number for event in await desk.events(run.id)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_detached_runner_streams_what_the_worker_tells(office):
    desk, stop = office.runner(detached=True), asyncio.Event()
    working = asyncio.create_task(Worker(office.runner(), poll_s=0.02).work(stop))
    async with asyncio.timeout(60):
        heard = [event async for event in desk.stream("go", run_id="run_s", priority=3)]
        assert heard[-1].word == "loop_interrupt"
        waits = await desk.get("run_s")
        answers = {waits.interrupts[0].id: approve()}
        heard += [event async for event in desk.stream_resume("run_s", answers, by="li")]
    stop.set()
    await working
    assert heard == list(await desk.events("run_s"))
    assert (heard[-1].word, (await desk.get("run_s")).row.priority) == ("run_finished", 3)


async def test_two_workers_share_many_runs_and_do_nothing_twice(office):
    desk = office.runner(detached=True)
    runs = [await desk.start("go") for _ in range(12)]
    workers = [Worker(office.runner(), concurrency=3, poll_s=0.02) for _ in range(2)]
    stop = asyncio.Event()
    working = [asyncio.create_task(one.work(stop)) for one in workers]
    for run in runs:
        async for _ in desk.follow(run.id):
            pass
        waits = await desk.get(run.id)
        await desk.resume(run.id, {waits.interrupts[0].id: approve()}, by="li")
    for run in runs:
        async for _ in desk.follow(run.id):
            pass
        assert (await desk.get(run.id)).status == "finished"
    stop.set()
    await asyncio.gather(*working)
    assert len(office.done) == 12


async def test_an_upgrade_without_a_stop_old_and_new_workers_side_by_side(office):
    """As docs/production.md says: new workers come, old ones go, then the server; runs that wait go on with the new."""
    desk = office.runner(detached=True)
    before = [await desk.start("go") for _ in range(6)]
    stops = [asyncio.Event() for _ in range(2)]
    old, new = (Worker(office.runner(newer=newer), concurrency=1, poll_s=0.01) for newer in (False, True))
    working = [asyncio.create_task(one.work(stop)) for one, stop in zip((old, new), stops, strict=True)]
    for run in before:
        async for _ in desk.follow(run.id):
            pass
    assert old.taken > 0
    assert new.taken > 0  # of what an old server accepted
    stops[0].set()
    assert await working[0] == []
    newer_desk = office.runner(newer=True, detached=True)
    after = [await newer_desk.start("go") for _ in range(2)]
    for run in [*before, *after]:
        async for _ in newer_desk.follow(run.id):
            pass
        waits = await newer_desk.get(run.id)
        await newer_desk.resume(run.id, {waits.interrupts[0].id: approve()}, by="li")
        async for _ in newer_desk.follow(run.id):
            pass
        over = await newer_desk.get(run.id)
        assert (over.status, over.answer) == ("finished", "sent")
        assert ("graph_changed" in [one.action for one in over.audit]) is (run in before)
    stops[1].set()
    assert await working[1] == []
    assert len(office.done) == 8


async def test_c59_a_detached_run_is_cancelled_before_anybody_drives_it(office):
    desk = office.runner(detached=True)
    run = await desk.start("go")
    over = await desk.cancel(run.id, by="li")
    assert (over.status, over.stop_reason, office.done) == ("cancelled", "cancelled", [])


async def test_c91_a_run_whose_owners_die_one_after_the_other_is_given_up(office):
    desk = office.runner(detached=True)
    run = await desk.start("go")
    for death in range(MAX_DEATHS):
        await desk.database.awrite(
            lambda c: leases.claim(c, run.id, RunEvent.RECOVER, owner="dies", lease_s=-1)
        )
        assert (await desk.get(run.id)).row.deaths == death
    worker = await office.drive(desk, run.id)
    failed = await desk.get(run.id)
    assert (failed.status, failed.error["class"], worker.taken) == ("failed", "OwnersDied", 0)
    again = await office.runner().resume(run.id)  # a person tries it again
    assert (again.status, again.row.deaths) == ("interrupted", 0)


async def test_runs_that_cannot_be_taken_up_are_tried_again_later_and_keep_no_other_out(office):
    tried: list[str] = []

    class Keyless(Runner):
        async def recover(self, run_id, **settings):
            if run_id.startswith("run_lost"):
                tried.append(run_id)
                raise KeyLost(run_id)
            return await super().recover(run_id, **settings)

    desk = office.runner(detached=True)
    for number in range(3):
        await desk.start("go", run_id=f"run_lost{number}")
    good = await desk.start("go")
    runner = Keyless(desk.graph, office.url)
    office.runners.append(runner)
    stop, worker = asyncio.Event(), Worker(runner, poll_s=0.02, concurrency=2)
    working = asyncio.create_task(worker.work(stop))
    async for _ in desk.follow(good.id):
        pass
    stop.set()
    assert await working == []
    assert (await desk.get(good.id)).status == "interrupted"
    assert sorted(tried) == ["run_lost0", "run_lost1", "run_lost2"]


async def test_a_worker_lives_through_a_database_that_is_away(office):
    desk = office.runner(detached=True)
    run = await desk.start("go")
    rename = "ALTER TABLE {} RENAME TO {}"
    await desk.database.awrite(lambda c: c.execute(text(rename.format("runs", "runs_away"))))
    stop, worker = asyncio.Event(), Worker(office.runner(), poll_s=0.02)
    looked = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda record: looked.set() if "looked for" in record.getMessage() else None
    logging.getLogger("adjourn.worker").addHandler(handler)
    working = asyncio.create_task(worker.work(stop))
    await asyncio.wait_for(looked.wait(), 10)
    logging.getLogger("adjourn.worker").removeHandler(handler)
    await desk.database.awrite(lambda c: c.execute(text(rename.format("runs_away", "runs"))))
    async for _ in desk.follow(run.id):
        pass
    stop.set()
    assert await working == []
    assert (await desk.get(run.id)).status == "interrupted"


async def test_a_run_that_cannot_be_taken_up_holds_up_nobody(office, monkeypatch):
    desk, driving = office.runner(detached=True), office.runner()
    bad, good = await desk.start("go"), await desk.start("go")
    tried = []

    async def recover(run_id):
        tried.append(run_id)
        if run_id == bad.id:
            raise KeyLost(run_id)
        return await Runner.recover(driving, run_id)

    monkeypatch.setattr(driving, "recover", recover)
    stop = asyncio.Event()
    working = asyncio.create_task(Worker(driving, concurrency=1, poll_s=0.01).work(stop))
    async for _ in desk.follow(good.id):
        pass
    assert (await desk.get(good.id)).status == "interrupted"
    assert tried == [bad.id, good.id]  # the first one is tried again later
    stop.set()
    await working


async def test_who_hands_a_run_back_has_not_died(office):
    desk = office.runner(detached=True)
    run = await desk.start("go")
    for _ in range(5):
        fence = await desk.database.awrite(
            lambda c: leases.claim(c, run.id, RunEvent.RECOVER, owner="goes", lease_s=30)
        )
        await desk.database.awrite(lambda c, fence=fence: leases.release(c, run.id, fence, active_ms=0))
    assert (await desk.get(run.id)).row.deaths == 0


async def test_a_worker_takes_over_what_a_dead_process_left(office):
    runner = office.runner()
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id="run_d", graph="office", signature="s", owner="dead", lease_s=-1
    )
    await runner.database.awrite(lambda c: starts.store(c, row))
    await office.drive(runner, "run_d")
    found = await runner.database.aread(lambda c: journal.read_run(c, "run_d"))
    assert (found.status, found.deaths) == ("interrupted", 1)


class Process:
    """`adjourn worker` on a store, as anybody would start it."""

    def __init__(self, folder: Path, *more: str) -> None:
        command = [sys.executable, "-m", "adjourn.graph", "worker", "--app", "app.py:build", "--json", *more]
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "ADJOURN_STORE": "sqlite:///adjourn.db",
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        assert self._process.stdout is not None
        self.said = json.loads(self._process.stdout.readline())
        self.pid = self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=60)

    def end(self) -> dict[str, Any]:
        self._process.send_signal(signal.SIGTERM)
        out, err = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, err
        told: dict[str, Any] = json.loads(out.splitlines()[-1])
        return told


APP = """
import time
from pathlib import Path
from adjourn.graph import build_react
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

@tool(effect="write", idempotent=True)
def slow(what: str) -> str:
    \"\"\"Slow.\"\"\"
    Path("began").touch()
    while not Path("go").exists():
        time.sleep(0.02)
    return what

def build():
    turns = [says("", call("slow", {"what": "it"}, id="s")), "done"]
    return build_react(ScriptedModel(turns=turns, by_history=True), [slow], name="office")
"""


async def test_c91_a_worker_that_is_killed_is_followed_by_another_one(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    graph = build_react(ScriptedModel(turns=[]), [], name="office")
    with Runner(graph, f"sqlite:///{tmp_path}/adjourn.db", detached=True) as desk:
        run = await desk.start("go")
        first = Process(tmp_path, "--lease", "0.5")
        assert first.said["graph"] == "office"
        while not (tmp_path / "began").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        first.kill()
        (tmp_path / "go").touch()
        second = Process(tmp_path, "--lease", "0.5")
        async for _ in desk.follow(run.id):
            pass
        over = await desk.get(run.id)
        assert (over.status, over.answer, over.row.deaths) == ("finished", "done", 1)
        assert second.end() == {"taken": 1, "left": []}


async def test_c91_from_the_kill_of_a_worker_to_the_next_owner_it_takes_less_than_ten_seconds(tmp_path):
    """With the settings that `adjourn worker` has by itself."""
    (tmp_path / "app.py").write_text(APP)
    graph = build_react(ScriptedModel(turns=[]), [], name="office")
    with Runner(graph, f"sqlite:///{tmp_path}/adjourn.db", detached=True) as desk:
        run = await desk.start("go")
        workers = [Process(tmp_path) for _ in range(2)]
        while not (tmp_path / "began").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        owner = (await desk.get(run.id)).row.lease_owner
        (first,) = [one for one in workers if owner.endswith(f":{one.pid}")]
        (second,) = [one for one in workers if one is not first]
        first.kill()
        killed = time.monotonic()
        while (await desk.get(run.id)).row.lease_owner == owner:  # noqa: ASYNC110 - another process takes it
            await asyncio.sleep(0.02)
        took_s = time.monotonic() - killed
        (tmp_path / "go").touch()
        async for _ in desk.follow(run.id):
            pass
        assert (await desk.get(run.id)).answer == "done"
        assert await asyncio.to_thread(second.end) == {"taken": 1, "left": []}
    print(f"\nfrom the kill to the next owner: {took_s:.1f} s")
    assert took_s < 10


async def test_questions_whose_time_has_passed_are_found_by_a_worker_and_their_runs_go_on(
    office, monkeypatch
):
    monkeypatch.setattr("adjourn.graph.worker.EXPIRE_S", 0.05)
    desk = office.runner(detached=True)
    run = await desk.start("go")
    await office.drive(desk, run.id)
    past = text("UPDATE interrupts SET expires_at = '2026-01-01T00:00:00.000000Z'")
    await desk.database.awrite(lambda c: c.execute(past))
    stop, worker = asyncio.Event(), Worker(office.runner(), poll_s=0.02, most_per_graph=1)
    working = asyncio.create_task(worker.work(stop))
    async with asyncio.timeout(30):
        while worker.taken == 0:  # noqa: ASYNC110 - it looks by itself
            await asyncio.sleep(0.02)
    stop.set()
    assert await working == []
    over = await desk.get(run.id)
    assert (over.status, over.answer, office.done) == ("finished", "sent", [])
    assert [one.error_code for one in over.calls] == ["expired"]


async def test_on_sigterm_a_worker_ends_its_step_and_hands_its_runs_back(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    graph = build_react(ScriptedModel(turns=[]), [], name="office")
    with Runner(graph, f"sqlite:///{tmp_path}/adjourn.db", detached=True) as desk:
        run = await desk.start("go")
        worker = Process(tmp_path)
        while not (tmp_path / "began").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        ending = asyncio.create_task(asyncio.to_thread(worker.end))
        (tmp_path / "go").touch()
        assert (await ending)["left"] == []
        left = await desk.get(run.id)
        assert (left.status, left.row.lease_owner, left.row.deaths) == ("running", None, 0)
        assert [one.outcome for one in left.calls] == ["ok"]


async def test_the_health_check_answers_while_it_works(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    worker = Process(tmp_path, "--health-port", str(port))
    answer = await asyncio.to_thread(
        lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read()
    )
    assert json.loads(answer) == {"driving": 0, "taken": 0}
    worker.end()


def test_the_doctor_tells_what_is_stuck(office, capsys):
    runner = office.runner()
    runner.database.setup()
    assert doctor(Settings(store=office.url, json=True)) == 0
    assert json.loads(capsys.readouterr().out)["dead"] == {"count": 0, "wrong": False}
    row = starts.new_run(
        "go", thread_id="t", by=None, run_id="run_d", graph="office", signature="s", owner="dead", lease_s=-1
    )
    runner.database.write(lambda c: starts.store(c, row))
    assert doctor(Settings(store=office.url)) == 4
    assert "1 run lost its process" in capsys.readouterr().out
