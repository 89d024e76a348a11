"""Expiry and approvals on the command line: shown, found, refused, let go on (C-40, C-49, C-51)."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from runs import test_cli_commands
from runs.test_cli_commands import Adjourn
from sqlalchemy import update

from adjourn.checkpoints.database import Database, format_time
from adjourn.checkpoints.run_schema import interrupts

adjourn = test_cli_commands.adjourn  # its fixture
APP = ("--app", "app.py:several")


def ran(folder: Path) -> list[str]:
    """What the tools really did, in order."""
    file = folder / "ran.jsonl"
    return file.read_text().splitlines() if file.exists() else []


def paying(adjourn: Adjourn) -> tuple[str, str]:
    """A run that two people have to agree to within two hours: its id, and its question's."""
    assert adjourn("run", "pay", "--by", "zhao", *APP).status == 3
    run = adjourn("runs", "--json").json()[0]["id"]
    return run, adjourn("show", run, "--json").json()["interrupts"][0]["id"]


def pass_time() -> None:
    """Let the time of every question have passed a second ago."""
    with_store = Database("sqlite:///adjourn.db")
    past = format_time(datetime.now(UTC) - timedelta(seconds=1))
    with_store.write(lambda connection: connection.execute(update(interrupts).values(expires_at=past)))
    with_store.close()


def test_c40_the_expiry_is_shown_wherever_a_question_is(adjourn: Adjourn) -> None:
    run, question = paying(adjourn)
    listed = adjourn("runs").out
    assert re.search(r"interrupted \(ask_user, expires in 1h\)", listed)
    (row,) = adjourn("runs", "--json").json()
    shown = adjourn("show", run, "--json").json()
    assert row["expires_at"] == shown["interrupts"][0]["expires_at"]
    assert shown["questions"][0]["expires_at"] == row["expires_at"]
    story = adjourn("show", run).out
    assert re.search(rf"{question}.*confirm_risky: Pay 5\?", story)
    assert re.search(r"expires \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in 1h\)", story)
    assert re.search(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ 过期（还剩 1h）", adjourn("show", run, "--lang", "zh").out
    )


def test_c49_who_looks_finds_it_expired_and_recover_lets_it_go_on(adjourn: Adjourn, tmp_path: Path) -> None:
    run, question = paying(adjourn)
    pass_time()
    shown = adjourn("show", run, "--json").json()
    assert (shown["status"], shown["questions"][0]["state"], shown["interrupts"]) == (
        "interrupted",
        "expired",
        [],
    )
    assert adjourn("runs", "--json").json()[0]["expires_at"] is None
    assert f"recover {run}" in adjourn("show", run).out
    late = adjourn("resume", run, "--approve", question, "--by", "li", *APP)
    assert late.status == 5
    assert re.fullmatch(rf"adjourn: question {question} expired at .*`adjourn recover {run}`\n", late.err)
    gone_on = adjourn("recover", *APP)
    assert gone_on.status == 0
    assert f"run {run}: nobody answered in time; it goes on" in gone_on.out
    assert "finished (answered)" in gone_on.out
    assert "nothing to recover" in adjourn("recover", *APP).out
    story = adjourn("show", run).out
    assert "expired by nobody" in story
    assert ran(tmp_path) == []


def test_c49_resume_without_answers_lets_an_expired_run_go_on(adjourn: Adjourn) -> None:
    run, _ = paying(adjourn)
    pass_time()
    gone_on = adjourn("resume", run, *APP)
    assert gone_on.status == 0
    assert "pay was not run: nobody answered in time." in gone_on.out


def test_c51_each_yes_is_shown_and_counts_once(adjourn: Adjourn, tmp_path: Path) -> None:
    run, question = paying(adjourn)
    assert "0 of 2 agreed; to agree: 2 of li, wang" in adjourn("show", run).out
    first = adjourn("resume", run, "--approve", question, "--by", "li", *APP)
    assert first.status == 3
    assert f"{question} agreed to by li; others have to as well" in first.out
    assert re.search(r"1 of 2 agreed: li \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", adjourn("show", run).out)
    assert "已同意 1/2：li" in adjourn("show", run, "--lang", "zh").out.replace(": li", "：li")
    again = adjourn("resume", run, "--approve", question, "--by", "li", *APP)
    assert (again.status, ran(tmp_path)) == (5, [])
    assert "already approved by li" in again.err
    last = adjourn("resume", run, "--approve", question, "--by", "wang", *APP)
    assert (last.status, ran(tmp_path)) == (0, ['["pay", {"amount": 5}]'])
    assert "li, wang" in adjourn("show", run).out


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (("--by", "mallory"), "it takes 2 of li, wang"),
        ((), "zhao may not answer"),
        ((), "zhao is the system's user; --by NAME says who answers"),
    ],
)
def test_c51_who_may_not_answer_is_told_why(adjourn: Adjourn, by: tuple[str, ...], said: str) -> None:
    run, question = paying(adjourn)
    refused = adjourn("resume", run, "--approve", question, *by, *APP)
    assert refused.status == 2
    assert said in refused.err
    assert ("the system's user" in refused.err) == (not by)
    assert len(adjourn("show", run, "--json").json()["interrupts"]) == 1
