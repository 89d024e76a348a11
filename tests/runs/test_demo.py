"""`adjourn demo` as a newcomer meets it: a first process stops, a second one goes on by the printed command."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest


class Newcomer:
    """Somebody in an empty folder, with no environment to speak of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = ("PATH", "HOME", "LANG")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}

    def types(self, *command: str, status: int) -> str:
        """Run a command of one process; what it printed."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def demo(self, *more: str) -> str:
        """`adjourn demo`."""
        return self.types(sys.executable, "-m", "adjourn.graph", "demo", *more, status=0)

    def printed(self, output: str) -> list[str]:
        """The command that goes on, as the program printed it."""
        line = next(one for one in output.splitlines() if " resume run_" in one)
        return shlex.split(line)

    def select(self, statement: str) -> list[tuple]:
        """Rows of the demo's database."""
        with closing(sqlite3.connect(self.folder / "adjourn-demo" / "adjourn.db")) as connection:
            return connection.execute(statement).fetchall()

    def restarts(self) -> int:
        """How often the service was really restarted."""
        state = (self.folder / "adjourn-demo" / "services_state.json").read_text()
        return sum(int(one) for one in re.findall(r'"restarts":\s*(\d+)', state))


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path)


def test_the_demo_stops_goes_on_elsewhere_and_restarts_after_an_approval(newcomer: Newcomer) -> None:
    go_on = newcomer.printed(newcomer.demo("--lang", "en"))
    assert newcomer.select("SELECT status FROM runs") == [("interrupted",)]
    wrong = [re.sub("environment=.*", "environment=moon", word) for word in go_on]
    newcomer.types(*wrong, status=2)
    assert newcomer.select("SELECT state FROM interrupts") == [("open",)]
    approve = newcomer.printed(newcomer.types(*go_on, status=3))
    assert "--approve" in approve
    assert newcomer.restarts() == 0
    last = newcomer.types(*approve, status=0)
    assert "finished (answered)" in last
    assert newcomer.restarts() == 1
    newcomer.types(*approve, status=5)
    assert newcomer.restarts() == 1
    searched = newcomer.select("SELECT outcome, attempts FROM calls WHERE tool = 'search_docs'")
    assert searched == [("ok", 1)]


def test_the_demo_in_chinese_and_a_rejection_that_restarts_nothing(newcomer: Newcomer) -> None:
    first = newcomer.demo("--lang", "zh")
    assert "看看支付服务最近报错" in newcomer.select("SELECT input FROM runs")[0][0]
    approve = newcomer.printed(newcomer.types(*newcomer.printed(first), status=3))
    place = approve.index("--approve")
    approve[place : place + 2] = ["--reject", approve[place + 1], "--reason", "高峰期"]
    answer = newcomer.types(*approve, status=0)
    assert newcomer.restarts() == 0
    assert newcomer.select("SELECT outcome FROM calls WHERE tool = 'restart_service'") == [("declined",)]
    assert "高峰期" in answer


def test_the_demo_on_a_folder_of_one_s_own(newcomer: Newcomer) -> None:
    own = newcomer.folder / "own"
    own.mkdir()
    (own / "app.log").write_text(
        "2026-11-29 10:00:00 INFO started\n2026-11-29 10:00:05 ERROR disk full on /data\n"
    )
    (own / "notes.md").write_text("# Disk full\n\nDelete old dumps, then restart the job.\n")
    output = newcomer.demo(
        "--data", str(own), "--message", "What went wrong, the disk is full?", "--lang", "en"
    )
    assert newcomer.select("SELECT count(*) FROM runs") == [(1,)]
    answer = newcomer.types(*newcomer.printed(output), status=0)
    assert "disk full on" in answer
    shown = json.loads(
        newcomer.types(
            *(sys.executable, "-m", "adjourn.graph", "runs", "--json"),
            *("--store", "sqlite:///adjourn-demo/adjourn.db"),
            status=0,
        )
    )
    assert shown[0]["status"] in ("interrupted", "finished")


def test_the_demos_flow_goes_in_order_over_two_processes(newcomer: Newcomer) -> None:
    first = newcomer.demo("--flow", "open-database", "--lang", "zh")
    again = newcomer.types(*newcomer.printed(first), status=0)
    assert "创建" in again and "finished (answered)" in again
    with closing(sqlite3.connect(newcomer.folder / "adjourn-demo" / "adjourn.db")) as database:
        steps = database.execute("SELECT step, status FROM v_flow_steps").fetchall()
    assert steps == [(one, "done") for one in ("find", "quota", "create", "verify")]
    created = json.loads((newcomer.folder / "adjourn-demo" / "databases.json").read_text())
    assert [one["service_id"] for one in created] == ["svc-pay-001"]


def test_the_demos_supervisor_passes_a_specialists_question_on(newcomer: Newcomer) -> None:
    first = newcomer.demo("--supervisor")
    assert "logs" in first and "params_required" in first
    # both speak at once, each in lines of its own
    stand_in = "(I am the demo's stand-in: I follow fixed rules and am no language model.)"
    for path in ("logs", "docs"):
        assert f"[{path}] {stand_in} I look" in first
    again = newcomer.types(*newcomer.printed(first), status=0)
    assert "finished (answered)" in again and "HikariPool" in again
    with closing(sqlite3.connect(newcomer.folder / "adjourn-demo" / "adjourn.db")) as database:
        runs = database.execute("SELECT path, status FROM runs ORDER BY path").fetchall()
    assert runs == [("", "finished"), ("docs", "finished"), ("logs", "finished")]


def test_the_demo_shows_one_thing_at_a_time(newcomer: Newcomer) -> None:
    newcomer.types(
        sys.executable, "-m", "adjourn.graph", "demo", "--supervisor", "--flow", "open-database", status=2
    )
    newcomer.types(sys.executable, "-m", "adjourn.graph", "demo", "--flow", "other", status=2)
    assert list(newcomer.folder.iterdir()) == []
