"""What is kept of a run, readable by SQL on every engine and with the `sqlite3` program alone (C-68, C-69)."""

import json
import math
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from runs.shop import LIMITS, Shop
from store.every_view import VIEWS

from adjourn.checkpoints.database import Database
from adjourn.checkpoints.json_data import read_json
from adjourn.checkpoints.records import to_json
from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
TURNS = [
    says(
        "I look.",
        call("search_docs", {"query": "x"}, id="c1"),
        call("search_docs", {"query": "slow"}, id="c2"),
        call("search_docs", '{"query": "cut', id="c3"),
        call("query_logs", {}, id="c4"),
        usage=(100, 20),
        delay_s=0.05,
    ),
    says("", call("search_docs", {"query": "x", "top_k": 4}, id="c1"), usage=(150, 30)),
    says("done", usage=(200, 40)),
]
FAULT = RuntimeError("down, call ops@corp.com")
Select = Callable[[str], list[dict[str, Any]]]


def drive(database: Database) -> None:
    """A run with all there is: a failure, broken arguments, a question, calls side by side."""
    shop = Shop(delays={"search_docs:slow": 0.08}, fails={"search_docs:slow": FAULT})
    model = ScriptedModel(turns=TURNS, by_history=True)
    with Runner(build_react(model, shop.tools(), limits=LIMITS, name="ops"), database) as runner:
        run = runner.start_sync("look", thread_id="t1", run_id="run_k", by="wang")
        answer = {"environment": "prod", "service_id": "svc-pay-001"}
        done = runner.resume_sync(run.id, {run.interrupts[0].id: answer}, by="li")
        assert (done.status, len(done.calls)) == ("finished", 5), done.error


@pytest.fixture
def select(database: Database) -> Select:
    drive(database)
    return lambda query: database.read(
        lambda connection: [dict(row) for row in connection.execute(sa.text(query)).mappings()]
    )


def test_c68_of_a_run(select: Select) -> None:
    (run,) = select("SELECT * FROM v_runs")
    told = [
        run[name]
        for name in ("id", "thread_id", "parent_run_id", "graph", "started_by", "status", "stop_reason")
    ]
    assert told == ["run_k", "t1", None, "ops", "wang", "finished", "answered"]
    assert (run["steps"], run["input_tokens"], run["output_tokens"]) == (3, 450, 90)
    assert TIME.fullmatch(run["created_at"]) and TIME.fullmatch(run["ended_at"])
    assert run["created_at"] < run["ended_at"]
    assert 0 < run["active_ms"] <= run["wall_ms"]


def test_c68_of_each_step(select: Select) -> None:
    steps = select("SELECT * FROM v_steps")
    assert [(one["step"], one["calls"]) for one in steps] == [(1, 4), (2, 1), (3, 0)]
    assert [(one["input_tokens"], one["output_tokens"]) for one in steps] == [(100, 20), (150, 30), (200, 40)]
    assert steps[0]["latency_ms"] >= 50
    assert all(TIME.fullmatch(one["started_at"]) and one["started_at"] <= one["ended_at"] for one in steps)


def test_c68_of_each_call(select: Select) -> None:
    calls = select("SELECT * FROM v_calls")
    told = [
        (one["step"], one["call_id"], one["tool"], one["effect"], one["outcome"], one["error_code"])
        for one in calls
    ]
    assert told == [
        (1, "c1", "search_docs", "read", "ok", None),
        (1, "c2", "search_docs", "read", "failed", "tool_error"),
        (1, "c3", "search_docs", "read", "invalid", "invalid_arguments"),
        (1, "c4", "query_logs", "read", "ok", None),
        (2, "c1", "search_docs", "read", "ok", None),
    ]
    quick, slow, cut, asked, _ = calls
    assert [one["position"] for one in calls] == [0, 1, 2, 3, 0]
    assert quick["batch"] == slow["batch"]
    assert (json.loads(quick["arguments"]), cut["arguments"]) == ({"query": "x"}, None)
    assert (quick["raw"], cut["raw"]) == (None, '{"query": "cut')
    assert json.loads(asked["arguments"]) == {"environment": "prod", "service_id": "svc-pay-001"}
    assert len({one["digest"] for one in calls}) == 5
    assert [one["attempts"] for one in calls] == [1, 1, 0, 1, 1]
    assert slow["took_ms"] >= 80
    kept = json.loads(slow["error"])
    assert (kept["class"], kept["text"]) == ("builtins.RuntimeError", "down, call [email]")
    for one in calls:
        assert (one["started_at"] is None) == (one["took_ms"] is None) == (one is cut)
        assert TIME.fullmatch(one["planned_at"]) and TIME.fullmatch(one["ended_at"])
        assert one is cut or one["planned_at"] <= one["started_at"] <= one["ended_at"]
    assert quick["started_at"] < slow["ended_at"]  # side by side, and each with its own time
    assert slow["started_at"] < quick["ended_at"]


