"""What a person sees with `sqlite3 FILE` and plain SELECTs (C-69, C-70)."""

import subprocess
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from store.every_view import VIEWS
from store.stored_graphs import config, execute, put

from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.checkpoints.views import view_statements

CALLS: Any = [{"id": "c1", "name": "search", "args": {"q": "x"}, "type": "tool_call"}]

RUN = """
INSERT INTO runs (id, thread_id, graph, signature, started_by, status, stop_reason, input, steps, created_at, updated_at, ended_at)
VALUES ('run_1', 't', 'demo', 's', 'wang', 'finished', 'answered', '{}', 4, '2026-11-29T10:00:00.000000Z', '2026-11-29T10:00:02.500000Z', '2026-11-29T10:00:02.500000Z'),
       ('run_2', 'u', 'demo', 's', 'li', 'interrupted', NULL, '{}', 2, '2026-11-29T11:00:00.000000Z', '2026-11-29T11:00:01.000000Z', NULL);
INSERT INTO steps (run_id, step, model, latency_ms, input_tokens, output_tokens, calls, started_at, ended_at)
VALUES ('run_1', 1, 'm', 900, 10, 2, 2, '', ''), ('run_1', 2, 'm', 300, NULL, NULL, 1, '', ''), ('run_1', 3, 'm', 500, 30, 4, 0, '', '');
INSERT INTO calls (run_id, step, call_id, batch, position, tool, effect, arguments, outcome, attempts, planned_at, started_at, ended_at, took_ms)
VALUES ('run_1', 1, 'c1', 0, 0, 'search', 'read', '{}', 'ok', 1, '', '2026-11-29T10:00:00.000000Z', '2026-11-29T10:00:00.100000Z', 100),
       ('run_1', 1, 'c2', 0, 1, 'search', 'read', '{}', 'failed', 1, '', '2026-11-29T10:00:00.000000Z', '2026-11-29T10:00:00.300000Z', 300),
       ('run_1', 2, 'c3', 0, 0, 'restart', 'write', '{}', 'declined', 0, '', NULL, NULL, NULL);
INSERT INTO interrupts (id, run_id, step, call_id, position, type, tool, arguments, reason, payload, response_schema, state, created_at)
VALUES ('i1', 'run_1', 2, 'c3', 0, 'confirm_risky', 'restart', '{}', 'risky', '{}', '{}', 'answered', '2026-11-29T10:00:00.000000Z'),
       ('i2', 'run_2', 2, 'c9', 0, 'confirm_risky', 'restart', '{}', 'risky', '{}', '{}', 'open', '2026-11-29T11:00:00.000000Z');
"""


def fill(saver: SQLAlchemySaver) -> None:
    first = [HumanMessage("看看支付服务", id="h"), AIMessage("one moment", id="old")]
    where = put(saver, config(), {"messages": first})
    talk = [
        first[0],
        AIMessage("", id="a", tool_calls=CALLS),
        ToolMessage('{"ok": true}', id="o", tool_call_id="c1", name="search"),
    ]
    put(saver, where, {"messages": [*talk, AIMessage("All is well.", id="z")]}, 2)
    put(saver, config("u"), {"messages": [HumanMessage("hello", id="h")]})


@pytest.fixture
def filled(saver: SQLAlchemySaver) -> SQLAlchemySaver:
    fill(saver)
    for statement in RUN.split(";\n"):
        if statement.strip():
            execute(saver, statement)
    return saver


def select(saver: SQLAlchemySaver, query: str) -> list[Any]:
    return saver.database.read(lambda connection: [tuple(row) for row in connection.execute(sa.text(query))])


def test_v_messages_reads_as_the_conversation(filled: SQLAlchemySaver) -> None:
    assert select(
        filled, "SELECT thread_id, position, role, name, content, tool_call_id FROM v_messages"
    ) == [
        ("t", 1, "user", None, "看看支付服务", None),
        ("t", 2, "assistant", None, "", None),
        ("t", 3, "tool", "search", '{"ok": true}', "c1"),
        ("t", 4, "assistant", None, "All is well.", None),
        ("u", 1, "user", None, "hello", None),
    ]
    assert "search" in select(filled, "SELECT tool_calls FROM v_messages WHERE message_id = 'a'")[0][0]


def test_the_sqlite3_program_shows_it_without_python(file_url: str) -> None:
    with SQLAlchemySaver(file_url) as saver:
        fill(saver)
    path = file_url.removeprefix("sqlite:///")
    try:
        shown = subprocess.run(
            ["sqlite3", path, "select content from v_messages where thread_id = 't'"],
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        pytest.skip("the sqlite3 program is not here")
    assert shown.stdout.splitlines()[0] == "看看支付服务"


def test_the_views_answer_what_people_ask(filled: SQLAlchemySaver) -> None:
    assert select(filled, "SELECT id, stop_reason, wall_ms FROM v_runs") == [
        ("run_2", "ask_user", 1000),
        ("run_1", "answered", 2500),
    ]
    assert select(filled, "SELECT thread_id, waits FROM v_threads ORDER BY thread_id") == [("t", 0), ("u", 1)]
    assert select(filled, "SELECT id, thread_id FROM v_waiting") == [("i2", "u")]
    assert select(filled, "SELECT id, state FROM v_answers") == [("i1", "answered")]
    assert select(filled, "SELECT call_id, took_ms FROM v_calls") == [("c1", 100), ("c2", 300), ("c3", None)]
    assert sorted(select(filled, "SELECT * FROM v_tools")) == [
        ("restart", 1, 0, 0, None, None, None, None, None),
        ("search", 2, 2, 1, 0.5, 200.0, 100, 300, 300),
    ]
    assert select(filled, "SELECT * FROM v_models") == [("m", 3, 40, 0, 6, 0.0, 500, 900)]
    assert dict(select(filled, "SELECT * FROM v_metrics")) == {
        "runs": 2.0,
        "steps per run": 4.0,
        "tool calls": 3.0,
        "tool failure rate": 0.5,
        "questions": 2.0,
        "questions answered": 0.5,
        "questions answered and carried to the end": 0.5,
        "input tokens": 0.0,
        "output tokens": 0.0,
        "cost": 0.0,
    }
    assert dict(select(filled, "SELECT * FROM v_stop_reasons")) == {"ask_user": 1, "answered": 1}


def test_every_view_has_a_comment_and_can_be_read(filled: SQLAlchemySaver) -> None:
    statements = view_statements(filled.database.engine.dialect.name)
    assert len(statements) == len(VIEWS)
    for statement in statements:
        assert statement.splitlines()[1].startswith("-- "), statement
    for name in VIEWS:
        select(filled, f"SELECT * FROM {name}")


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "mariadb"])
def test_every_word_is_known_to_every_database(dialect: str) -> None:
    assert all("@" not in statement for statement in view_statements(dialect))
