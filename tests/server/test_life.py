"""The server's own life: it is told to go, it is killed, it comes back; runs lose nothing (C-36, C-91)."""

import asyncio
import contextlib
import os
import random
import signal
import threading
import time

import httpx
import pytest
from server import served_app
from server.conftest import Api, Process, frames, until

from adjourn.checkpoints.database import Database
from adjourn.graph import Runner, build_react, starts
from adjourn.graph.server import hosting
from adjourn.graph.server.hosting import Hosting
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

BUSY = served_app.BUSY


def status(api: Api, run_id: str) -> str:
    return str(api.get(f"/runs/{run_id}").json()["status"])


def test_c91_a_server_that_is_killed_in_a_read_takes_its_run_up_again(process):
    server = process("checks")
    server.hold("check")
    with Api(server.url) as api:
        run = api.start(wait_s=0)
        server.wait_in("check")
    server.kill()
    server.let_go("check")
    server.start()
    with Api(server.url) as api:
        assert until(lambda: status(api, run["id"]) == "finished")
        stored = api.stored(run["id"])
        assert [one["number"] for one in stored] == list(range(1, len(stored) + 1))
    assert server.ran() == ["check", "check", "search_docs"]  # a read that was killed is read again


def test_c36_a_server_that_is_killed_in_a_write_asks_what_became_of_it(process):
    server = process("build")
    with Api(server.url) as api:
        run = api.answer(api.start(), {"environment": "prod"})
        server.hold("restart")
        api.answer(run, {"action": "approve"}, wait_s=0)
        server.wait_in("restart")
    server.kill()
    server.let_go("restart")
    server.start()
    with Api(server.url) as api:
        asked = until(lambda: api.get("/inbox").json()["questions"])
        assert asked[0]["question"]["type"] == "outcome_unknown"
        run = api.get(f"/runs/{run['id']}").json()
        done = api.answer(run, {"action": "happened", "result": {"restarted": True}})
        assert done["status"] == "finished"
    assert server.ran().count("restart") == 1


def test_c67_clients_catch_up_after_a_kill_without_a_gap_or_a_repeat(process):
    server = process("checks")
    server.hold("check")
    heard: list[int] = []

    def listener() -> None:
        with Api(server.url) as mine:
            while True:
                headers = {"Last-Event-ID": str(heard[-1])} if heard else {}
                try:
                    with mine.stream("GET", f"/runs/{run['id']}/events", headers=headers) as response:
                        if response.status_code == 204:
                            return
                        heard.extend(int(one["id"]) for one in frames(response) if "id" in one)
                except httpx.TransportError:
                    continue

    with Api(server.url) as api:
        run = api.start(wait_s=0)
    listening = threading.Thread(target=listener)
    listening.start()
    until(lambda: heard)
    server.wait_in("check")
    server.kill()
    server.let_go("check")
    server.start()
    listening.join(60)
    with Api(server.url) as api:
        assert heard == [one["number"] for one in api.stored(run["id"])]
        assert status(api, run["id"]) == "finished"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_told_to_go_the_server_ends_the_step_and_hands_the_run_back(process, how, tmp_path):
    server = process("checks", "--lease", "600")  # nobody could take it over by its lease
    server.hold("check")
    with Api(server.url) as api:
        run = api.start(wait_s=0)
        server.wait_in("check")
        heard = []
        with api.stream("GET", f"/runs/{run['id']}/events") as response:
            for one in frames(response):  # until the server closes it
                heard.append(one)
                if len(heard) == 5:
                    server.tell(how)
        assert [int(one["id"]) for one in heard if "id" in one] == [1, 2, 3, 4]
    with Api(server.url) as api:
        until(lambda: refuses(api))
    server.let_go("check")
    assert server.wait() == 0
    assert server.errors.read_text() == ""
    with Runner(served_app.plain(), f"sqlite:///{tmp_path / 'adjourn.db'}") as looking:
        left = looking.get_sync(run["id"])
    assert (left.status, left.row.lease_owner) == ("running", None)
    assert [one.outcome for one in left.calls] == ["ok"]
    server.start()
    with Api(server.url) as api:
        assert until(lambda: status(api, run["id"]) == "finished")
    assert server.ran() == ["check", "search_docs"]  # the step that was in hand is not done again


def test_c65_killed_at_any_moment_a_listener_misses_nothing_and_a_write_happens_once(process):
    """`ADJOURN_SERVER_KILLS` kills, at moments that a generator chose: wherever it falls, the story is one."""
    kills, chance = int(os.environ.get("ADJOURN_SERVER_KILLS", "3")), random.Random(1)
    server = process("busy")
    heard: list[int] = []
    gone = threading.Event()

    def listener() -> None:
        while not gone.is_set():
            headers = {"Last-Event-ID": str(heard[-1])} if heard else {}
            path = f"/runs/{run['id']}/events"
            with (
                contextlib.suppress(httpx.TransportError),
                Api(server.url) as mine,
                mine.stream("GET", path, headers=headers) as response,
            ):
                heard.extend(int(one["id"]) for one in frames(response) if "id" in one)
            gone.wait(0.1)

    with Api(server.url) as api:
        run = api.start(wait_s=0)
    listening = threading.Thread(target=listener)
    listening.start()
    for _ in range(kills):
        with Api(server.url) as api:
            until(lambda: settled(api, server, run["id"]) != "interrupted")
        time.sleep(chance.uniform(0.0, 0.7))  # a lease is 0.6 s: some fall before the run was taken up
        server.kill()
        server.start()
    with Api(server.url) as api:
        until(lambda: settled(api, server, run["id"]) == "finished")
        numbers = [one["number"] for one in api.stored(run["id"])]
        until(lambda: len(heard) >= len(numbers))
    gone.set()
    listening.join(60)
    assert heard == numbers == list(range(1, len(numbers) + 1))
    assert server.ran("n") == list(range(BUSY))


