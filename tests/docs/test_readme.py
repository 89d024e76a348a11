"""The READMEs: what they show is what happens."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from docs.blocks import DOCS, READMES, ROOT, file, generated
from docs.refresh import FIRST_PAGES, diagram
from docs.session import MADE_BY_MAKE, masked, replayed, sessions
from wire.openai_server import OpenAIServer, fragment, streams

STALE = "stale; run: .venv/bin/python tests/docs/refresh.py"
SCRIPTS = ("ops.py", "agree.py")
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / one / "README.md" for one in ("graph", "nodes", "checkpoints")),
    ]
)
TIMEOUT_S = 60  # importing LangGraph takes seconds on a busy machine


def text_of(language: str) -> str:
    return READMES[language].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "document", [*READMES.values(), *FIRST_PAGES], ids=lambda one: one.relative_to(ROOT).as_posix()
)
def test_the_diagram_is_drawn_from_the_table_of_routes(document: Path) -> None:
    assert generated(document.read_text(encoding="utf-8"), "machine") == diagram(), STALE


@pytest.mark.parametrize("language", READMES)
def test_terminal_sessions_show_what_the_commands_print(language: str, tmp_path: Path) -> None:
    text = text_of(language)
    fresh = replayed(text, language, tmp_path)
    ran = [one.line for block in fresh for one in block if one.output is not None]
    written = [
        [one for one, now in zip(block, blocks, strict=True) if now.output is not None]
        for block, blocks in zip(sessions(text), fresh, strict=True)
    ]
    assert len(ran) >= 3
    assert masked(written) == masked(fresh), STALE


@pytest.mark.parametrize("language", READMES)
def test_each_row_of_what_happens_when_links_to_a_test_that_is_there(language: str) -> None:
    rows = re.findall(r"\[`(test_\w+)`\]\((tests/[\w/]+\.py)\)", text_of(language))
    assert len(rows) >= 12
    for name, path in rows:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), (name, path)


def test_the_two_commands_are_those_of_the_makefile_and_of_ci() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n\t@?(.+)$", makefile, re.MULTILINE)
    assert recipe is not None
    assert recipe[1].replace("$(BIN)", ".venv/bin") == MADE_BY_MAKE["make demo"]
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    for language in READMES:
        assert "```\nmake demo\nmake test\n```" in text_of(language)
    assert [line for line in ci if line in ("make demo", "make test")] == ["make demo", "make test"]


def test_both_languages_show_the_same() -> None:
    english, chinese = text_of("en"), text_of("zh")
    for name in SCRIPTS:
        assert file(english, name) == file(chinese, name)
    for sign in (r"^#+ ", r"^\| ", r"^- ", r"^<!-- ", r"^```"):
        counts = [len(re.findall(sign, prose(text), re.MULTILINE)) for text in (english, chinese)]
        assert counts[0] == counts[1], f"lines that match {sign!r}"
    for items in zip(*(re.findall(r"C-\d+", text) for text in (english, chinese)), strict=True):
        assert items[0] == items[1]


def prose(text: str) -> str:
    """The text without what is inside its fences."""
    return re.sub(r"^```\w*\n.*?^```$", "```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.relative_to(ROOT).as_posix())
def test_links_lead_somewhere_and_no_path_of_a_machine_is_shown(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", prose(text)):
        if not target.startswith(("http:", "https:")):
            assert (document.parent / target).exists(), target
    assert str(ROOT) not in text
    assert not re.search(r"(?<![\w.])/(home|root|Users|tmp)/", text)


# -- the scripts, as printed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in SCRIPTS:
        (tmp_path / name).write_text(file(text_of("en"), name), encoding="utf-8")
    return tmp_path


def python(folder: Path, server: OpenAIServer, *words: str) -> str:
    """What a Python process prints in `folder`, with the model's server in its environment."""
    kept: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")
    }
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**kept, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "x"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def calls(name: str, arguments: str) -> object:
    return streams([fragment(0, f"call_{name}", name, arguments)], finish="tool_calls")


def test_the_script_works_as_printed(folder: Path) -> None:
    replies = [
        calls("count_errors", '{"service": "pay"}'),
        calls("restart", '{"service": "pay", "environment": "prod"}'),
        streams("It had 442 errors, ", "and was restarted."),
    ]
    with OpenAIServer(replies) as server:
        printed = python(folder, server, "ops.py")
    assert printed.splitlines() == [
        "params_required of count_errors: count_errors needs environment.",
        "confirm_risky of restart: Restart pay in prod?",
        "finished (answered): It had 442 errors, and was restarted.",
    ]
    told = [one["content"] for one in server.requests[-1].messages if one["role"] == "tool"]
    assert '"errors": 442' in told[0]
    assert '"restarted": true' in told[1]


def test_resume_by_script_answers_one_kind_of_question_and_leaves_the_rest(folder: Path) -> None:
    replies = [
        calls("restart", '{"service": "pay", "environment": "staging"}'),
        calls("restart", '{"service": "pay", "environment": "prod"}'),
        streams("Restarted in staging."),
    ]
    start = (
        "from adjourn.graph import Runner; from ops import graph\n"
        "with Runner(graph) as runner: print(*(runner.start_sync('restart').id for _ in range(2)))"
    )
    twice = "import runpy; print(len([runpy.run_path('agree.py') for _ in range(2)]))"
    with OpenAIServer(replies) as server:
        in_staging, _in_prod = python(folder, server, "-c", start).split()
        agreed = python(folder, server, "-c", twice)
    assert agreed.splitlines() == [f"{in_staging} finished (answered), 2 steps, 1 call", "2"]
    assert len(server.requests) == 3
