"""A secret on the command line: typed unseen, given by a file or stdin, never on a line of the shell (C-73)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs.terminal import Terminal

SECRET = "Zephyr-4711-word"
APP = '''
import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from adjourn.graph import build_react
from adjourn.nodes import ScriptedModel, Secret, tool
from adjourn.nodes.scripted import call, says

RAN = Path(__file__).with_name("ran.jsonl")


@tool(effect="write", confirm="Log {user} in?")
def login(user: str, password: Secret[Annotated[str, Field(min_length=4)]]) -> str:
    """Log in."""
    RAN.write_text(json.dumps([user, len(password)]))
    return f"{user} is in with {password}"


def build():
    """The app."""
    turns = [says("", call("login", {"user": "li"}, id="c")), "done"]
    return build_react(ScriptedModel(turns=turns, by_history=True), tools=[login], name="vault")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the app in it."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def kept(folder: Path) -> bytes:
    """Everything that is kept in the folder."""
    return b"".join(one.read_bytes() for one in folder.iterdir() if one.is_file())


def adjourn(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
    command = [sys.executable, "-m", "adjourn.graph", *words]
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, input=stdin, capture_output=True, text=True
    )


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_c73_the_form_does_not_show_what_is_typed(folder: Path, term: str) -> None:
    words = ("run", "log me in", "--app", "app.py:build", "--by", "li", "--lang", "en")
    person = Terminal(folder, *words, term=term)
    try:
        whole = lambda one: one.seen  # noqa: E731 - where to look
        person.waits_for("password", whole)
        person.waits_for("is not shown" if term == "dumb" else "? password", whole)
        person.presses("oil\r")  # too short: told without the word
        person.waits_for("it does not fit what is asked for", whole)
        person.presses(*(() if term == "dumb" else ("\x15",)), f"{SECRET}\r")
        person.waits_for("Log li in?", whole)
        person.waits_for("[secret]", whole)
        person.presses("2\r")  # an edit: the secret is not asked for again
        person.waits_for("user", whole)
        person.presses("\r")
        assert person.leaves() == 0
        assert SECRET not in person.seen
        assert "oil" not in person.seen  # no id holds an i, l or o
    finally:
        person.close()
    assert json.loads((folder / "ran.jsonl").read_text()) == ["li", len(SECRET)]
    assert SECRET.encode() not in kept(folder)


def test_c73_flags_refuse_a_secret_and_a_file_gives_it(folder: Path) -> None:
    started = adjourn(folder, "run", "log me in", "--app", "app.py:build", "--lang", "en")
    assert started.returncode == 3
    assert "--answers FILE.json" in started.stdout
    run_id = re.findall(r"run_\w+", started.stdout)[0]
    question = re.findall(r"int_\w+", started.stdout)[0]
    refused = adjourn(
        folder,
        "resume",
        run_id,
        "--set",
        f"{question}.password={SECRET}",
        "--by",
        "li",
        "--app",
        "app.py:build",
    )
    assert (refused.returncode, "--answers" in refused.stderr, SECRET in refused.stderr) == (2, True, False)
    answer = json.dumps({question: {"password": SECRET}})
    went_on = adjourn(
        folder, "resume", run_id, "--answers", "-", "--by", "li", "--app", "app.py:build", stdin=answer
    )
    assert (went_on.returncode, "confirm_risky" in went_on.stdout) == (3, True)
    asked = next(one for one in re.findall(r"int_\w+", went_on.stdout) if one != question)
    done = adjourn(folder, "resume", run_id, "--approve", asked, "--app", "app.py:build", "--by", "li")
    assert done.returncode == 0
    seen = adjourn(folder, "show", run_id).stdout
    assert ("[secret]" in seen, "adjourn-sealed" in seen) == (True, False)
    everything = [adjourn(folder, *words, run_id, "--json").stdout for words in (["show"], ["events"])]
    for text in (*everything, went_on.stdout, went_on.stderr, done.stdout, refused.stdout):
        assert SECRET not in text
    assert SECRET.encode() not in kept(folder)
    assert json.loads((folder / "ran.jsonl").read_text()) == ["li", len(SECRET)]
