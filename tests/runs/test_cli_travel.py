"""`adjourn history`, `adjourn fork` and `adjourn run --history`, called in this process."""

import json
import re
from pathlib import Path

from runs.test_cli_commands import Adjourn, adjourn, agreeing, ran, waiting

assert adjourn  # the fixture


def test_run_says_what_tools_need_to_know_and_show_tells_it(adjourn: Adjourn, tmp_path: Path) -> None:
    given = ("--context", "tenant=acme", "--context", 'limits={"refund": 50}')
    adjourn("run", "看看支付", *given)
    (run,) = [one["id"] for one in adjourn("runs", "--json").json()]
    context = {"tenant": "acme", "limits": {"refund": 50}}
    assert adjourn("show", run, "--json").json()["context"] == context
    assert 'context:\n  {"tenant": "acme", "limits": {"refund": 50}}\n' in adjourn("show", run).out
    assert "acme" in adjourn("show", run, "--html", "-").out
    refused = adjourn("run", "看看支付", "--context", "tenant")
    assert (refused.status, refused.err) == (
        2,
        "adjourn: --context 'tenant' has no value; write --context NAME=VALUE\n",
    )


def test_c92_history_lists_where_a_run_stood(adjourn: Adjourn) -> None:
    run, _ = waiting(adjourn)
    printed = adjourn("history", run)
    assert printed.status == 0
    lines = printed.out.splitlines()
    assert lines[0].split() == ["NO", "TIME", "STEP", "RAN", "NEXT", "CHECKPOINT", "WHAT"]
    assert re.search(r"tools +ask \? 1 +[0-9a-f-]{36} +query_logs waiting, search_docs ok$", lines[1])
    assert lines[-1].endswith("看看支付")
    assert "--limit N" in adjourn("history", run, "--limit", "1").out
    shown = adjourn("history", run, "--json").json()
    assert [one["next"] for one in shown] == [["ask"], ["tools"], ["model"]]
    assert len(shown[0]["questions"]) == 1


def test_c92_fork_begins_where_the_run_stood_and_goes_on_like_any_other(
    adjourn: Adjourn, tmp_path: Path
) -> None:
    run, question = agreeing(adjourn)
    adjourn("resume", run, "--approve", question)
    before = next(one for one in adjourn("history", run, "--json").json() if one["next"] == ["ask"])
    refused = adjourn("fork", run, "--at", str(before["number"]))
    assert refused.status == 2
    assert "would repeat what has been written since: restart (ok, call q3 of step 2)" in refused.err
    assert "--repeat-writes" in refused.err
    made = adjourn("fork", run, "--at", before["id"], "--repeat-writes", "--by", "li")
    assert made.status == 3
    command = made.out.splitlines()[-1]
    fork = adjourn("runs", "--json").json()[0]["id"]
    assert fork in command
    asked = adjourn("show", fork, "--json").json()["interrupts"][0]["id"]
    assert asked != question
    assert f"forked from {run}" in adjourn("show", fork).out
    assert adjourn("resume", fork, "--approve", asked).status == 0
    assert [name for name, _ in ran(tmp_path)].count("restart") == 2
    assert adjourn("fork", run, "--at", before["id"], "--message", "好", "--repeat-writes").status in (0, 3)


def test_c92_fork_refuses_what_it_cannot(adjourn: Adjourn) -> None:
    run, _ = waiting(adjourn)
    assert adjourn("fork", run, "--at", "999").status == 2
    assert "`adjourn history" in adjourn("fork", run, "--at", "nothing").err
    assert adjourn("fork", "run_none").status == 2
    thread = adjourn("show", run, "--json").json()["thread_id"]
    assert "already" in adjourn("fork", run, "--thread", thread).err


def test_c87_run_goes_on_from_a_history_in_a_file(adjourn: Adjourn, tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "看看日志"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "q", "function": {"name": "query_logs", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "q", "content": '{"ok": false, "errorCode": "awaiting_user"}'},
        {"role": "assistant", "content": "哪个环境？"},
    ]
    file = tmp_path / "history.json"
    file.write_text(json.dumps(messages))
    printed = adjourn("run", "--history", str(file), "--set", "environment=prod")
    assert printed.status == 0, printed
    (run,) = adjourn("runs", "--json").json()
    assert run["input"] == "environment: prod"
    assert adjourn("run", "--history", str(file), "prod, please").status == 0
    for wrong in (
        ("run",),
        ("run", "--history", str(file)),
        ("run", "--history", str(file), "--set", "x"),
        ("run", "--history", str(file), "--set", "a=b", "words"),
        ("run", "--history", "missing.json", "words"),
        ("run", "--history", "app.py", "words"),
    ):
        refused = adjourn(*wrong)
        assert (refused.status, refused.err.count("\n")) == (2, 1), wrong
    assert len(adjourn("runs", "--json").json()) == 2


def test_c93_forget_names_the_forks_that_hold_copies(adjourn: Adjourn) -> None:
    run, _ = waiting(adjourn)
    thread = adjourn("show", run, "--json").json()["thread_id"]
    adjourn("fork", run, "--thread", "one")
    adjourn("fork", adjourn("runs", "--thread", "one", "--json").json()[0]["id"], "--thread", "two")
    printed = adjourn("forget", thread)
    assert (printed.status, printed.out.splitlines()[-1].split()[-2:]) == (0, ["one", "two"])
    assert adjourn("forget", "one", "two", "--json").lines()[0]["forks"] == []
