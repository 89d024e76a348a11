"""Settings, printed commands, texts and ages: the pure parts of the command line."""

import re
import string
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

from adjourn.checkpoints import errors
from adjourn.checkpoints.database import format_time
from adjourn.checkpoints.errors import AdjournError, UsageError
from adjourn.graph.captions import CAPTIONS, filled
from adjourn.graph.cli import main, options
from adjourn.graph.cli.help_texts import CHINESE
from adjourn.graph.cli.listing import age_of
from adjourn.graph.cli.parser import app
from adjourn.graph.cli.prompts import Typed
from adjourn.graph.cli.screen import Screen, clean, short
from adjourn.graph.cli.settings import Settings, language_asked, language_of, program, settings_of
from adjourn.graph.cli.taking import Commands
from adjourn.graph.cli.texts import ERRORS, LANGUAGES, TEXTS, text, told
from adjourn.graph.demo.app import DIRECTORY_VARIABLE


@pytest.mark.parametrize("key", TEXTS)
def test_every_text_has_both_languages_and_the_same_values(key: str) -> None:
    fields = {
        language: {name for _, name, _, _ in string.Formatter().parse(TEXTS[key][language]) if name}
        for language in LANGUAGES
    }
    assert set(TEXTS[key]) == set(LANGUAGES)
    assert fields["en"] == fields["zh"]
    for language in LANGUAGES:
        assert text(key, language, **dict.fromkeys(fields["en"], 1))


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 runs lost their process"), (1, "1 run lost its process"), (2_000, "2000 runs lost")],
)
def test_a_number_brings_its_noun(count: int, said: str) -> None:
    assert text("doctor.dead", "en", count=count).startswith(said)


RAISED: Sequence[AdjournError] = (
    errors.RunNotFound("run_x"),
    errors.CheckpointNotFound("run_x", "3"),
    errors.WouldRepeat("run_x", "3", ("restart", "pay")),
    errors.InterruptNotFound("run_x", "int_x", ("int_y",)),
    errors.RunBusy("run_x"),
    errors.InvalidAnswer("int_x", {"environment": "must be one of prod", "": "is no object"}),
    errors.AlreadyAnswered("int_x", "answered"),
    errors.Expired("int_x", "run_x", "2026-11-30"),
    errors.WrongGraph("run_x", "ops", "desk"),
    errors.LeaseLost("run_x", 3),
    errors.IllegalMove("run run_x", "finished", "resume"),
    errors.StoredDataError("calls", "7", "no JSON"),
    errors.KeyLost("run_x"),
    errors.SchemaVersionError(9, 3),
    errors.ModelFailed("gpt-5", "refused"),
)
# what is wrong stands in their message alone, which `refusals` knows
BY_MESSAGE = {"AdjournError", "UsageError", "ToolDefinitionError", "StoreError", "NotAllowed", "NotResumable"}


@pytest.mark.parametrize("error", RAISED, ids=lambda one: type(one).__name__)
def test_an_error_says_in_chinese_what_it_is_about(error: AdjournError) -> None:
    said = told(error, "zh")
    assert said.count("\n") == 0
    assert re.search("[\u4e00-\u9fff]", said)
    facts = [
        one for key, one in vars(error).items() if isinstance(one, str) and key not in ("state", "status")
    ]
    assert all(one in said for one in facts)
    assert told(error, "en") == str(error)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.RunBusy("run_x"), "运行 run_x 正在执行或等待执行；请等它结束，或在租约到期后用 recover 恢复"),
        (errors.AlreadyAnswered("int_x", "answered"), "问题 int_x 已处理（已回答），未作任何改动"),
        (errors.InterruptNotFound("run_x", "int_x"), "运行 run_x 没有问题 int_x"),
        (
            errors.CheckpointNotFound("run_x"),
            "运行 run_x 没有检查点；用 adjourn history run_x 查看已有的检查点",
        ),
        (errors.KeyLost(), "机密是用别的密钥封存的；请把该密钥加入 ADJOURN_KEY 或放回密钥文件，然后重试"),
    ],
)
def test_an_error_in_chinese_leaves_out_what_is_not_known(error: AdjournError, said: str) -> None:
    assert told(error, "zh") == said


def test_each_class_of_error_has_a_chinese_text_or_is_known_by_its_message() -> None:
    known = {
        name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, AdjournError)
    }
    assert known - BY_MESSAGE == set(ERRORS) == {type(one).__name__ for one in RAISED}


