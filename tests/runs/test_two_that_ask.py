"""A supervisor with two specialists that both ask, answered in either order by commands, each a process (C-43, C-82)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

APP = '''
from pathlib import Path
from adjourn.graph import Specialist, build_supervisor
from adjourn.nodes import ScriptedModel, tool
from adjourn.nodes.scripted import call, says

def act(what):
    with Path("effects").open("a") as out:
        out.write(f"{what}\\n")
    return what

@tool(effect="read", ask_for=("city",))
def locate(city: str) -> str:
    """Locate."""
    return act(f"locate {city}")

@tool(effect="write", confirm="Publish {what}?")
def publish(what: str) -> str:
    """Publish."""
    return act(f"publish {what}")

def scripted(*turns):
    return ScriptedModel(turns=list(turns), by_history=True)

def hand(name, id):
    return call("delegate", {"specialist": name, "task": "go"}, id=id)

def build():
    finds = scripted(says("", call("locate", {}, id="q")), "it is there")
    writes = scripted(says("", call("publish", {"what": "it"}, id="q")), "it is out")
    team = [
        Specialist(name="finder", about="finds", tools=[locate], model=finds),
        Specialist(name="writer", about="writes", tools=[publish], model=writes),
    ]
    boss = scripted(says("", hand("finder", "d1"), hand("writer", "d2")), "all done")
    return build_supervisor(boss, team, name="team")
'''


def adjourn(folder: Path, *command: str, status: int) -> Any:
    """One command, in a process of its own: what it printed, as data."""
    done = subprocess.run(
        [sys.executable, "-m", "adjourn.graph", *command, "--json"],
        cwd=folder,
        env={**os.environ, "ADJOURN_APP": "app.py:build", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("first", [0, 1])
def test_c82_both_are_shown_and_answered_in_either_order_by_other_processes(
    tmp_path: Path, first: int
) -> None:
    (tmp_path / "app.py").write_text(APP)
    adjourn(tmp_path, "run", "go", status=3)
    ((listed,),) = adjourn(tmp_path, "runs", "--interrupted", status=0)
    (shown,) = adjourn(tmp_path, "show", listed["id"], status=0)
    asked = {one["path"]: one["id"] for one in shown["interrupts"]}
    assert sorted(asked) == ["finder", "writer"]
    answers = [
        ["--set", f"{asked['finder']}.city=北京"],
        ["--approve", asked["writer"]],
    ]
    adjourn(tmp_path, "resume", listed["id"], *answers[first], "--by", "li", status=3)
    assert not (tmp_path / "effects").exists()
    adjourn(tmp_path, "resume", listed["id"], *answers[1 - first], "--by", "wang", status=0)
    (over,) = adjourn(tmp_path, "show", listed["id"], status=0)
    assert (over["status"], over["answer"]) == ("finished", "all done")
    assert sorted((tmp_path / "effects").read_text().splitlines()) == ["locate 北京", "publish it"]
