"""The form on a terminal: a pseudo-terminal is typed into as a person would."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runs.terminal import CTRL_C, CTRL_D, CTRL_U, DOWN, ENTER, NEW_LINE, UP, Terminal

from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel

Opens = Callable[..., Terminal]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the test's app in it."""
    shutil.copy(Path(__file__).with_name("cli_app.py"), tmp_path / "app.py")
    return tmp_path


@pytest.fixture
def terminal(folder: Path) -> Iterator[Opens]:
    """Opens terminals in the folder: `adjourn` with these words, the app's function first."""
    opened: list[Terminal] = []

    def opens(app: str, *words: str, by: str = "li", lang: str = "en", **settings: str) -> Terminal:
        rest = ("--app", f"app.py:{app}", "--by", by, "--lang", lang)
        opened.append(Terminal(folder, *words, *rest, **settings))
        return opened[-1]

    yield opens
    for one in opened:
        one.close()


def ran(folder: Path) -> list[object]:
    """What the tools really did, in order."""
    file = folder / "ran.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run_of(one: Terminal) -> str:
    return re.findall(r"run_\w+", one.seen)[0]


def fills_the_parameters(one: Terminal) -> None:
    """Answer the first question: by a number, then a wrong type, a value out of range, and a right one."""
    one.types("1", after="environment (arrow keys or number")
    one.waits_for("? minutes")
    one.presses(CTRL_U, "soon", ENTER)
    one.waits_for("must be integer, not 'soon'")
    one.presses(CTRL_U, "61", ENTER)
    one.waits_for("61 is greater than the maximum of 60")
    one.presses(CTRL_U, "15", ENTER)
    one.waits_for("? action")


def test_parameters_then_agreement_in_one_process(terminal: Opens, folder: Path) -> None:
    one = terminal("build", "run", "看看支付")
    fills_the_parameters(one)
    assert "minutes  integer 1..60  (default 30)  How far back." in one.seen
    assert "Restart svc-pay-001 in prod?" in one.seen
    one.presses(ENTER)
    assert one.leaves() == 0
    assert "finished (answered)" in one.seen
    assert ran(folder)[1:] == [
        ["query_logs", {"environment": "prod", "minutes": 15}],
        ["restart", {"service": "svc-pay-001", "environment": "prod", "grace_s": 5}],
    ]


def test_an_edit_asks_each_argument_with_its_present_value(terminal: Opens, folder: Path) -> None:
    one = terminal("build", "run", "看看支付")
    fills_the_parameters(one)
    one.presses(DOWN, ENTER)
    one.waits_for("? service  (Alt-Enter: new line) svc-pay-001")
    one.presses(ENTER)
    one.waits_for("» 1) prod")
    one.presses(DOWN, DOWN, UP, ENTER)  # round and back: staging
    one.waits_for("? grace_s")
    one.presses(CTRL_U, "60", ENTER)
    assert one.leaves() == 0
    assert ran(folder)[-1] == ["restart", {"service": "svc-pay-001", "environment": "staging", "grace_s": 60}]


def test_a_rejection_asks_for_the_reason(terminal: Opens, folder: Path) -> None:
    one = terminal("build", "run", "看看支付")
    fills_the_parameters(one)
    one.presses("3", ENTER)
    one.waits_for("? reason")
    one.presses("peak", NEW_LINE, "hours", ENTER)
    assert one.leaves() == 0
    assert len(ran(folder)) == 2
    assert '"reason": "peak\\nhours"' in one.seen


def fills_the_wide_form(one: Terminal) -> None:
    """Answer a form with every kind of field."""
    one.types("disks", after="? plan.title")
    one.types("2", after="? plan.window.day")
    one.types("", after="? plan.window.hours")
    one.types("2", after="? notify")
    one.types("web-1", after="? hosts item 1")
    one.types("web-2", after="? hosts item 2")
    one.types("", after="? hosts item 3")
    one.waits_for("? levels")
    one.presses(" ", DOWN, DOWN, " ", ENTER)
    one.types("", after="? dry_run")
    one.waits_for("? note")
    one.presses("first", NEW_LINE, "second", ENTER)
    one.types("", after="? owner  (Enter: (none)")
    one.waits_for('such as {"name": 1}')
    one.presses("x", ENTER)
    one.waits_for("must be null or object")
    one.presses(CTRL_U, '{"a": 1}', ENTER)


def test_every_kind_of_field(terminal: Opens, folder: Path) -> None:
    """Nested objects, lists, choices of several, yes and no, lines, what may be left out, and JSON for the rest."""
    one = terminal("wide", "run", "maintain")
    fills_the_wide_form(one)
    assert one.leaves() == 0
    assert ran(folder) == [
        [
            "maintain",
            {
                "plan": {"title": "disks", "window": {"day": "sun", "hours": 2}},
                "notify": False,
                "hosts": ["web-1", "web-2"],
                "levels": ["info", "error"],
                "dry_run": True,
                "note": "first\nsecond",
                "owner": None,
                "extra": {"a": 1},
            },
        ]
    ]
    assert "plan  object  What a maintenance needs." in one.seen
    assert "note  备注  string  for the log" in one.seen


def test_one_of_many_is_found_by_typing(terminal: Opens, folder: Path) -> None:
    one = terminal("many", "run", "look")
    one.waits_for("type to filter")
    one.waits_for("r12")
    one.presses("11")
    one.waits_for("» r11")
    one.presses(ENTER)
    assert one.leaves() == 0
    assert ran(folder) == [["look", {"region": "r11"}]]


