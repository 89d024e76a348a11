"""Looking at runs by the command line: `events --follow` as a separate process, `show` with its timeline and page."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from runs.shop import Shop
from runs.test_cli_processes import ADJOURN, TIMEOUT_S, adjourn, environment

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database
from adjourn.graph import Limits, starts
from adjourn.graph.cli import main
from adjourn.nodes import approve, tool
from adjourn.nodes.scripted import Fails, call, says

RESTART = call("restart_service", {"service_id": "svc-pay-001", "environment": "prod"}, id="r1")


@pytest.fixture
def store(url: str) -> list[str]:
    return ["--store", url]


def follower(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`adjourn events --follow` in a process of its own."""
    return subprocess.Popen(
        [*ADJOURN, "events", "--follow", *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_c65_events_are_followed_while_another_process_drives(house, store, tmp_path):
    may_end = threading.Event()

    @tool(effect="read")
    def slow() -> str:
        """Slow."""
        assert may_end.wait(TIMEOUT_S)
        return "done"

    turns = [says("", call("slow", {}, id="s")), says("", call("slow", {}, id="s2")), "end"]
    runner = house.runner(turns, tools=[slow])
    done = []
    driving = threading.Thread(
        target=lambda: done.append(runner.start_sync("go", run_id="run_w", on_event=house.hear))
    )
    driving.start()
    while not runner.database.read(lambda c: journal.find_run_ids(c, "run_w")):
        pass
    with follower(tmp_path, "run_w", "--json", *store) as process:
        heard = []
        for line in process.stdout:
            heard.append(json.loads(line))
            if heard[-1]["type"] == "tool_call":  # it is shown while the tool works
                may_end.set()
        assert (process.wait(TIMEOUT_S), process.stderr.read()) == (0, "")
    driving.join(TIMEOUT_S)
    assert heard == json.loads(json.dumps([event.to_dict() for event in house.sent if event.stored]))
    assert heard[-1]["type"] == "run_finished"
    later = adjourn(tmp_path, "events", "--follow", "run_w", "--after", "9", "--json", *store)
    assert [json.loads(line) for line in later.stdout.splitlines()] == heard[9:]


def test_following_ends_where_a_run_waits_and_says_how_to_see_the_question(house, store, tmp_path):
    restart = call("restart_service", {"service_id": "s", "environment": "prod"}, id="r")
    run = house.runner([says("", restart), "done"]).start_sync("restart it", run_id="run_q")
    done = adjourn(tmp_path, "events", "run_q", "--follow", *store)
    assert done.returncode == 0
    *lines, hint, command = done.stdout.splitlines()
    assert "loop_interrupt" in lines[-1]
    assert hint == "it waits for a person; to see the questions, and how to go on:"
    assert f"show {run.id}" in command
    assert "等待人工处理" in adjourn(tmp_path, "events", "run_q", "--follow", "--lang", "zh", *store).stdout


def lost_run(url: str, lease_s: float) -> None:
    """A run whose owner stores nothing more."""
    database = Database(url)
    names = {"thread_id": "t", "by": None, "run_id": "run_l", "graph": "g", "signature": "s", "owner": "dead"}
    lost = starts.new_run("go", **names, lease_s=lease_s)
    database.write(lambda connection: starts.store(connection, lost))
    database.close()


def test_ctrl_c_ends_following_and_leaves_the_run_alone(url, store, tmp_path):
    lost_run(url, lease_s=60)
    with follower(tmp_path, "run_l", *store) as process:
        assert "run_started" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, complaint) == (130, "")
    database = Database(url)
    assert database.read(lambda c: journal.read_run(c, "run_l")).status == "running"
    database.close()


def test_a_run_that_nobody_drives_is_told_once_with_the_way_out(url, store, tmp_path):
    lost_run(url, lease_s=-60)
    with follower(tmp_path, "run_l", *store) as process:
        shown = [process.stdout.readline() for _ in range(4)]
        assert "nobody has driven it since 20" in shown[2]
        assert "recover run_l" in shown[3]
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def test_following_a_run_that_is_not_there(url, store, tmp_path):
    database = Database(url)
    database.setup()
    database.close()
    done = adjourn(tmp_path, "events", "--follow", "run_x", *store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "run_x" in done.stderr


def test_what_looks_at_runs_imports_no_langgraph(house, url, tmp_path):
    house.runner(["hello"]).start_sync("go", run_id="run_i")
    script = f"""
import sys
from adjourn.graph.cli import main
for command in (["runs"], ["show", "run_i"], ["show", "run_i", "--timeline"],
                ["show", "run_i", "--html", "run.html"], ["events", "run_i"], ["events", "run_i", "--follow"], ["metrics"],
                ["runs", "--limit", "5"], ["prune", "--older-than", "30d"], ["doctor"]):
    assert main([*command, "--store", {url!r}]) == 0, command
slow = [name for name in sys.modules if name.split(".")[0] in ("langgraph", "langchain_core", "jsonschema", "opentelemetry", "pydantic")]
slow += [name for name in sys.modules if name.startswith(("sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql"))]
assert not slow, slow
assert not [name for name in sys.modules if name.startswith(("adjourn.graph.demo", "adjourn.nodes"))]
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# -- why a run stopped, from `show` alone


@pytest.fixture
def show(store, capsys):
    """What `adjourn show RUN ...` prints, in one language."""

    def run(*words: str, lang: str = "en") -> str:
        assert main(["show", *words, *store, "--lang", lang]) == 0
        return capsys.readouterr().out

    return run


def looking(times: int, query: str = "x{}") -> list:
    return [says("", call("search_docs", {"query": query.format(n)}, id=f"c{n}")) for n in range(times)]


def test_c70_runs_that_stopped_for_three_reasons_are_told_apart_by_show_alone(house, show):
    broken = Shop(fails={"search_docs": RuntimeError("down")})
    house.runner(looking(9), limits=Limits(max_steps=3)).start_sync("go", run_id="run_steps")
    house.runner(looking(9), broken, limits=Limits(max_fails_in_row=2, breaker=None)).start_sync(
        "go", run_id="run_fails"
    )
    house.runner(looking(9, "same")).start_sync("go", run_id="run_loop")
    assert "It made 3 model calls, as many as it may, and had no final answer." in show("run_steps")
    assert "Every call failed, 2 steps in a row: search_docs (tool_error) ×2." in show("run_fails")
    assert 'the same again and again: search_docs {"query": "same"} ×3.' in show("run_loop")
    assert "已执行 3 次模型调用，达到上限" in show("run_steps", lang="zh")
    assert "反复请求同样的调用" in show("run_loop", lang="zh")
    told = {json.loads(show(one, "--json"))["why"] for one in ("run_steps", "run_fails", "run_loop")}
    assert len(told) == 3


async def test_show_says_who_cancelled_or_dismissed_a_run_and_who_is_waited_for(house, show):
    waiting = [says("", RESTART), "another way"]
    runner = house.runner(waiting)
    first = await runner.start("restart", thread_id="t", by="wang", run_id="run_first")
    assert re.search(r"It has waited for a person since 20\S+ \S+: 1 open.", show("run_first"))
    await house.runner(waiting).start("never mind", thread_id="t", by="zhao")
    assert "A new message came on its thread and took its place by zhao, 20" in show(first.id)
    other = await runner.start("restart", run_id="run_other")
    await runner.cancel(other.id, by="li")
    assert "It was cancelled by li, 20" in show("run_other")
    failed = await house.runner([Fails(ValueError("no such key"))]).start("go", run_id="run_failed")
    assert failed.status == "failed"
    assert "It gave up and can be resumed: " in show("run_failed")
    assert "no such key" in show("run_failed")
    lost_run(house.url, lease_s=-60)
    assert "nobody has driven it since 20" in show("run_l")


async def test_c68_a_read_that_was_cancelled_in_its_tool_has_its_time(house, show):
    entered = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """Slow."""
        entered.set()
        await asyncio.sleep(30)
        return "late"

    runner = house.runner([says("", call("slow", {}, id="s")), "end"], tools=[slow])
    running = asyncio.create_task(runner.start("go", run_id="run_c"))
    await entered.wait()
    await runner.cancel("run_c", by="li")
    (one,) = (await running).calls
    assert (one.outcome, one.attempts) == ("cancelled", 1)
    assert one.planned_at <= one.started_at <= one.ended_at
    assert one.took_ms is not None
    assert "It was cancelled by li, 20" in show("run_c")


@pytest.fixture
def restarted(house) -> str:
    """A run with calls side by side, a failure, a question and its answer."""
    shop = Shop(fails={"search_docs": RuntimeError("down")})
    reads = [
        call("search_resource", {"query": "<b>x</b>"}, id="a"),
        call("search_docs", {"query": "y"}, id="b"),
    ]
    runner = house.runner([says("I look.", *reads, RESTART), "done"], shop)
    run = runner.start_sync("看看支付服务", run_id="run_r", by="wang")
    return runner.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="li").id


def test_the_timeline_on_a_terminal_and_as_json(restarted, show):
    lines = show(restarted, "--timeline").splitlines()
    rows = {line[2:].split()[0]: line for line in lines if line[:1] in " ┌├└" and line[2:].strip()}
    assert rows["search_resource"].startswith("┌")
    assert rows["search_docs"].startswith("└")
    assert "failed" in rows["search_docs"]
    assert re.search(r"░.*█", rows["restart_service"])
    made = json.loads(show(restarted, "--timeline", "--json"))
    kinds = [[bar["kind"] for bar in row["bars"]] for row in made["rows"]]
    assert kinds == [["model"], ["call"], ["call"], ["wait", "call"], ["model"]]


def test_a_page_is_written_and_nothing_else_is_written_over(restarted, show, store, tmp_path, capsys):
    file = tmp_path / "run.html"
    assert str(file) in show(restarted, "--html", str(file))
    page = file.read_text(encoding="utf-8")
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x</b>" not in page
    assert show(restarted, "--html", "-", lang="zh").startswith('<!doctype html>\n<html lang="zh-CN">')
    assert json.loads(show(restarted, "--html", str(file), "--json")) == {"html": str(file)}
    mine = tmp_path / "notes.txt"
    mine.write_text("mine")
    for target, complaint in (
        (mine, "is no page; name another file"),
        (tmp_path / "no" / "x", "cannot be written"),
    ):
        assert main(["show", restarted, "--html", str(target), *store]) == 2
        assert complaint in capsys.readouterr().err
    assert mine.read_text() == "mine"


def test_a_run_in_a_notebook_shows_its_timeline(house, restarted):
    run = house.runners[0].get_sync(restarted)
    shown = run._repr_html_()
    assert shown.count("<svg") == 1
    assert "restart_service" in shown
    assert "&lt;b&gt;x&lt;/b&gt;" in shown
    assert "执行 2 步后得出回答。" in shown  # in the language of its input
