"""`adjourn demo --flow` and `--supervisor` on a real client and server, over two processes (C-77, C-80)."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from wire.openai_server import OpenAIServer, Reply, fragment, streams


def calls(name: str, arguments: dict[str, Any], id: str) -> Reply:
    return streams([fragment(0, id, name, json.dumps(arguments))], finish="tool_calls")


def demo(folder: Path, server: OpenAIServer, *more: str) -> str:
    """The demo until it waits, then the command that it prints; what the second one printed."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "x"}

    def types(*command: str) -> str:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    first = types(
        sys.executable, "-m", "adjourn.graph", "demo", "--model", "scripted-1", "--lang", "en", *more
    )
    return types(*shlex.split(next(one for one in first.splitlines() if " resume run_" in one)))


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "adjourn-demo" / "adjourn.db")) as database:
        return database.execute(query).fetchall()


def test_c77_the_demos_flow_on_a_real_client(tmp_path: Path, server: OpenAIServer) -> None:
    server.replies += [
        calls("search_resource", {"query": "payment"}, "f"),
        calls("check_quota", {"service_id": "svc-pay-001"}, "q"),
        calls("create_database", {"service_id": "svc-pay-001", "environment": "prod"}, "c"),
        streams("It is open."),
    ]
    assert "It is open." in demo(tmp_path, server, "--flow", "open-database")
    offered = [[one["function"]["name"] for one in sent.body.get("tools", [])] for sent in server.requests]
    assert offered[:3] == [["search_resource"], ["check_quota"], ["create_database"]]
    forced = [sent.body.get("tool_choice") for sent in server.requests[:3]]
    assert forced[0] is None and forced[1]["function"]["name"] == "check_quota" and forced[2] is None
    steps = rows(tmp_path, "SELECT step, status FROM v_flow_steps")
    assert steps == [(one, "done") for one in ("find", "quota", "create", "verify")]


def test_c80_the_demos_supervisor_on_a_real_client(tmp_path: Path, server: OpenAIServer) -> None:
    server.replies += [
        calls("delegate", {"specialist": "logs", "task": "read the errors"}, "d1"),
        calls("query_logs", {}, "l"),
        streams("The pool is full."),  # from here on in the second process
        calls("delegate", {"specialist": "docs", "task": "find the runbook"}, "d2"),
        calls("search_docs", {"query": "connection pool"}, "s"),
        streams("Restart it."),
        streams("The pool is full: restart it."),
    ]
    assert "The pool is full: restart it." in demo(tmp_path, server, "--supervisor")
    offered = [[one["function"]["name"] for one in sent.body.get("tools", [])] for sent in server.requests]
    assert offered == [
        ["delegate"],
        ["query_logs"],
        ["query_logs"],
        ["delegate"],
        ["search_docs"],
        ["search_docs"],
        ["delegate"],
    ]
    found = rows(tmp_path, "SELECT path, status, stop_reason FROM runs ORDER BY path")
    assert found == [(one, "finished", "answered") for one in ("", "docs", "logs")]