def test_the_form_speaks_chinese(terminal: Opens, folder: Path) -> None:
    one = terminal("build", "run", "看看支付", lang="zh")
    one.types("2", after="（方向键或编号，回车确认）")
    one.types("", after="? minutes")
    one.waits_for("1) 同意：按原样执行")
    one.presses("3", ENTER)
    one.waits_for("回车：不填")
    one.presses("高峰期", ENTER)
    assert one.leaves() == 0
    assert '"reason": "高峰期"' in one.seen


def test_who_leaves_the_form_leaves_the_question_open(terminal: Opens) -> None:
    """Ctrl-D: exit status 3; `resume` on a terminal then asks again, and Ctrl-C leaves with 130."""
    one = terminal("build", "run", "看看支付")
    one.waits_for("? environment")
    one.presses(CTRL_D)
    assert one.leaves() == 3
    assert "the question stays open" in one.seen
    assert f"resume {run_of(one)} --set" in one.seen
    again = terminal("build", "resume", run_of(one))
    again.types("1", after="? environment")
    again.waits_for("? minutes")
    again.presses(CTRL_C)
    assert again.leaves() == 130
    assert f"resume {run_of(one)} --set" in again.seen
    assert "Traceback" not in again.seen


def test_a_terminal_without_cursor_keys_gets_numbers_and_names(terminal: Opens, folder: Path) -> None:
    def whole(one: Terminal) -> str:
        return one.seen

    one = terminal("build", "run", "看看支付", term="dumb")
    one.waits_for("environment (number or name)> ".rstrip(), whole)
    one.presses("moon\n")
    one.waits_for("not accepted: number or name", whole)
    one.presses("1\n")
    one.waits_for("minutes (Enter: 30)>", whole)
    one.presses("soon\n")
    one.waits_for("not accepted: must be integer, not 'soon'", whole)
    one.presses("\n")
    one.waits_for("action (number or name)>", whole)
    one.presses("1\n")
    assert one.leaves() == 0
    assert ran(folder)[1] == ["query_logs", {"environment": "prod", "minutes": 30}]


def test_c51_two_people_agree_each_at_their_own_terminal(terminal: Opens, folder: Path) -> None:
    """The form shows who agreed and until when; who may not answer, or has agreed already, is not asked."""
    one = terminal("several", "run", "pay", by="li")
    one.waits_for("? action")
    assert "0 of 2 agreed; to agree: 2 of li, wang" in one.seen
    assert re.search(r"expires \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in 1h\)", one.seen)
    one.presses("1", ENTER)
    assert one.leaves() == 3
    assert "1 of 2 agreed: li " in one.seen
    for by in ("li", "mallory"):
        other = terminal("several", "resume", run_of(one), by=by)
        assert other.leaves() == 3
        assert "? action" not in other.seen
    assert ran(folder) == []
    last = terminal("several", "resume", run_of(one), by="wang")
    last.waits_for("? action")
    last.presses("1", ENTER)
    assert last.leaves() == 0
    assert ran(folder) == [["pay", {"amount": 5}]]


@pytest.mark.parametrize(
    ("keys", "status", "left"), [(ENTER, 130, 1), (CTRL_D, 130, 1), (CTRL_C, 130, 1), ("2", 0, 0)]
)
@pytest.mark.parametrize(("lang", "asks"), [("en", "take it away for good"), ("zh", "永久删除")])
def test_c93_on_a_terminal_a_conversation_is_forgotten_after_a_yes(
    folder: Path, keys: str, status: int, left: int, lang: str, asks: str
) -> None:
    """What would go is shown first, and Enter alone is a no."""
    with Runner(
        build_react(ScriptedModel(turns=["hi"]), tools=[]), f"sqlite:///{folder}/adjourn.db"
    ) as runner:
        runner.start_sync("hello", thread_id="t1")
        one = Terminal(folder, "forget", "t1", "--lang", lang)
        one.waits_for(asks, lambda shown: shown.seen)
        assert ("1 run" if lang == "en" else "共 1 次运行") in one.seen
        one.presses(keys, *([ENTER] if keys == "2" else []))
        assert (one.leaves(), len(runner.list_sync())) == (status, left)
        one.close()


def test_on_a_chinese_terminal_states_are_chinese_and_programs_get_what_is_stored(folder: Path) -> None:
    with Runner(
        build_react(ScriptedModel(turns=["hi"]), tools=[]), f"sqlite:///{folder}/adjourn.db"
    ) as runner:
        run = runner.start_sync("hello", thread_id="t1")
    words = {"runs": "已完成 (已回答)", "metrics": "已回答", f"show {run.id}": "已完成 (已回答)"}
    stored = {"runs": "finished (answered)", "metrics": "answered", f"show {run.id}": "finished (answered)"}
    for command, shown in words.items():
        one = Terminal(folder, *command.split(), "--lang", "zh")
        assert (one.leaves(), shown in one.seen, "answered" in one.seen) == (0, True, False), one.seen
        one.close()
        line = [sys.executable, "-m", "adjourn.graph", *command.split(), "--lang", "zh"]
        piped = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout
        assert stored[command] in piped
        as_json = subprocess.run(
            [*line, "--json"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        assert '"answered"' in as_json


def test_c93_who_has_said_yes_is_not_asked(folder: Path) -> None:
    with Runner(
        build_react(ScriptedModel(turns=["hi"]), tools=[]), f"sqlite:///{folder}/adjourn.db"
    ) as runner:
        runner.start_sync("hello", thread_id="t1")
        one = Terminal(folder, "forget", "t1", "--yes")
        assert (one.leaves(), len(runner.list_sync())) == (0, 0)
        one.close()
