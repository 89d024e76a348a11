"""The commands, called in this process: what they print, what they store, and their exit status (C-95)."""

import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from adjourn.checkpoints.setup import VERSION
from adjourn.graph.cli import main


@dataclass
class Printed:
    """What a command left behind."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        """The output as one JSON value."""
        return json.loads(self.out)

    def lines(self) -> list[dict[str, Any]]:
        """The output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Adjourn = Callable[..., Printed]


@pytest.fixture
def adjourn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Adjourn]:
    """Runs a command in a folder that holds the test's app, over a store there."""
    shutil.copy(Path(__file__).with_name("cli_app.py"), tmp_path / "app.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("ADJOURN_STORE", "ADJOURN_APP", "ADJOURN_BY", "ADJOURN_LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setenv("ADJOURN_APP", "app.py:build")
    monkeypatch.setenv("LOGNAME", "zhao")

    def call(*arguments: str) -> Printed:
        capsys.readouterr()
        status = main(arguments)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err + printed.out
        return Printed(status, printed.out, printed.err)

    yield call
    sys.modules.pop("adjourn_app_app", None)


def waiting(adjourn: Adjourn) -> tuple[str, str]:
    """Start a run that waits for parameters: its id, and its question's."""
    adjourn("run", "看看支付", "--by", "wang")
    run = adjourn("runs", "--json").json()[0]["id"]
    return run, adjourn("show", run, "--json").json()["interrupts"][0]["id"]


def agreeing(adjourn: Adjourn) -> tuple[str, str]:
    """Start a run and bring it to its second question, which wants agreement."""
    run, question = waiting(adjourn)
    adjourn("resume", run, "--set", f"{question}.environment=prod")
    return run, adjourn("show", run, "--json").json()["interrupts"][0]["id"]


def ran(tmp_path: Path) -> list[list[Any]]:
    """What the tools really did, in order."""
    return [json.loads(line) for line in (tmp_path / "ran.jsonl").read_text().splitlines()]


def test_a_run_stops_and_prints_the_command_that_goes_on(adjourn: Adjourn) -> None:
    """C-95: exit status 3, and the command fills each needed field."""
    printed = adjourn("run", "看看支付")
    assert printed.status == 3
    assert printed.err == ""
    assert "我看看。\n" in printed.out
    assert "✓ search_docs ok" in printed.out
    command = printed.out.splitlines()[-1].strip()
    assert ".environment=VALUE" in command
    assert command.endswith("--by YOU --app app.py:build")


def test_from_the_first_message_to_the_answer(adjourn: Adjourn, tmp_path: Path) -> None:
    run, question = waiting(adjourn)
    wrong = adjourn("resume", run, "--set", f"{question}.environment=moon")
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err == f"adjourn: --set {question}.environment: must be one of prod, staging, not 'moon'\n"
    assert adjourn("show", run, "--json").json()["interrupts"][0]["id"] == question

    second = adjourn("resume", run, "--set", "environment=prod", "--set", "minutes=5", "--by", "li")
    assert second.status == 3
    assert "--approve int_" in second.out.splitlines()[-1]
    again = adjourn("resume", run, "--set", f"{question}.environment=prod")
    assert again.status == 5
    assert "already answered by li" in again.err

    agreement = adjourn("show", run, "--json").json()["interrupts"][0]["id"]
    done = adjourn("resume", run[:-2], "--approve", agreement[:8], "--by", "li")
    assert done.status == 0
    assert done.out.splitlines()[-2:] == ["已处理。", "finished (answered)"]
    assert adjourn("resume", run, "--approve", agreement).status == 5
    assert ran(tmp_path) == [
        ["search_docs", {"query": "5xx"}],
        ["query_logs", {"environment": "prod", "minutes": 5}],
        ["restart", {"service": "svc-pay-001", "environment": "prod", "grace_s": 5}],
    ]


def test_edit_starts_from_the_arguments_of_the_call(adjourn: Adjourn, tmp_path: Path) -> None:
    run, question = agreeing(adjourn)
    assert adjourn("resume", run, "--edit", f"{question}.grace_s=soon").status == 2
    assert adjourn("resume", run, "--edit", f"{question}.where=here").status == 2
    assert adjourn("resume", run, "--edit", f"{question}.grace_s=60").status == 0
    assert ran(tmp_path)[-1] == ["restart", {"service": "svc-pay-001", "environment": "prod", "grace_s": 60}]


def test_a_rejected_call_never_runs_and_the_reason_is_kept(adjourn: Adjourn, tmp_path: Path) -> None:
    run, question = agreeing(adjourn)
    assert adjourn("resume", run, "--reject", question, "--reason", "peak hours", "--by", "li").status == 0
    assert [name for name, _ in ran(tmp_path)] == ["search_docs", "query_logs"]
    story = adjourn("show", run)
    assert "declined user_declined" in story.out
    assert '"reason": "peak hours"' in story.out


def test_answers_from_a_file_and_from_stdin(
    adjourn: Adjourn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, question = waiting(adjourn)
    (tmp_path / "answers.json").write_text(json.dumps({question: {"environment": "staging"}}))
    assert adjourn("resume", run, "--answers", "answers.json").status == 3
    agreement = adjourn("show", run, "--json").json()["interrupts"][0]["id"]

    class Stdin:
        def read(self) -> str:
            return json.dumps({agreement: {"action": "approve"}})

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert adjourn("resume", run, "--answers", "-").status == 0


def test_a_question_is_answered_once_per_command_line(adjourn: Adjourn) -> None:
    run, question = agreeing(adjourn)
    printed = adjourn("resume", run, "--approve", question, "--reject", question)
    assert printed.status == 2
    assert "answered twice" in printed.err


def nested(levels: int) -> str:
    """JSON of so many lists."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "flags",
    [
        ["--set", "no_such.field=1"],
        ["--set", "nofield=1"],
        ["--set", "environment"],
        ["--approve", "int_nothing"],
        ["--reason", "why"],
        ["--answers", "missing.json"],
        ["--answers", "app.py"],
        ["--answers", "nan.json"],
        ["--answers", "infinite.json"],
        ["--answers", "deep.json"],
        ["--answers", "deeper.json"],
        ["--approve"],
        ["--nonsense"],
    ],
)
def test_wrong_flags_are_one_line_and_change_nothing(
    adjourn: Adjourn, tmp_path: Path, flags: list[str]
) -> None:
    run, question = waiting(adjourn)
    for name, value in (
        ("nan", "NaN"),
        ("infinite", "1e999"),
        ("deep", nested(99)),
        ("deeper", nested(9999)),
    ):
        (tmp_path / f"{name}.json").write_text(f'{{"{question}": {{"environment": {value}}}}}')
    printed = adjourn("resume", run, *flags)
    assert printed.status == 2
    assert printed.out == ""
    assert printed.err.startswith("adjourn: ")
    assert printed.err.count("\n") == 1
    assert adjourn("show", run, "--json").json()["interrupts"][0]["id"] == question


@pytest.mark.parametrize("name", [os.fsdecode(b"\xff"), "n" * 256], ids=["bytes", "long"])
def test_c95_a_name_that_is_none_is_wrong_usage(adjourn: Adjourn, name: str) -> None:
    """A shell gives bytes that are no text in the system's encoding as half surrogate pairs."""
    run, question = waiting(adjourn)
    for command in (
        ("run", "go", "--by", name),
        ("run", "go", "--thread", name),
        ("resume", run, "--set", f"{question}.environment=prod", "--by", name),
        ("resume", name, "--by", "li"),
        ("cancel", run, "--by", name),
        ("recover", run, "--by", name),
        ("fork", run, "--thread", name),
        ("runs", "--thread", name),
        ("show", name),
        ("events", name),
        ("forget", name),
        ("serve", "--by", name),
    ):
        printed = adjourn(*command)
        assert (printed.status, printed.out, printed.err.count("\n")) == (2, "", 1), command
    assert adjourn("show", run, "--json").json()["interrupts"][0]["id"] == question


def test_a_runs_priority_is_stored_and_a_wrong_one_is_one_line(adjourn: Adjourn) -> None:
    assert adjourn("run", "看看支付", "--priority", "7").status == 3
    assert [one["priority"] for one in adjourn("runs", "--json").json()] == [7]
    for odd in ("1001", "-1001", "x", "1.5"):
        printed = adjourn("run", "看看支付", "--priority", odd)
        assert (printed.status, printed.out, printed.err.count("\n")) == (2, "", 1)
        assert printed.err.startswith("adjourn: ")
        assert "--priority" in printed.err
    assert len(adjourn("runs", "--json").json()) == 1


def test_without_answers_in_a_pipe_the_questions_and_flags_are_listed(adjourn: Adjourn) -> None:
    run, question = waiting(adjourn)
    printed = adjourn("resume", run)
    assert printed.status == 2
    assert question in printed.err
    assert f"--set {question}.environment=VALUE" in printed.err


def test_answers_may_come_one_by_one(adjourn: Adjourn, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-46: the run goes on when the set is complete."""
    monkeypatch.setenv("ADJOURN_APP", "app.py:two")
    adjourn("run", "看看支付")
    run = adjourn("runs", "--json").json()[0]["id"]
    one, other = [asked["id"] for asked in adjourn("show", run, "--json").json()["interrupts"]]
    bare = adjourn("resume", run, "--set", "environment=prod")
    assert bare.status == 2
    assert f"ID one of {one}, {other}" in bare.err
    first = adjourn("resume", run, "--set", f"{one}.environment=prod", "--by", "li")
    assert first.status == 3
    assert "the rest is still open" in first.out
    assert one not in first.out.splitlines()[-1]
    assert adjourn("resume", run, "--set", "environment=staging", "--by", "wang").status == 0
    answered = adjourn("show", run, "--json").json()["questions"]
    assert [question["answered_by"] for question in answered] == ["li", "wang"]


def test_c58_a_failed_run_says_so_and_adjourn_resume_takes_it_up_again(adjourn: Adjourn) -> None:
    failed = adjourn("run", "hello", "--app", "app.py:broken")
    assert failed.status == 4
    assert "failed: " in failed.out
    command = failed.out.splitlines()[-1].split()
    run = command[command.index("resume") + 1]
    assert adjourn("resume", run, "--app", "app.py:broken").status == 4
    assert adjourn("resume", run).status == 3  # the same graph, mended
    assert adjourn("show", run, "--json").json()["status"] == "interrupted"


def test_json_prints_events_as_they_happen(adjourn: Adjourn) -> None:
    events = adjourn("run", "看看支付", "--json").lines()
    words = [one["type"] for one in events]
    assert words[:4] == ["run_started", "step_started", "text_delta", "text_delta"]
    assert words[-1] == "loop_interrupt"
    stored = adjourn("events", events[0]["run_id"], "--json").lines()
    assert stored == [one for one in events if one["type"] != "text_delta"]
    assert adjourn("events", events[0]["run_id"], "--after", "3", "--json").lines() == stored[3:]


def test_json_errors_are_json_with_their_facts(adjourn: Adjourn) -> None:
    waiting(adjourn)
    printed = adjourn("show", "run_nothing", "--json")
    assert printed.status == 2
    told = json.loads(printed.err)
    assert (told["error"], told["exit_status"], told["run_id"]) == ("RunNotFound", 2, "run_nothing")
    assert json.loads(adjourn("runs", "--limit", "0", "--json").err)["error"] == "UsageError"


def test_runs_lists_newest_first_and_filters(adjourn: Adjourn) -> None:
    first, _ = waiting(adjourn)
    adjourn("run", "你好", "--app", "app.py:plain", "--thread", "t1")
    rows = adjourn("runs", "--json").json()
    assert [one["status"] for one in rows] == ["finished", "interrupted"]
    assert rows[1]["shown_reason"] == "ask_user"
    assert [one["id"] for one in adjourn("runs", "--interrupted", "--json").json()] == [first]
    assert [one["thread_id"] for one in adjourn("runs", "--thread", "t1", "--json").json()] == ["t1"]
    assert len(adjourn("runs", "--limit", "1", "--json").json()) == 1
    table = adjourn("runs").out.splitlines()
    assert table[0].split() == ["RUN", "STATUS", "STEPS", "BY", "AGE", "THREAD", "INPUT"]
    assert table[2].startswith(first)
    assert "interrupted (ask_user)" in table[2]
    assert "finished (answered)" in table[1]


@pytest.mark.parametrize(("given", "stored"), [((), "zhao"), (("--by", "li"), "li")])
def test_c68_without_by_the_system_s_user_does_it_whatever_the_command(
    adjourn: Adjourn, given: tuple[str, ...], stored: str
) -> None:
    adjourn("run", "看看支付", *given)
    (run,) = adjourn("runs", "--json").json()
    question = adjourn("show", run["id"], "--json").json()["interrupts"][0]["id"]
    adjourn("fork", run["id"], *given)
    adjourn("resume", run["id"], "--set", f"{question}.environment=prod", *given)
    adjourn("cancel", run["id"], *given)
    assert {one["started_by"] for one in adjourn("runs", "--json").json()} == {stored}
    story = adjourn("show", run["id"], "--json").json()
    assert {one["by"] for one in story["audit"]} == {stored}
    assert story["questions"][0]["answered_by"] == stored


def test_show_tells_steps_calls_questions_and_how_to_go_on(adjourn: Adjourn) -> None:
    """C-68: what is kept, on one screen."""
    run, question = agreeing(adjourn)
    text = adjourn("show", run).out
    for told in (
        f"{run}  interrupted (ask_user)",
        "started by wang",
        "看看支付",
        '✓ query_logs {"minutes": 30, "environment": "prod"}',
        "answered by zhao",
        "? restart",
        f"--approve {question}",
    ):
        assert told in text
    story = adjourn("show", run, "--json").json()
    assert [one["state"] for one in story["questions"]] == ["answered", "open"]
    assert len(story["model_calls"]) == 2
    assert isinstance(story["calls"][0]["took_ms"], int)
    assert story["resume_command"].endswith("--by YOU --app app.py:build")


def test_cancel_ends_a_waiting_run_once(adjourn: Adjourn) -> None:
    run, question = waiting(adjourn)
    assert adjourn("cancel", run, "--json").json()["status"] == "cancelled"
    assert "ended before" in adjourn("cancel", run).out
    assert "cancelled (" not in adjourn("runs").out  # which would say it twice
    assert adjourn("resume", run, "--set", f"{question}.environment=prod").status == 5


def test_recover_without_lost_runs(adjourn: Adjourn) -> None:
    run, _ = waiting(adjourn)
    printed = adjourn("recover")
    assert (printed.status, printed.out.startswith("nothing to recover")) == (0, True)
    assert adjourn("recover", run).status == 5


def test_recover_goes_on_with_a_run_whose_process_died(adjourn: Adjourn, tmp_path: Path) -> None:
    """C-91: after its lease, by anybody; a run of another graph is left alone."""
    run, question = waiting(adjourn)
    adjourn("run", "hello", "--app", "app.py:two")
    with closing(sqlite3.connect(tmp_path / "adjourn.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'running', lease_until = '2020-01-01T00:00:00.000000Z'")
    printed = adjourn("recover")
    assert printed.status == 3
    assert f"--set {question}.environment=VALUE" in printed.out
    statuses = {one["graph"]: one["status"] for one in adjourn("runs", "--json").json()}
    assert statuses == {"shop": "interrupted", "two": "running"}
    assert run in printed.out


def test_graph_prints_the_machine_and_the_tools(adjourn: Adjourn) -> None:
    printed = adjourn("graph")
    assert printed.status == 0
    assert "stateDiagram-v2" in printed.out
    assert "asks a person for environment, minutes" in printed.out
    told = adjourn("graph", "--json").json()
    assert [(one["name"], one["effect"]) for one in told["tools"]] == [
        ("search_docs", "read"),
        ("query_logs", "read"),
        ("restart", "write"),
    ]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("app.py", "names no object"),
        ("nowhere.py:build", "there is no file nowhere.py"),
        ("no_such_module:build", "there is no module no_such_module"),
        ("app.py:nothing", "its graphs are graph"),
        ("app.py:TURNS", "is list, neither a graph"),
        ("app.py:note", "needs arguments (name)"),
        ("app.py:fails", ": RuntimeError: the configuration is missing"),
        ("raises.py:build", "raises.py, line 2: ZeroDivisionError: division by zero"),
        ("syntax.py:build", "syntax.py, line 1: SyntaxError"),
    ],
)
def test_a_bad_app_is_one_line_that_says_where(
    adjourn: Adjourn, tmp_path: Path, spec: str, said: str
) -> None:
    (tmp_path / "raises.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "syntax.py").write_text("def build(:\n")
    printed = adjourn("graph", "--app", spec)
    assert printed.status == 2
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_a_missing_app_says_how_to_name_one(adjourn: Adjourn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJOURN_APP")
    printed = adjourn("run", "hello")
    assert printed.status == 2
    assert "[tool.adjourn] app" in printed.err


def test_the_app_of_pyproject_is_not_repeated_in_printed_commands(
    adjourn: Adjourn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADJOURN_APP")
    (tmp_path / "pyproject.toml").write_text('[tool.adjourn]\napp = "app.py:graph"\n')
    assert adjourn("run", "hello").out.splitlines()[-1].endswith("--by YOU")


def test_a_run_of_another_graph_is_refused(adjourn: Adjourn) -> None:
    run, question = waiting(adjourn)
    printed = adjourn("resume", run, "--set", f"{question}.environment=prod", "--app", "app.py:plain")
    assert printed.status == 2
    assert "belongs to graph 'shop'" in printed.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "not a database URL"),
        (
            "postgresql://li:secret@host:port/name",
            "'postgresql://li:***@host:port/name' is not a database URL",
        ),
        (
            "postgresql://li:sec/ret@host:port/name",
            "'postgresql://li:***@host:port/name' is not a database URL",
        ),
        ("li:secret@host/name", "'li:***@host/name' is not a database URL"),
        (
            "postgresql://host:port/name?user=li&password=secret",
            "'postgresql://host:port/name?user=li&password=***' is not a database URL",
        ),
        ("mysql://127.0.0.1:1/name?password=secret", "127.0.0.1:1/name?password=***: "),
        ("oracle9://x", "no driver for 'oracle9' databases; use sqlite, postgresql or mysql"),
        ("postgresql+psycopg2://host/name", "needs psycopg, which is not installed: pip install"),
        ("sqlite:///missing.db", "there is no database missing.db"),
        ("sqlite:///app.py", "app.py"),
    ],
)
def test_a_bad_store_is_one_line(adjourn: Adjourn, url: str, said: str) -> None:
    printed = adjourn("runs", "--store", url)
    assert printed.status in (2, 4)
    assert said in printed.err
    assert "secret" not in printed.err
    assert printed.err.count("\n") == 1


def test_an_error_as_json_holds_what_is_the_errors_own(adjourn: Adjourn) -> None:
    waiting(adjourn)
    told = json.loads(adjourn("events", "nope", "--json").err)
    assert told == {
        "error": "RunNotFound",
        "run_id": "nope",
        "message": told["message"],
        "exit_status": told["exit_status"],
    }


def test_what_the_parser_refuses_names_the_commands_own_help(adjourn: Adjourn) -> None:
    assert "(see adjourn resume --help)" in adjourn("resume").err
    assert "(see adjourn --help)" in adjourn("resum").err


def test_the_version_and_the_short_word_for_help(adjourn: Adjourn) -> None:
    assert re.fullmatch(r"adjourn \d+\.\d+.*\n", adjourn("--version").out)
    assert adjourn("runs", "-h").out == adjourn("runs", "--help").out


def test_a_level_of_the_log_that_is_none_is_refused(
    adjourn: Adjourn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOURN_LOG", "loud")
    printed = adjourn("runs")
    assert (printed.status, "ADJOURN_LOG is one of" in printed.err) == (2, True)


def test_a_printed_command_has_a_place_for_the_app_that_show_does_not_know(
    adjourn: Adjourn, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = waiting(adjourn)
    monkeypatch.delenv("ADJOURN_APP")
    assert adjourn("show", run).out.splitlines()[-1].endswith("--by YOU --app FILE.py:NAME")


def test_a_run_that_waits_for_a_worker_is_told_as_one(adjourn: Adjourn, tmp_path: Path) -> None:
    run, question = waiting(adjourn)
    with closing(sqlite3.connect(tmp_path / "adjourn.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'running'")
    assert "running (queued)" in adjourn("runs").out
    assert "has waited for a worker since" in adjourn("show", run).out
    busy = adjourn("resume", run, "--set", f"{question}.environment=prod")
    assert (busy.status, "waits for a worker" in busy.err) == (5, True)
    assert adjourn("recover", run).status == 3


def test_recover_says_what_a_process_that_was_killed_just_now_still_holds(
    adjourn: Adjourn, tmp_path: Path
) -> None:
    run, _ = waiting(adjourn)
    with closing(sqlite3.connect(tmp_path / "adjourn.db")) as connection, connection:
        held = "status = 'running', lease_owner = 'vm:9', lease_until = '2999-01-01T00:00:00.000000Z'"
        connection.execute(f"UPDATE runs SET {held}")
    printed = adjourn("recover")
    assert printed.out.startswith("nothing to recover")
    assert f"run {run} is held by vm:9 until 2999-01-01" in printed.out


def test_looking_makes_no_file(adjourn: Adjourn, tmp_path: Path) -> None:
    assert adjourn("runs").status == 2
    assert not (tmp_path / "adjourn.db").exists()


def test_texts_follow_the_language(adjourn: Adjourn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "回答并继续" in adjourn("run", "你好", "--lang", "zh").out
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert "回答并继续" in adjourn("run", "你好").out
    assert adjourn("runs", "--lang", "fr").status == 2


def test_control_characters_of_a_message_do_not_reach_the_terminal(adjourn: Adjourn) -> None:
    adjourn("run", "a\x1b]0;owned\x07b", "--app", "app.py:plain")
    assert "\x1b" not in adjourn("runs").out


def test_c93_old_runs_go_and_waiting_ones_stay(adjourn: Adjourn) -> None:
    run, _ = waiting(adjourn)
    other = adjourn("run", "hello", "--app", "app.py:plain", "--thread", "t", "--json").lines()[0]["run_id"]
    assert adjourn("prune", "--older-than", "1d").out.startswith("0 runs and 0 whole threads")
    assert adjourn("prune", "--older-than", "soon").status == 2
    would = adjourn("prune", "--older-than", "0s", "--dry-run", "--json").json()
    assert (would["runs"], would["threads"], would["dry_run"]) == (1, 1, True)
    assert adjourn("prune", "--older-than", "0s").status == 0
    assert adjourn("show", other).status == 2
    thread = adjourn("show", run, "--json").json()["thread_id"]
    would = f"thread {thread}: everything would be taken away, 1 run\n"
    assert adjourn("forget", thread, "--dry-run").out == would
    assert adjourn("show", run).status == 0
    assert adjourn("forget", thread).out == f"thread {thread}: everything taken away, 1 run\n"
    again = adjourn("forget", thread)
    assert (again.status, again.err) == (
        2,
        f"adjourn: there is no thread '{thread}' in this store; nothing was changed\n",
    )


def test_c94_migrate_says_the_version(adjourn: Adjourn) -> None:
    waiting(adjourn)
    assert adjourn("migrate").out == f"schema version {VERSION}; nothing to do\n"
    assert adjourn("migrate", "--json").json() == {"version": VERSION, "before": VERSION}


def test_threads_of_langgraphs_own_saver_are_imported(adjourn: Adjourn, tmp_path: Path) -> None:
    graph = StateGraph(dict)
    graph.add_node("a", lambda _state: {"x": 1})
    graph.add_edge(START, "a")
    with SqliteSaver.from_conn_string(str(tmp_path / "old.db")) as saver:
        for thread in ("one", "two"):
            graph.compile(checkpointer=saver).invoke({"x": 0}, {"configurable": {"thread_id": thread}})
    assert adjourn("import", "--from", "sqlite:///old.db").status == 2
    assert adjourn("import", "--from", "sqlite:///old.db", "two").out == "thread two: 3 checkpoints\n"
    assert adjourn("import", "--from", "sqlite:///old.db", "--all", "--json").lines() == [
        {"thread": "one", "checkpoints": 3}
    ]