@pytest.mark.parametrize(
    ("given", "environment", "language"),
    [
        (("show", "run_x", "--lang", "zh"), {}, "zh"),
        (("show", "--lang=zh"), {}, "zh"),
        (("show", "--lang"), {}, "en"),
        (("show", "--lang", "fr"), {"LANG": "zh_CN.UTF-8"}, "en"),
        (("show",), {"ADJOURN_LANG": "zh"}, "zh"),
        (("show",), {"LANG": "zh_CN.UTF-8"}, "zh"),
        (("show", "--lang", "en"), {"ADJOURN_LANG": "zh"}, "en"),
    ],
)
def test_the_language_of_errors_and_help_is_known_before_the_arguments_are_parsed(
    given: Sequence[str], environment: dict[str, str], language: str
) -> None:
    assert language_asked(given, environment) == language


def helps() -> set[str]:
    """Each text of `--help`, of the program, its commands and their options."""
    whole = typer.main.get_command(app)
    assert isinstance(whole, Commands)
    context = whole.make_context("adjourn", ["runs"])
    commands = [whole, *(whole.get_command(context, name) for name in whole.list_commands(context))]
    of_params = {getattr(param, "help", None) for one in commands for param in one.get_params(context)}
    return {one for one in (*of_params, *(one.help for one in commands)) if one}


def test_each_command_and_option_has_help_in_both_languages() -> None:
    assert helps() == set(CHINESE)
    assert all(re.search("[\u4e00-\u9fff]", one) for one in CHINESE.values())


