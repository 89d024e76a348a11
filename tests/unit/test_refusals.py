"""Errors in Chinese: each sentence that somebody at a terminal can meet is in the table, and no other one is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.graph.cli import main
from adjourn.graph.refusals import CHINESE, OWN, PLAIN, in_plain_words, refusal

ROOT = Path(__file__).parents[2]
GRAPH, CHECKPOINTS = ROOT / "graph" / "adjourn" / "graph", ROOT / "checkpoints" / "adjourn" / "checkpoints"
# where what people type, the store that they name and the app that they name are refused
PLACES = [
    *sorted((GRAPH / "cli").rglob("*.py")),
    *(GRAPH / one for one in ("fields.py", "forks.py", "keys.py", "may_answer.py", "names.py", "past.py", "reading.py")),
    *(GRAPH / "server" / one for one in ("access.py", "serve.py")),
    *(GRAPH / "demo" / one for one in ("app.py", "workspace.py")),
    *(CHECKPOINTS / one for one in ("database.py", "forking.py", "importing.py", "retention.py", "servers.py", "setup.py")),
]  # fmt: skip
CLASSES = {"UsageError", "StoreError", "WrongValue", "NotAllowed"}
# what only code of one's own meets
PYTHON = {
    "the database was closed; open it again",
    "this database was opened before the process was forked; make the saver or the runner in this process",
    "synchronous is 'NORMAL' or 'FULL', not x",
    "x is a text, not x",
    "x takes a secret parameter, which is stored encrypted: set x, the same for every process of this store; make a key with: "
    "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'",
}


def said_in(node: ast.expr) -> str | None:
    """A sentence of the code with `x` for whatever differs; None: a name stands for it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            name = part.value.id if isinstance(part.value, ast.Name) else ""
            parts.append({"flag": "--set", "hint": "", "when": "is imported"}.get(name, "x"))
    return "".join(parts)


def sentences() -> Iterator[str]:
    """Each sentence of an error that these modules raise."""
    for place in PLACES:
        for node in ast.walk(ast.parse(place.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
                said = said_in(node.args[-1])
                if said is not None and said != "x":
                    yield f"x may not {said}" if node.func.id == "NotAllowed" else said


@pytest.mark.parametrize("said", sorted(set(sentences()) - PYTHON))
def test_each_error_that_people_at_a_terminal_meet_is_told_in_chinese(said: str) -> None:
    told = refusal(said, "zh")
    assert told != said
    assert re.search("[\u3000-\u9fff\uff00-\uffef]", told)
    assert refusal(said, "en") == said


def test_what_is_left_to_english_is_still_said() -> None:
    assert set(sentences()) >= PYTHON


@pytest.mark.parametrize("sentence", CHINESE)
def test_a_chinese_sentence_has_the_gaps_of_the_english_one(sentence: str) -> None:
    gaps = [set(re.findall(r"\{(\w+)\}", one)) for one in (sentence, CHINESE[sentence])]
    assert gaps[0] == gaps[1]


def test_what_stands_in_a_gap_is_told_in_chinese_too() -> None:
    said = "--set int_1.n: must be one of 1, 2, not '3'"
    assert refusal(said, "zh") == "--set int_1.n：只能是 1, 2 之一，不能是 '3'"
    said = "run run_1 is finished; it has no open question"
    assert refusal(said, "zh") == "运行 run_1 的状态是已完成；它没有待回答的问题"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("zhao may not answer int_1: it takes 2 of li, wang", "zhao 不能回答 int_1：需要 li, wang 中的 2 人"),
        ("a may not b", "a 不能b"),
    ],
)
def test_who_may_not_answer_is_told_in_chinese(said: str, told: str) -> None:
    assert refusal(said, "zh") == told


def test_what_nobody_knows_stays_as_it_is() -> None:
    said = "--app app.py:graph: two tools are called 'restart'"
    assert refusal(said, "zh") == "--app app.py:graph：two tools are called 'restart'"
    assert refusal("something\nelse", "zh") == "something\nelse"


@pytest.mark.parametrize(
    ("given", "english", "chinese"),
    [
        (
            "resume",
            "Missing argument 'RUN'. (see adjourn resume --help)",
            "缺少参数 RUN（见 adjourn resume --help）",
        ),
        ("prune", "Missing option '--older-than'. (see", "缺少选项 --older-than（见"),
        (
            "runs --limit x",
            "--limit takes a whole number (see adjourn runs",
            "--limit 必须是整数（见 adjourn runs",
        ),
        ("runs --limit 0", "--limit is at least 1 (see", "--limit 不能小于 1（见"),
        ("serve --port 70000", "--port is at most 65535 (see", "--port 不能大于 65535（见"),
        ("worker --lease x", "--lease takes a number (see", "--lease 必须是数字（见"),
        (
            "runs --limit",
            "requires an argument. (see adjourn runs --help)",
            "--limit 需要一个值（见 adjourn runs --help）",
        ),
        ("runs --json=3", "does not take a value. (see adjourn runs", "不带值（见 adjourn runs"),
        ("runs --bogus", "No such option: --bogus (see", "没有选项 --bogus（见"),
        ("runs --jso", "Possible options: --json", "没有选项 --jso，是否想写 --json"),
        ("foo", "No such command 'foo'. (see adjourn --help)", "没有命令 'foo'（见 adjourn --help）"),
        ("runz", "Did you mean 'run'", "没有命令 'runz'，是否想写 'run'"),
        ("runs a b", "unexpected extra argument(s) (a b)", "多余的参数：a b（见"),
        ("runs --status foo", "--status is one of 'running',", "--status 只能是 'running',"),
    ],
)
def test_what_the_parser_refuses_is_told_plainly_in_both_languages(
    given: str,
    english: str,
    chinese: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for language, said in (("en", english), ("zh", chinese)):
        monkeypatch.setenv("ADJOURN_LANG", language)
        assert main(given.split()) == 2
        assert said in capsys.readouterr().err
    assert main([*given.split(), "--json"]) == 2
    assert not re.search("[\u4e00-\u9fff]", capsys.readouterr().err)


def test_plain_words_are_words_of_the_table() -> None:
    for said in PLAIN.values():
        assert said in OWN
    assert in_plain_words("anything else") == "anything else"


def test_the_table_has_no_sentence_that_nobody_says() -> None:
    files = [file for root in ("graph", "nodes", "checkpoints") for file in (ROOT / root).rglob("*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files if file.name != "refusals.py"]
    code = "\n".join(
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    said = "\n".join([code, *PLAIN.values()])
    assert [one for one in OWN if max(re.split(r"\{\w+\}", one), key=len) not in said] == []
