"""The demo's search: real SQLite FTS5 over real files, Chinese and English."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.graph.demo.search import DocumentIndex, match_expression
from adjourn.graph.demo.sections import split
from adjourn.graph.demo.workspace import Workspace

Index = Callable[[str], list[str]]


def index_of(root: Path, file: Path) -> DocumentIndex:
    return DocumentIndex(file, root, lambda: sorted(root.glob("*.md")))


@pytest.fixture(scope="module")
def titles(tmp_path_factory: pytest.TempPathFactory) -> Index:
    workspace = Workspace.create(tmp_path_factory.mktemp("bundled"))
    index = DocumentIndex(workspace.index_file, workspace.data_dir, workspace.documents)
    return lambda query: [hit.title for hit in index.search(query)]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("支付", "支付服务 5xx 处理手册"),
        ("支付服务 报错 处理建议", "支付服务 5xx 处理手册"),
        ("回滚要审批", "发布与回滚规定"),
        ("连接池", "连接池耗尽排查手册"),
        ("payment service errors", "Payment service: 5xx runbook"),
        ("does a rollback need approval", "Releases and rollbacks"),
        ("promoting replicas", "Database failover"),  # the stemmer: the text says "Promote the replica"
        ("HikariPool-1 connection pool exhausted", "Connection pool exhausted: how to find out why"),
    ],
)
def test_the_best_document_comes_first(titles: Index, query: str, best: str) -> None:
    assert best == titles(query)[0]


@pytest.mark.parametrize("query", ["", "  ，。", "sourdough", "量子纠缠", "the and of"])
def test_nothing_fits(titles: Index, query: str) -> None:
    assert titles(query) == []


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(", "x OR *", "col:支付", "支", "' OR 1=1 --", "\x00支付"]
)
def test_fts_syntax_in_a_query_is_only_words(titles: Index, query: str) -> None:
    assert isinstance(titles(query), list)


def test_a_hit_tells_its_section_and_the_steps_of_its_document(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# 甲\n## 现象\n磁盘满了\n## 步骤\n1. 清理\n2. 扩容\n", encoding="utf-8")
    [hit] = index_of(tmp_path, tmp_path / "i.db").search("磁盘")
    assert (hit.title, hit.section, hit.path, hit.excerpt) == ("甲", "现象", "a.md", "磁盘满了")
    assert hit.steps == ["清理", "扩容"]


def test_a_single_chinese_character_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("关于猫", encoding="utf-8")
    assert [hit.path for hit in index_of(tmp_path, tmp_path / "i.db").search("猫")] == ["a.md"]


def test_the_index_follows_its_documents(tmp_path: Path) -> None:
    index = index_of(tmp_path, tmp_path / "i.db")
    page = tmp_path / "a.md"
    page.write_text("kubernetes", encoding="utf-8")
    assert len(index.search("kubernetes")) == 1
    page.write_text("nomad scheduler", encoding="utf-8")
    os.utime(page, ns=(1, 1))
    assert index.search("kubernetes") == []
    page.unlink()
    assert index.search("nomad") == []


def test_a_title_counts_more_than_a_mention(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Coffee\nAlso about tea, in one line of many words.", encoding="utf-8")
    (tmp_path / "b.md").write_text("# Tea\nHow it is made.", encoding="utf-8")
    assert index_of(tmp_path, tmp_path / "i.db").search("tea")[0].title == "Tea"


def test_a_query_becomes_pairs_and_words() -> None:
    assert match_expression("支付服务 5xx") == '"支付" OR "付服" OR "服务" OR "5xx"'


def test_sections_of_markdown_rst_and_plain_text() -> None:
    assert [(s.title, s.heading) for s in split("# A\nx\n## B ##\ny\n```\n# no\n```", "f")] == [
        ("A", "A"),
        ("A", "B"),
    ]
    assert [(s.title, s.heading) for s in split("Title\n=====\nx\n\nPart\n----\ny", "f")] == [
        ("Title", "Title"),
        ("Title", "Part"),
    ]
    assert [(s.title, s.text) for s in split("just text", "notes")] == [("notes", "just text")]
    assert len(split("long line of words\n" * 500, "long")) > 5