def test_c68_of_each_question(select: Select) -> None:
    (one,) = select("SELECT * FROM v_answers")
    told = [one[name] for name in ("run_id", "step", "call_id", "type", "tool", "state", "answered_by")]
    assert told == ["run_k", 1, "c4", "params_required", "query_logs", "answered", "li"]
    assert "environment" in one["reason"]
    assert json.loads(one["answer"]) == {"environment": "prod", "service_id": "svc-pay-001"}
    assert one["created_at"] < one["closed_at"]
    assert one["waited_ms"] >= 0


def test_c69_all_of_it_without_python(file_url: str) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("the sqlite3 program is not here")
    database = Database(file_url)
    drive(database)
    database.close()
    path = file_url.removeprefix("sqlite:///")

    def ask(query: str) -> list[str]:
        shown = subprocess.run(["sqlite3", path, query], capture_output=True, text=True, check=True)
        return shown.stdout.splitlines()

    for view in VIEWS:
        assert ask(f"SELECT count(*) FROM {view}")[0] != "", view
    assert ask("SELECT role FROM v_messages") == [
        "user",
        "assistant",
        *["tool"] * 4,
        "assistant",
        "tool",
        "assistant",
    ]
    assert ask("SELECT tool, failed FROM v_tools ORDER BY tool") == ["query_logs|0", "search_docs|1"]
    assert ask("SELECT DISTINCT type FROM v_events")[:3] == ["run_started", "step_started", "message"]


def test_every_view_is_told_of() -> None:
    told = (Path(__file__).parents[2] / "docs" / "looking.md").read_text(encoding="utf-8")
    assert [name for name in VIEWS if f"`{name}`" not in told] == []


def texts(path: str) -> Iterator[tuple[str, str, str]]:
    """Every text value of the run tables, with its table and column."""
    connection = sqlite3.connect(path)
    for table in ("runs", "steps", "calls", "interrupts", "audit", "events"):
        rows = connection.execute(f"SELECT * FROM {table}")
        names = [one[0] for one in rows.description]
        for row in rows.fetchall():
            yield from (
                (table, name, value) for name, value in zip(names, row, strict=True) if isinstance(value, str)
            )
            assert not [value for value in row if isinstance(value, bytes)], table
    connection.close()


JSON_COLUMNS = {
    "input",
    "error",
    "arguments",
    "payload",
    "response_schema",
    "shown",
    "result",
    "data",
    "approvals",
}


def test_c69_times_are_iso_and_data_is_json(file_url: str) -> None:
    database = Database(file_url)
    drive(database)
    database.close()
    seen = set()
    for table, name, value in texts(file_url.removeprefix("sqlite:///")):
        seen.add(name)
        if name == "at" or (name.endswith(("_at", "_until")) and name != "forked_at"):
            assert TIME.fullmatch(value), (table, name, value)
        if name in JSON_COLUMNS or (table, name) == ("interrupts", "answer"):
            read_json(value)
    assert {"created_at", "started_at", "ended_at", "arguments", "result", "data", "payload"} <= seen


def test_c69_what_is_no_number_of_json_is_text_in_a_column(file_url: str) -> None:
    """A question shows the default of a parameter, which may be NaN: it breaks no run, and no reader of the database."""

    @tool(effect="write", confirm=True)
    def act(most: float = math.nan) -> str:
        """Act."""
        return str(most)

    model = ScriptedModel(turns=[says("", call("act", {}, id="a")), "done"])
    with Runner(build_react(model, [act], name="ops"), file_url) as runner:
        run = runner.start_sync("go")
        assert runner.resume_sync(run.id, {run.interrupts[0].id: approve()}).status == "finished"
    for _, name, value in texts(file_url.removeprefix("sqlite:///")):
        if name in JSON_COLUMNS:
            read_json(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ({"a": [math.nan, -math.inf, 1.5]}, '{"a": ["nan", "-inf", 1.5]}'),
        ("ö", '"ö"'),
        (["\ud800", math.nan], '["\\ud800", "nan"]'),
    ],
    ids=ascii,
)
def test_c69_a_value_is_stored_as_json(value: Any, text: str | None) -> None:
    assert to_json(value) == text