def settled(api: Api, server: Process, run_id: str) -> str:
    """The run's status. A write that was in hand is asked about: the test knows whether it happened."""
    run = api.get(f"/runs/{run_id}").json()
    did = server.ran("n")
    answers = {
        one["id"]: {"action": "happened", "result": 1} if one["arguments"]["n"] in did else {"action": "run"}
        for one in run["interrupts"]
    }
    if answers:
        api.post(f"/runs/{run_id}/answers", json={"answers": answers})
    return str(run["status"])


def refuses(api: Api) -> bool:
    """Whether the server takes no more work: it says so, or does not answer at all."""
    try:
        return api.get("/healthz").status_code == 503
    except httpx.TransportError:
        return True


def test_told_twice_the_server_goes_at_once_and_its_run_is_taken_over_after_its_lease(process, tmp_path):
    server = process("checks")
    server.hold("check")
    with Api(server.url) as api:
        run = api.start(wait_s=0)
        server.wait_in("check")
    server.tell()
    with Api(server.url) as api:
        until(lambda: refuses(api))
    server.tell()
    assert server.wait() == 0
    server.let_go("check")
    with Runner(served_app.plain(), f"sqlite:///{tmp_path / 'adjourn.db'}") as looking:
        assert looking.get_sync(run["id"]).status == "running"  # left, not cancelled
    server.start()
    with Api(server.url) as api:
        assert until(lambda: status(api, run["id"]) == "finished")


def test_a_server_sweeps_up_runs_that_another_process_left(serve):
    served = serve(served_app.plain, sweep_s=0.1)
    row = starts.new_run(
        "go",
        thread_id="t",
        by="wang",
        run_id="run_left",
        graph="shop",
        signature="s",
        owner="dead",
        lease_s=-1,
    )
    served.runner.database.write(lambda c: starts.store(c, row))
    assert until(lambda: status(served.api(), "run_left") == "finished")


def test_small_answers_are_sent_at_once(serve):
    """Without TCP_NODELAY each answer waits 40 ms for the acknowledgement of its head."""
    api = serve(served_app.plain).api()
    took = []
    for _ in range(15):
        began = time.perf_counter()
        api.get("/healthz").raise_for_status()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.03


def test_a_server_that_goes_takes_no_more_work(serve):
    served = serve(served_app.plain)
    api = served.api()
    assert api.get("/healthz").status_code == 200
    served.stop()
    assert refuses(api)


async def test_c91_a_run_that_cannot_be_taken_over_is_in_no_others_way(tmp_path, caplog):
    database = Database(f"sqlite:///{tmp_path / 'adjourn.db'}")
    with Runner(served_app.plain(), database) as runner:
        # the older one comes first in each sweep
        for number, run_id in enumerate(("run_first", "run_second")):
            row = starts.new_run(
                "go",
                thread_id=run_id,
                by=None,
                run_id=run_id,
                graph=runner.name,
                signature=runner.signature,
                owner="dead",
                lease_s=number - 9,
            )
            database.write(lambda connection, row=row: starts.store(connection, row))
        recover = runner.recover

        async def recovering(run_id, **settings):
            if run_id == "run_first":
                raise RuntimeError("what it needs is not there")
            return await recover(run_id, **settings)

        runner.recover = recovering
        hosting = Hosting(runner)
        await hosting.take_over()
        await hosting.wait("run_second", 30)
        assert (await runner.get("run_second")).status == "finished"
        assert caplog.text.count("run_first could not be taken over") == 1
        await hosting.take_over()  # it is tried again, but not at once
        assert caplog.text.count("run_first could not be taken over") == 1
    database.close()


async def test_c91_a_run_with_expired_questions_that_cannot_go_on_is_in_no_others_way(tmp_path, monkeypatch):
    @tool(effect="write", confirm="Send {what}?", expires_in_s=0.01)
    def send(what: str) -> str:
        """Send."""
        return "sent"

    model = ScriptedModel(turns=[says("", call("send", {"what": "it"})), "nobody agreed"], by_history=True)
    monkeypatch.setattr(hosting, "MOST_AT_ONCE", 1)
    with Runner(build_react(model, [send]), f"sqlite:///{tmp_path / 'adjourn.db'}") as runner:
        first, second = [(await runner.start("go")).id for _ in range(2)]  # the older one comes first
        await asyncio.sleep(0.02)
        recover = runner.recover

        async def recovering(run_id, **settings):
            if run_id == first:
                raise RuntimeError("what it needs is not there")
            return await recover(run_id, **settings)

        runner.recover = recovering
        sweeping = Hosting(runner)
        for _ in range(2):
            await sweeping.take_over()
        await sweeping.wait(second, 30)
        assert (await runner.get(second)).status == "finished"
