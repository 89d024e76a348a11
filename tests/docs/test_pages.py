"""The pages of docs/: their terminal sessions print what they show, their code runs, and both languages tell the same."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import DOCS, fences, files
from docs.session import masked, replayed, sessions

from adjourn.graph import build_react
from adjourn.nodes import ScriptedModel, tool

STALE = "stale; run: .venv/bin/python tests/docs/refresh.py"
PAGES = sorted(DOCS.rglob("*.md"))
WITH_SESSIONS = [one for one in PAGES if "<!-- session -->" in one.read_text(encoding="utf-8")]
TUTORIALS = (DOCS / "tutorial.md", DOCS / "zh" / "tutorial.md")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def language_of(page: Path) -> str:
    return "zh" if page.parent.name == "zh" else "en"


@pytest.mark.parametrize("page", WITH_SESSIONS, ids=name_of)
def test_terminal_sessions_show_what_the_commands_print(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fresh = replayed(text, language_of(page), tmp_path)
    written = [
        [one for one, now in zip(block, blocks, strict=True) if now.output is not None]
        for block, blocks in zip(sessions(text), fresh, strict=True)
    ]
    assert masked(written) == masked(fresh), STALE


def test_the_pages_that_promise_a_session_have_one() -> None:
    assert {name_of(one) for one in WITH_SESSIONS} >= {
        "tutorial.md",
        "zh/tutorial.md",
        "from-create-agent.md",
        "from-savers.md",
        "resume-by-script.md",
    }


# -- code that is not a file of its own


@tool(effect="read")
def web_search(query: str) -> str:
    """Search."""
    return query


@tool(effect="read")
def read_page(url: str) -> str:
    """Read a page."""
    return url


@tool(effect="write")
def write_report(text: str) -> str:
    """Write a report."""
    return text


def given() -> dict[str, Any]:
    """What a reader of any page has at hand, by the names that the pages use."""
    model = ScriptedModel(turns=["Yes."])
    tools = [web_search, read_page, write_report]
    return {
        "build_react": build_react,
        "graph": build_react(model, tools, name="ops"),
        "model": model,
        "on_call": lambda: ("wang", "li"),
        "only_in_working_hours": lambda person, message, thread_id: None,
        "text": "wang: 0nHsr3pVQy0dYh8eVb2T\n",
        "tools": tools,
        "count_errors": web_search,
        "last_release": read_page,
        "restart": write_report,
        **{one.name: one for one in tools},
    }


SNIPPETS = [
    pytest.param(code, id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, code in enumerate(fences(page.read_text(encoding="utf-8"), "python"), 1)
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_code_in_a_page_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of code that awaits something of the reader's, the imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("ADJOURN_KEY", "")
    tree = ast.parse(code)
    if any(isinstance(one, ast.Await | ast.AsyncFor | ast.AsyncWith) for one in ast.walk(tree)):
        tree.body = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
        assert tree.body
    exec(compile(tree, "page", "exec"), given())


# -- two languages


def test_both_tutorials_take_the_same_steps() -> None:
    english, chinese = (one.read_text(encoding="utf-8") for one in TUTORIALS)
    for sign in (r"^## \d", r"^- ", r"^<!-- ", r"^```"):
        counts = [len(re.findall(sign, text, re.MULTILINE)) for text in (english, chinese)]
        assert counts[0] == counts[1] > 0, sign
    assert [_shape(one) for one in files(english).values()] == [
        _shape(one) for one in files(chinese).values()
    ]


def _shape(code: str) -> str:
    """Code without its comments and its words for people."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _is_word(node.value):
            node.value = "..."
    return ast.dump(tree)


def _is_word(text: str) -> bool:
    return text.isascii() and text.isidentifier()