@pytest.mark.parametrize("columns", [70, 80])
@pytest.mark.parametrize(
    "command", ["", "demo", "run", "resume", "runs", "metrics", "serve", "worker", "forget", "import"]
)
def test_a_line_of_chinese_help_is_no_wider_than_the_terminal_and_cuts_no_word(
    command: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("ADJOURN_LANG", "zh")
    assert main([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert "选项：" in said
    assert "\x00" not in said
    assert max(map(cell_len, said.splitlines())) <= columns
    assert not re.search(r"^ *[，。、；：）]", said, re.MULTILINE)
    words = {one for text in CHINESE.values() for one in re.findall(r"[!-~]+", text)}
    broken = re.findall(r"([!-~]+)\n +([!-~]+)", said)
    assert [one for one in broken if "".join(one) in words and not one[0].endswith("-")] == []


NAMES = {"run", "step", "thread", "graph", "store", "by", "of", "who", "id", "file", "owner"}


def test_one_of_a_thing_is_never_told_as_several() -> None:
    said = {**TEXTS, **CAPTIONS}
    averages = {"metrics.each", "tokens"}  # two numbers before the noun, and one that is no whole number
    for key in said.keys() - averages:
        fields = {name for _, name, _, _ in string.Formatter().parse(said[key]["en"]) if name}
        told = filled(said[key]["en"], {name: "x" if name in NAMES else 1 for name in fields})
        assert not re.search(r"\b1 \w+[^s]s\b", told), told


@pytest.mark.parametrize(
    ("lang", "environment", "language"),
    [
        ("zh", {"LANG": "en_US.UTF-8"}, "zh"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        (None, {"LC_ALL": "de_DE.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        (None, {"LC_ALL": "", "LANG": "zh_TW"}, "zh"),
        (None, {}, "en"),
    ],
)
def test_the_language_is_asked_for_or_the_locales(
    lang: str | None, environment: dict[str, str], language: str
) -> None:
    assert language_of(lang, environment) == language


def test_a_language_that_is_not_bundled_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--lang \(or ADJOURN_LANG\) is en or zh, not 'fr'"):
        language_of("fr", {})


def test_a_printed_command_holds_what_differs_from_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["adjourn"])
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    assert Settings(app="app.py:graph").command("resume", "run_x").endswith("adjourn resume run_x")
    made = Settings(
        store="sqlite:///my runs.db", app="app.py:graph", named_app=True, lang="zh", variables={"A": "b c"}
    )
    command = made.command("resume", "run_x", "--set", "a=it's")
    assert command.startswith("A='b c' ")
    assert command.endswith(
        "adjourn resume run_x --set 'a=it'\"'\"'s' --store 'sqlite:///my runs.db' --app app.py:graph --lang zh"
    )


@pytest.mark.parametrize(
    "url", ["postgresql://li:secret@host/name", "postgresql://host/name?user=li&password=secret"]
)
def test_a_printed_command_holds_no_password_that_the_environment_gave(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ADJOURN_STORE", url)
    assert "--store" not in Settings(store=url).command("show", "run_x")
    monkeypatch.setenv("ADJOURN_STORE", "sqlite:///other.db")
    assert "--store sqlite:///other.db" in Settings(store="sqlite:///other.db").command("show", "run_x")


def test_the_program_is_named_as_it_was_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "adjourn").write_text("")
    (tmp_path / "adjourn").chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "adjourn")])
    assert program() == ["adjourn"]
    monkeypatch.setattr(sys, "argv", ["/elsewhere/bin/adjourn"])
    assert program() == ["/elsewhere/bin/adjourn"]
    monkeypatch.setattr(sys, "argv", ["/site/adjourn/graph/__main__.py"])
    assert program() == [sys.executable, "-m", "adjourn.graph"]
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    assert program() == ["uv", "run", "adjourn"]


@pytest.mark.parametrize("content", ["[tool.adjourn]\napp = 3\n", "[tool"])
def test_a_pyproject_that_cannot_be_used_says_so(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        settings_of()


def test_the_demo_and_the_command_line_mean_the_same_variable() -> None:
    assert options.DEMO_DIR_VARIABLE == DIRECTORY_VARIABLE


@pytest.mark.parametrize(
    ("seconds", "age"), [(0, "0s"), (59, "59s"), (60, "1m"), (7_300, "2h"), (864_000, "10d"), (-5, "0s")]
)
def test_ages_are_short(seconds: int, age: str) -> None:
    moment = datetime(2026, 1, 11, tzinfo=UTC)
    assert age_of(format_time(moment - timedelta(seconds=seconds)), moment) == age


def test_control_characters_are_written_out_and_lines_cut() -> None:
    assert clean("a\x1b[31mb\x07\t\n中") == "a\\x1b[31mb\\x07\t\n中"
    assert short({"a": "中\n文"}, 11) == '{"a": "中\\n…'
    assert short("one\n two") == "one two"


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_and_cut_lines_and_a_pipe_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, pipe = Terminal(), StringIO()
    for stream in (terminal, pipe):
        Screen(Settings(), stream).line(("支付服务报错", "red"), cut=True)
    assert terminal.getvalue() == "\x1b[31m支付服务 …\x1b[0m\n"
    assert pipe.getvalue() == "支付服务报错\n"


def test_columns_align_by_the_width_of_chinese_characters() -> None:
    pipe = StringIO()
    Screen(Settings(), pipe).table(("A", "B"), [("支付", "x"), ("ab", "y")])
    assert pipe.getvalue() == "A     B\n支付  x\nab    y\n"


def test_without_cursor_keys_the_beginning_of_a_choice_is_enough() -> None:
    typed = iter(["r", "ed", "e"])
    titles = ["approve: run it", "edit: run it with other arguments", "reject", "redo"]
    asks = Typed(Screen(Settings(), StringIO()), lambda _: next(typed))
    assert asks.choose("action", titles) == 1  # `r` may be two


RUN_IDS = ("run_1m8px6y5mgx1aaaa", "run_1m8px6y5mgx1aaab")
HEAD = ("RUN", "STATUS", "STEPS", "BY", "THREAD", "INPUT")
ROWS = [
    (
        one,
        "interrupted (ask_user)",
        "12",
        "wang",
        "conversation-2026-11-30",
        "支付服务 [bold]restart[/] :smile: the payments",
    )
    for one in RUN_IDS
]


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (140, HEAD),
        (100, ("RUN", "STATUS", "STEPS", "BY", "INPUT")),
        (72, ("RUN", "STATUS", "STEPS", "INPUT")),
    ],
)
def test_a_table_on_a_narrow_terminal_leaves_columns_out_and_cuts_only_the_last(
    monkeypatch: pytest.MonkeyPatch, columns: int, shown: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    Screen(Settings(), stream).table(HEAD, ROWS, spare=(4, 3))
    head, *lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert tuple(head.split()) == shown
    assert all(cell_len(line) <= columns for line in lines)
    for line, row in zip(lines, ROWS, strict=True):
        kept = [cell for name, cell in zip(HEAD[:-1], row, strict=False) if name in shown]
        assert re.split(r"  +", line)[: len(kept)] == kept


def test_a_table_on_a_terminal_that_is_too_narrow_for_any_of_it_keeps_ids_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    Screen(Settings(), stream).table(HEAD, ROWS, spare=(4, 3))
    assert all(one in stream.getvalue() for one in RUN_IDS)
