"""The READMEs' section on workers: its commands work as printed, on a real PostgreSQL."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import READMES, file
from store.engines import engines
from wire.openai_server import OpenAIServer, fragment, streams

STORE = "postgresql+psycopg://localhost/ops"
LIMIT_S = 60.0


def commands(language: str) -> list[str]:
    """The three commands of the section."""
    found = re.search(r"<!-- workers -->\n```\n(.*?)```", READMES[language].read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def test_both_languages_print_the_same_three_commands() -> None:
    assert commands("en") == commands("zh")
    install, *_ = commands("en")
    assert install == "pip install '.[postgres,server]'"


class Processes:
    """Commands as printed, in a folder with the script `ops.py`."""

    def __init__(self, folder: Path, model: OpenAIServer, store: str) -> None:
        (folder / "ops.py").write_text(file(READMES["en"].read_text("utf-8"), "ops.py"), encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
        self._env: Mapping[str, str] = {
            **kept, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "x", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self._folder, self._store = folder, store
        self._started: list[subprocess.Popen[str]] = []

    def start(self, line: str, *more: str) -> dict[str, Any]:
        """What it says first."""
        assert STORE in line
        words = [self._store if one == STORE else one for one in shlex.split(line)]
        assert words.pop(0) == "adjourn"
        process = subprocess.Popen(
            [sys.executable, "-m", "adjourn.graph", *words, "--json", *more],
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._started.append(process)
        assert process.stdout is not None
        said: dict[str, Any] = json.loads(process.stdout.readline())
        return said

    def end(self) -> list[int]:
        """Ask each to go; gives their exit statuses."""
        for one in self._started:
            one.terminate()
        for one in self._started:
            one.communicate(timeout=LIMIT_S)
        return [one.returncode for one in self._started]


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    asks = streams(
        [fragment(0, "call_1", "restart", '{"service": "pay", "environment": "prod"}')], finish="tool_calls"
    )
    with OpenAIServer([asks, streams("Restarted.")]) as server:
        yield server


def request(url: str, body: Any = None) -> dict[str, Any]:
    """The JSON that the server answers."""
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent, timeout=LIMIT_S) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def until(url: str, status: str) -> dict[str, Any]:
    """The run, when it stands so."""
    end = time.monotonic() + LIMIT_S
    while (run := request(url))["status"] != status:
        assert time.monotonic() < end, run
        time.sleep(0.1)
    return run


def test_c43_the_server_accepts_and_the_worker_drives(tmp_path: Path, model: OpenAIServer) -> None:
    _, serve, work = commands("en")
    with engines() as servers:
        processes = Processes(tmp_path, model, servers.new("postgresql", tmp_path))
        try:
            url = processes.start(serve, "--port", "0")["url"]
            run = request(f"{url}/runs", {"message": "Restart payments."})
            assert (run["status"], run["steps"]) == ("running", 0)
            processes.start(work)
            asked = until(f"{url}/runs/{run['id']}", "interrupted")
            answers = {asked["interrupts"][0]["id"]: {"action": "approve"}}
            request(f"{url}/runs/{run['id']}/answers", {"answers": answers})
            assert until(f"{url}/runs/{run['id']}", "finished")["answer"] == "Restarted."
        finally:
            ended = processes.end()
        assert ended == [0, 0]
