"""The command line as separate processes, as users run it: pipes, signals, exit statuses, the demo."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ADJOURN = [sys.executable, "-m", "adjourn.graph"]
TIMEOUT_S = 60.0  # importing LangGraph takes seconds on a busy machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the test's app in it."""
    shutil.copy(Path(__file__).with_name("cli_app.py"), tmp_path / "app.py")
    return tmp_path


def environment() -> dict[str, str]:
    """This process's, without settings of the command line."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
    return {**kept, "LC_ALL": "C.UTF-8"}


def adjourn(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` to its end."""
    return run(folder, [*ADJOURN, *words])


def run(folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program in `folder` to its end; nothing may print a traceback."""
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


def test_looking_at_runs_imports_neither_langgraph_nor_the_demo(folder: Path) -> None:
    """Start-up time: the lists read the database alone."""
    script = """
import sys
from adjourn.checkpoints.database import Database
from adjourn.graph.cli import main
Database("sqlite:///adjourn.db").setup()
assert main(["runs"]) == 0
assert main(["--help"]) == 0
slow = [name for name in sys.modules if name.split(".")[0] in ("langgraph", "langchain_core", "jsonschema")]
assert not slow, slow
assert not [name for name in sys.modules if name.startswith(("adjourn.graph.demo", "adjourn.nodes"))]
"""
    done = run(folder, [sys.executable, "-c", script])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_printed_commands_work_as_printed(folder: Path) -> None:
    """C-43, C-95: each process goes on where the one before it stopped."""
    first = adjourn(folder, "run", "看看支付", "--app", "app.py:build", "--store", "sqlite:///a b.db")
    assert first.returncode == 3
    command = first.stdout.splitlines()[-1].strip()
    assert "--store 'sqlite:///a b.db'" in command
    second = run(folder, shlex.split(command.replace("environment=VALUE", "environment=prod")))
    assert second.returncode == 3
    third = run(folder, shlex.split(second.stdout.splitlines()[-1]))
    assert (third.returncode, third.stdout.splitlines()[-2:]) == (0, ["已处理。", "finished (answered)"])
    fourth = run(folder, shlex.split(second.stdout.splitlines()[-1]))
    assert (fourth.returncode, fourth.stdout) == (5, "")


def test_the_demo_runs_in_two_processes_and_more(tmp_path: Path) -> None:
    first = adjourn(tmp_path, "demo", "--lang", "zh")
    assert (first.returncode, first.stderr) == (0, "")
    command = next(one for one in first.stdout.splitlines() if " resume run_" in one)
    assert ".environment=prod" in command
    assert ".service_id=svc-pay-001" in command
    second = run(tmp_path, shlex.split(command))
    assert (second.returncode, second.stderr) == (3, "")
    third = run(tmp_path, shlex.split(second.stdout.splitlines()[-1]))
    assert (third.returncode, third.stderr) == (0, "")
    show = next(one for one in first.stdout.splitlines() if " show run_" in one)
    assert "restart_service" in run(tmp_path, shlex.split(show)).stdout


def test_the_demo_in_a_folder_of_its_own_name(tmp_path: Path) -> None:
    first = adjourn(tmp_path, "demo", "--dir", "my demo", "--lang", "en")
    command = next(one.strip() for one in first.stdout.splitlines() if " resume run_" in one)
    assert command.startswith("ADJOURN_DEMO_DIR='my demo' ")
    second = run(tmp_path, ["sh", "-c", command])
    assert second.returncode == 3
    assert "ADJOURN_DEMO_DIR='my demo' " in second.stdout.splitlines()[-1]
    assert not (tmp_path / "adjourn-demo").exists()


def test_ctrl_c_cancels_the_run(folder: Path) -> None:
    """C-62, C-95: the run writes its end; the exit status is 130."""
    process = subprocess.Popen(
        [*ADJOURN, "run", "hello", "--app", "app.py:slow", "--json"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while (told := json.loads(process.stdout.readline()))["type"] != "step_started":
        pass
    run_id = told["run_id"]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "")
    assert json.loads(out.splitlines()[-1])["stop_reason"] == "cancelled"
    assert json.loads(adjourn(folder, "show", run_id, "--json").stdout)["status"] == "cancelled"


def test_a_reader_that_leaves_stops_neither_the_run_nor_is_it_told(folder: Path) -> None:
    python = shlex.quote(sys.executable)
    done = run(
        folder,
        ["sh", "-c", f"{python} -m adjourn.graph run 看看支付 --app app.py:build --json | head -n 1"],
    )
    assert done.stderr == ""
    run_id = json.loads(done.stdout)["run_id"]
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        shown = adjourn(folder, "show", run_id, "--json")
        if json.loads(shown.stdout)["status"] == "interrupted":
            break
    assert json.loads(shown.stdout)["status"] == "interrupted"
    assert run(folder, ["sh", "-c", f"{python} -m adjourn.graph events {run_id} | head -n 1"]).stderr == ""


def test_nothing_is_coloured_or_wrapped_in_a_pipe(folder: Path) -> None:
    message = "请看看支付服务" * 30
    first = adjourn(folder, "run", message, "--app", "app.py:build")
    shown = adjourn(folder, "show", re.findall(r"run_\w+", first.stdout)[0])
    assert "\x1b" not in first.stdout + shown.stdout
    assert f"  {message}" in shown.stdout.splitlines()


def test_a_process_that_stays_keeps_what_it_has_loaded_from_the_collector(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from adjourn.graph import build_react\n"
        "from adjourn.nodes import ScriptedModel\n"
        "graph = build_react(ScriptedModel(turns=['x']))\n"
    )
    script = (
        "import gc\n"
        "from adjourn.graph.cli.apps import load\n"
        "from adjourn.graph.cli.staying import load_to_stay\n"
        "load('app.py:graph')\n"
        "before = gc.get_freeze_count()\n"
        "graph = load_to_stay('app.py:graph')\n"
        "print(before, gc.get_freeze_count() > 100_000, graph.get_name())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.split() == ["0", "True", "react"]
